"""Settled members of classic groups, ready to be driven by a load.

A load's frames are written by Kafka's schemas in the newest versions, once for each run: what is measured is
the server, by requests as real clients send them.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, NamedTuple

from actors.network.wire import Closed, Wire, request_frame
from actors.protocol.messages import HeartbeatRequest
from bench.member.answers import beaten
from bench.member.requests import encoded
from bench.peers.lines import Address, Line, framed

FIND_TIMEOUT_S: Final = 60.0
BEAT_TIMEOUT_S: Final = 1.0


class Member(NamedTuple):
    """What is known of a settled member: who it is, in which generation, and where its coordinator is."""

    group_id: str
    member_id: str
    generation_id: int
    host: str
    port: int
    """The port of the member's coordinator."""

    def heartbeat(self) -> HeartbeatRequest:
        return HeartbeatRequest(self.group_id, self.generation_id, self.member_id)

    def heartbeat_frame(self) -> bytes:
        fields = {
            "group_id": self.group_id,
            "generation_id": self.generation_id,
            "member_id": self.member_id,
            "group_instance_id": None,
        }
        return request_frame("heartbeat", 4, 1, "bench", fields)

    def commit_frame(self, topic: str, partitions: int, offset: int) -> bytes:
        return request_frame("offset_commit", 8, 1, "bench", self.commit_fields(topic, partitions, offset))

    def commit_fields(self, topic: str, partitions: int, offset: int) -> dict[str, Any]:
        """The fields of OffsetCommit v8."""
        committed = [
            {
                "partition_index": partition,
                "committed_offset": offset,
                "committed_leader_epoch": 0,
                "committed_metadata": "",
            }
            for partition in range(partitions)
        ]
        return {
            "group_id": self.group_id,
            "generation_id_or_member_epoch": self.generation_id,
            "member_id": self.member_id,
            "group_instance_id": None,
            "topics": [{"name": topic, "partitions": committed}],
        }


async def find_coordinator(host: str, port: int, group_id: str) -> tuple[str, int]:
    """Find the group's coordinator, and ask again while there is none."""
    deadline = asyncio.get_running_loop().time() + FIND_TIMEOUT_S
    while True:
        wire = await Wire.connect(host, port, "bench")
        try:
            found = await wire.call("find_coordinator", 2, key=group_id, key_type=0)
        finally:
            await wire.close()
        if found["error_code"] == 0:
            return found["host"], found["port"]
        if asyncio.get_running_loop().time() > deadline:
            raise TimeoutError(f"no coordinator for {group_id}: error {found['error_code']}")
        await asyncio.sleep(0.05)


async def first_served_heartbeat(bootstraps: list[Address], member: Member) -> float:
    """Heartbeat until an answer has no error. Returns the loop's time of that."""
    loop = asyncio.get_running_loop()
    while True:
        for address in bootstraps:
            try:
                if await _beat(address, member) == 0:
                    return loop.time()
            except (OSError, Closed, TimeoutError):
                pass
            await asyncio.sleep(0.02)


async def _beat(address: Address, member: Member) -> int:
    """Send the member's heartbeat to its coordinator, as a node tells it. Returns the error."""
    line = await Line.open(address)
    try:
        async with asyncio.timeout(BEAT_TIMEOUT_S):
            await line.follow(member.group_id)
            return int(beaten(await line.ask(framed(encoded(member.heartbeat())))).error_code)
    finally:
        line.close()
