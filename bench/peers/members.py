"""Members made of raw requests: joined, settled, and ready to be driven by a load."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from cluster.wire import Closed, Wire, request_frame

SESSION_TIMEOUT_MS = 300_000
SETTLE_TIMEOUT_S = 60.0


class Member(NamedTuple):
    """A settled member of a classic group."""

    group_id: str
    member_id: str
    generation_id: int
    host: str
    port: int
    """Its coordinator's node."""

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
        """Of OffsetCommit v8."""
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
    """Where the group's coordinator listens; asks again while there is none."""
    deadline = asyncio.get_running_loop().time() + SETTLE_TIMEOUT_S
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


async def settle_group(bootstrap: tuple[str, int], group_id: str, size: int) -> list[Member]:
    """`size` members join a new classic group and get their (empty) assignments, though its coordinator may
    move meanwhile."""
    return await asyncio.wait_for(_settle(bootstrap, group_id, [""] * size), SETTLE_TIMEOUT_S)


async def _settle(bootstrap: tuple[str, int], group_id: str, member_ids: list[str]) -> list[Member]:
    while True:
        host, port = await find_coordinator(*bootstrap, group_id)
        wires = [await Wire.connect(host, port, f"bench-{n}") for n in range(len(member_ids))]
        try:
            generation_id = await _generation(wires, group_id, member_ids)
        finally:
            for wire in wires:
                await wire.close()
        if generation_id is not None:
            return [Member(group_id, member_id, generation_id, host, port) for member_id in member_ids]


async def _generation(wires: list[Wire], group_id: str, member_ids: list[str]) -> int | None:
    """All members join and sync once: into which generation; None if one of them has to join again. Fills in
    the ids that they are given."""
    together = zip(wires, member_ids, strict=True)
    joined = await asyncio.gather(*(_join(wire, group_id, member_id) for wire, member_id in together))
    for number, answer in enumerate(joined):
        if answer["error_code"] == ErrorCode.member_id_required:
            member_ids[number] = answer["member_id"]
        elif answer["error_code"] == ErrorCode.unknown_member_id:
            member_ids[number] = ""  # handed out by a leader that has moved since: nobody else knows of it
    generations = {answer["generation_id"] for answer in joined}
    if len(generations) != 1 or any(answer["error_code"] != 0 for answer in joined):
        return None
    told = zip(wires, joined, strict=True)
    synced = await asyncio.gather(*(_sync(wire, group_id, answer) for wire, answer in told))
    return generations.pop() if all(answer["error_code"] == 0 for answer in synced) else None


async def _join(wire: Wire, group_id: str, member_id: str) -> dict[str, Any]:
    return await wire.call(
        "join_group",
        9,
        timeout_s=SETTLE_TIMEOUT_S,
        group_id=group_id,
        session_timeout=SESSION_TIMEOUT_MS,
        rebalance_timeout=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b""}],
    )


async def _sync(wire: Wire, group_id: str, joined: dict[str, Any]) -> dict[str, Any]:
    assignments = []
    if joined["leader"] == joined["member_id"]:
        assignments = [{"member_id": m["member_id"], "assignment": b""} for m in joined["members"]]
    return await wire.call(
        "sync_group",
        5,
        group_id=group_id,
        generation_id=joined["generation_id"],
        member_id=joined["member_id"],
        protocol_type="consumer",
        protocol_name="range",
        assignments=assignments,
    )


async def first_served_heartbeat(bootstraps: list[tuple[str, int]], member: Member) -> float:
    """Loop time at which the member's heartbeat is answered without an error again."""
    loop = asyncio.get_running_loop()
    while True:
        for host, port in bootstraps:
            try:
                if await _beat(host, port, member) == 0:
                    return loop.time()
            except (OSError, Closed, TimeoutError):
                pass
            await asyncio.sleep(0.02)


async def _beat(host: str, port: int, member: Member) -> int:
    wire = await Wire.connect(host, port, "bench")
    try:
        found = await wire.call("find_coordinator", 2, timeout_s=1, key=member.group_id, key_type=0)
        if found["error_code"] != 0:
            return int(found["error_code"])
    finally:
        await wire.close()
    wire = await Wire.connect(found["host"], found["port"], "bench")
    try:
        answer = await wire.call(
            "heartbeat",
            4,
            timeout_s=1,
            group_id=member.group_id,
            generation_id=member.generation_id,
            member_id=member.member_id,
        )
        return int(answer["error_code"])
    finally:
        await wire.close()
