"""A consumer that brings an assignor, and a coordinator that fails it at the worst moment."""

from __future__ import annotations

import asyncio
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from actors.assignors.by_members.sticky import Sticky
from actors.network.wire import frame_of, parsed
from bench.client_assignors.consumer import AssigningConsumer
from bench.client_assignors.wire import HEARTBEAT, class_with_tags
from bench.member.computing import ComputingMember
from bench.member.consumer import ConsumerTerms
from tests.polling import DEADLINE_S, reached

TOPIC_ID: Final = UUID(int=1)
APIS: Final = {
    3: ("metadata", 12),
    8: ("offset_commit", 9),
    9: ("offset_fetch", 7),
    10: ("find_coordinator", 3),
    18: ("api_versions", 3),
    68: HEARTBEAT,
}
FIRST, SECOND = [0, 1], [1, 2]
"""What the consumer is given, and what it is given once it says that it owns that."""


class Coordinator:
    """A broker that gives a consumer the first partitions, then the second, whose offsets it does not tell
    when it is asked for the first time."""

    def __init__(self) -> None:
        self.port = 0
        self.consumer: AssigningConsumer | None = None
        self.refusals = 0
        self.said: list[tuple[list[int], list[int]]] = []
        """The partitions that heartbeats called owned, and those that the consumer read at that moment."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                writer.write(self._answer(frame))
        except asyncio.IncompleteReadError:
            writer.close()

    def _answer(self, frame: bytes) -> bytes:
        api, version = APIS[int.from_bytes(frame[:2], "big")]
        correlation_id, asked = parsed(class_with_tags(api, version, "request"), frame)
        fields = {"throttle_time": 0, **getattr(self, api)(asked)}
        return frame_of(class_with_tags(api, version, "response"), correlation_id, "", fields)

    def api_versions(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"error_code": ErrorCode.none, "api_keys": ()}

    def find_coordinator(self, _: dict[str, Any]) -> dict[str, Any]:
        place = {"node_id": 0, "host": "127.0.0.1", "port": self.port}
        return {"error_code": ErrorCode.none, "error_message": None, **place}

    def metadata(self, _: dict[str, Any]) -> dict[str, Any]:
        topic = {
            "error_code": ErrorCode.none,
            "name": "t",
            "topic_id": TOPIC_ID,
            "is_internal": False,
            "partitions": (),
        }
        return {"brokers": (), "topics": [topic]}

    def offset_commit(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"topics": ()}

    def offset_fetch(self, asked: dict[str, Any]) -> dict[str, Any]:
        numbers = asked["topics"][0]["partition_indexes"]
        fails = 2 in numbers and not self.refusals
        self.refusals += fails
        row = {
            "committed_offset": -1,
            "metadata": "",
            "error_code": ErrorCode.not_coordinator if fails else ErrorCode.none,
        }
        rows = [{"partition_index": number, **row} for number in numbers]
        return {"topics": [{"name": "t", "partitions": rows}]}

    def consumer_group_heartbeat(self, asked: dict[str, Any]) -> dict[str, Any]:
        assert self.consumer is not None
        given = FIRST
        if asked["topic_partitions"] is not None:
            owned = [number for each in asked["topic_partitions"] for number in each["partitions"]]
            self.said.append((owned, sorted(number for _, number in self.consumer.positions)))
            given = SECOND if owned else FIRST
        told = {"error_code": ErrorCode.none, "member_epoch": 1, "heartbeat_interval": 50}
        return told | {"assignment": {"topic_partitions": [{"topic_id": TOPIC_ID, "partitions": given}]}}


def test_partitions_are_read_no_more_before_they_are_said_to_be_given_up() -> None:
    async def story() -> Coordinator:
        coordinator = Coordinator()
        async with await asyncio.start_server(coordinator.serve, "127.0.0.1", 0) as server:
            coordinator.port = server.sockets[0].getsockname()[1]
            member = ComputingMember(ConsumerTerms("g", ("t",)), "a", [Sticky()])
            consumer = AssigningConsumer([("127.0.0.1", coordinator.port)], member)
            coordinator.consumer = consumer
            running = asyncio.create_task(consumer.run())
            await reached(lambda: SECOND in [owned for owned, _ in coordinator.said], "it owns the second")
            consumer.close()
            async with asyncio.timeout(DEADLINE_S):
                await running
        return coordinator

    coordinator = asyncio.run(story())
    assert coordinator.refusals == 1
    assert all(owned == read for owned, read in coordinator.said), coordinator.said
