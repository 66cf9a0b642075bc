"""A controller that says just what a story wants: it speaks Kafka's protocol over a real socket, about a
metadata log that the story writes."""

from __future__ import annotations

import asyncio
from typing import Any

from kio.schema.errors import ErrorCode

from actors.topics.batch import read_header
from actors.upstream.controllers import METADATA_TOPIC, Address
from actors.upstream.following import METADATA_TOPIC_ID
from tests.upstream.speaking import Speaker

APIS = {
    1: ("fetch", 17, 17),
    18: ("api_versions", 0, 0),
    55: ("describe_quorum", 0, 1),
    59: ("fetch_snapshot", 0, 0),
    60: ("describe_cluster", 0, 1),
    63: ("broker_heartbeat", 0, 2),
}
FINE, NOT_LEADER = ErrorCode.none, ErrorCode.not_leader_or_follower
CLUSTER_ID = "scripted"


class ScriptedController(Speaker):
    """A controller; its attributes may be changed at any time."""

    apis = APIS

    def __init__(self) -> None:
        super().__init__()
        self.controller_id = 1
        self.epoch = 1
        self.cluster_id = CLUSTER_ID
        self.leader: Address | None = None
        """Where the active controller is, if this is not it."""
        self.batches: list[bytes] = []
        self.start = 0
        """The offset at which the log begins; what is before it is in the snapshot."""
        self.high_watermark = 0
        self.snapshot: tuple[int, int, bytes] | None = None
        """End offset, epoch and bytes of the snapshot."""
        self.chunk_bytes = 1 << 20
        self.diverging: dict[str, int] | None = None
        """What one Fetch is told about another history; then it is forgotten."""
        self.fetches: list[int] = []
        """The offsets that were asked for."""

    async def _describe_cluster(self, asked: Any) -> dict[str, Any]:
        host, port = self.leader or self.address
        row = {
            "broker_id": 9 if self.leader else self.controller_id,
            "host": host,
            "port": port,
            "rack": None,
        }
        told = {"cluster_id": self.cluster_id, "controller_id": row["broker_id"], "brokers": [row]}
        return {"throttle_time": 0, "error_code": FINE, **told}

    async def _describe_quorum(self, asked: Any) -> dict[str, Any]:
        voter = {"replica_id": self.controller_id, "log_end_offset": 0}
        partition = {
            "partition_index": 0,
            "error_code": NOT_LEADER if self.leader else FINE,
            "leader_id": self.controller_id,
            "leader_epoch": self.epoch,
            "high_watermark": self.high_watermark,
            "current_voters": [voter],
            "observers": [],
        }
        topic = {"topic_name": METADATA_TOPIC, "partitions": [partition]}
        return {"error_code": FINE, "topics": [topic]}

    async def _fetch(self, asked: Any) -> dict[str, Any]:
        (partition,) = asked["topics"][0]["partitions"]
        offset = partition["fetch_offset"]
        self.fetches.append(offset)
        answer: dict[str, Any] = {
            "partition_index": 0,
            "error_code": FINE,
            "high_watermark": self.high_watermark,
        }
        answer |= {"aborted_transactions": None, "records": None}
        if self.leader or partition["current_leader_epoch"] != self.epoch:
            answer["error_code"] = NOT_LEADER
        elif self.snapshot is not None and offset < self.start:
            answer["snapshot_id"] = {"end_offset": self.snapshot[0], "epoch": self.snapshot[1]}
        elif self.diverging is not None:
            answer["diverging_epoch"], self.diverging = self.diverging, None
        else:
            found = [batch for batch in self.batches if read_header(batch).last_offset >= offset]
            answer["records"] = b"".join(found)
            if not found:
                await asyncio.sleep(0.002)  # a controller holds such a fetch for a while
        topic = {"topic_id": METADATA_TOPIC_ID, "partitions": [answer]}
        return {"throttle_time": 0, "error_code": FINE, "responses": [topic]}

    async def _fetch_snapshot(self, asked: Any) -> dict[str, Any]:
        (partition,) = asked["topics"][0]["partitions"]
        assert self.snapshot is not None
        end_offset, epoch, content = self.snapshot
        position = partition["position"]
        answer = {
            "index": 0,
            "error_code": FINE,
            "snapshot_id": {"end_offset": end_offset, "epoch": epoch},
            "current_leader": {"leader_id": self.controller_id, "leader_epoch": self.epoch},
            "size": len(content),
            "position": position,
            "unaligned_records": content[position : position + self.chunk_bytes],
        }
        topic = {"name": METADATA_TOPIC, "partitions": [answer]}
        return {"throttle_time": 0, "error_code": FINE, "topics": [topic]}
