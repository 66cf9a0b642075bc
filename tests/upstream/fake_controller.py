"""A controller on a real port, which answers what a story tells it to: for what a real one does rarely."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kio.schema.errors import ErrorCode

from actors.network.wire import frame_of, message_class, parsed
from actors.protocol.api_keys import API_VERSIONS, DESCRIBE_CLUSTER
from actors.upstream.controllers import METADATA_TOPIC
from actors.upstream.requests import NEEDED_VERSIONS

HOST = "127.0.0.1"
CLUSTER = "cluster-of-others-0000"
DESCRIBE_QUORUM, ENVELOPE = 55, 58
APIS = {
    API_VERSIONS: "api_versions",
    DESCRIBE_CLUSTER: "describe_cluster",
    DESCRIBE_QUORUM: "describe_quorum",
    ENVELOPE: "envelope",
} | {needed.api_key: needed.api for needed in NEEDED_VERSIONS.values()}
Answer = Callable[[dict[str, Any]], dict[str, Any] | None]
"""What answers a request with fields; None: the connection is closed instead."""


class FakeController:
    """One controller of a quorum. Use it as a context manager."""

    def __init__(self, node_id: int, quorum: list[FakeController]) -> None:
        self.node_id = node_id
        self.active = 1
        self.port = 0
        self.is_mute = False
        """Whether it reads and never answers."""
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.answers: dict[str, Answer] = {}
        self._quorum = quorum
        self._writers: list[asyncio.StreamWriter] = []
        quorum.append(self)

    @property
    def address(self) -> tuple[str, int]:
        return HOST, self.port

    async def __aenter__(self) -> FakeController:
        self._server = await asyncio.start_server(self._serve, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        await self.hang_up()

    async def hang_up(self) -> None:
        """Close all connections."""
        for writer in self._writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                answer = self._answer(await reader.readexactly(size))
                if answer is None:
                    writer.close()
                    return
                if not self.is_mute:
                    writer.write(answer)

    def _answer(self, frame: bytes) -> bytes | None:
        key, version = struct.unpack_from(">hh", frame)
        correlation_id, fields = parsed(message_class(APIS[key], version, "request"), frame)
        self.asked.append((APIS[key], fields))
        answer = self._plain(APIS[key], fields)
        if answer is None:
            return None
        response_class = message_class(APIS[key], version, "response")
        known = {name: value for name, value in answer.items() if name in response_class.__dataclass_fields__}
        return frame_of(response_class, correlation_id, "", known)

    def _plain(self, api: str, fields: dict[str, Any]) -> dict[str, Any] | None:
        if api in self.answers:
            return self.answers[api](fields)
        if api == "api_versions":
            keys = {API_VERSIONS: 3, DESCRIBE_CLUSTER: 1, DESCRIBE_QUORUM: 1} | {
                needed.api_key: needed.high for needed in NEEDED_VERSIONS.values()
            }
            return {
                "error_code": ErrorCode.none,
                "api_keys": [
                    {"api_key": key, "min_version": 0, "max_version": high} for key, high in keys.items()
                ],
                "throttle_time": 0,
                "supported_features": [{"name": "metadata.version", "min_version": 7, "max_version": 33}],
                "finalized_features": [
                    {"name": "metadata.version", "max_version_level": 33, "min_version_level": 33}
                ],
            }
        if api == "describe_quorum":
            return self._quorum_answer()
        assert api == "describe_cluster", api
        brokers = [
            {"broker_id": each.node_id, "host": HOST, "port": each.port, "rack": None}
            for each in self._quorum
        ]
        return {
            "throttle_time": 0,
            "error_code": ErrorCode.none,
            "endpoint_type": 2,
            "cluster_id": CLUSTER,
            "controller_id": self.active,
            "brokers": brokers,
        }

    def _quorum_answer(self) -> dict[str, Any]:
        leads = self.active == self.node_id
        replica = {"log_end_offset": 1, "last_fetch_timestamp": -1, "last_caught_up_timestamp": -1}
        partition = {
            "partition_index": 0,
            "error_code": ErrorCode.none if leads else ErrorCode.not_leader_or_follower,
            "leader_id": self.active,
            "leader_epoch": 1,
            "high_watermark": 1,
            "current_voters": [{"replica_id": each.node_id, **replica} for each in self._quorum],
            "observers": [],
        }
        return {
            "error_code": ErrorCode.none,
            "topics": [{"topic_name": METADATA_TOPIC, "partitions": [partition]}],
        }
