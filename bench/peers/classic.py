"""Members of classic groups that behave as Java's consumer does: join, sync, heartbeat, join again when told.

The versions are the newest that are not flexible, and every peer has them: JoinGroup 5, SyncGroup 3,
Heartbeat 3.
"""

from __future__ import annotations

import asyncio
import struct
import time
from typing import Any, Final, NamedTuple

from actors.protocol.wire import legacy_bytes, legacy_string
from bench.peers.lines import NOT_YET, RETRY_S, Line, coordinators, open_all, request
from bench.peers.members import Member
from bench.peers.options import Failed
from bench.peers.peer import CpuClock, Peer

JOIN_GROUP: Final = 11
HEARTBEAT: Final = 12
LEAVE_GROUP: Final = 13
SYNC_GROUP: Final = 14
HEARTBEAT_INTERVAL_S: Final = 3.0
STORM_TIMEOUT_S: Final = 120.0
ILLEGAL_GENERATION: Final = 22
UNKNOWN_MEMBER_ID: Final = 25
REBALANCE_IN_PROGRESS: Final = 27
MEMBER_ID_REQUIRED: Final = 79
_JOINED: Final = struct.Struct(">hi")
_ERROR_AT: Final = 8
"""Correlation id, throttle time, then the error code: so in all three answers."""
_SUBSCRIPTION: Final = legacy_bytes(b"\0\1\0\0\0\1\0\5bench\xff\xff\xff\xff\0\0\0\0")
_ASSIGNMENT: Final = legacy_bytes(b"\0\1\0\0\0\1\0\5bench\0\0\0\2\0\0\0\0\0\0\0\1\xff\xff\xff\xff")
_TIMEOUTS: Final = struct.Struct(">ii")
_NO_INSTANCE: Final = b"\xff\xff"


class Storm(NamedTuple):
    """From the first JoinGroup until every group is stable."""

    seconds: float
    cpu_s: float
    requests: int
    generator_share: float
    members: list[Member]


class Group:
    """Its members have settled when all of them synced in one generation."""

    def __init__(self, group_id: str, size: int) -> None:
        self.group_id = group_id
        self._size = size
        self._synced: dict[str, int] = {}
        self._in_generation: dict[int, int] = {}
        self.settled = asyncio.Event()

    def sync(self, member_id: str, generation_id: int) -> None:
        before = self._synced.get(member_id)
        if before is not None:
            self._in_generation[before] -= 1
        self._synced[member_id] = generation_id
        self._in_generation[generation_id] = self._in_generation.get(generation_id, 0) + 1
        if self._in_generation[generation_id] == self._size:
            self.settled.set()


class ClassicMember:
    """One task: `run` goes on until it is cancelled."""

    def __init__(self, line: Line, group: Group, session_timeout_ms: int) -> None:
        self._line = line
        self._group = group
        self._group_id = legacy_string(group.group_id)
        self._timeouts = _TIMEOUTS.pack(session_timeout_ms, 60_000)
        self.member_id = ""
        self.generation_id = -1

    async def run(self) -> None:
        while True:
            answer = await self._join()
            if answer is not None and await self._sync(answer):
                self._group.sync(self.member_id, self.generation_id)
                await self._beat_while_stable()

    async def leave(self) -> None:
        await self._line.ask(request(LEAVE_GROUP, 2, self._group_id + legacy_string(self.member_id)))

    async def _join(self) -> bytes | None:
        """A JoinGroup answer without error."""
        body = b"".join(
            (
                self._group_id,
                self._timeouts,
                legacy_string(self.member_id),
                _NO_INSTANCE,
                legacy_string("consumer"),
                b"\0\0\0\1",
                legacy_string("range"),
                _SUBSCRIPTION,
            )
        )
        answer = await self._line.ask(request(JOIN_GROUP, 5, body))
        error, generation_id = _JOINED.unpack_from(answer, _ERROR_AT)
        if error == MEMBER_ID_REQUIRED:
            self.member_id, _ = _string(answer, _after_names(answer)[0])
            return None
        if await self._is_to_be_retried(error):
            return None
        self.generation_id = generation_id
        self.member_id, _ = _string(answer, _after_names(answer)[0])
        return answer

    async def _sync(self, joined: bytes) -> bool:
        is_leader = _leader(joined) == self.member_id
        members = _members(joined) if is_leader else []
        assignments = [legacy_string(member_id) + _ASSIGNMENT for member_id in members]
        body = self._identity() + struct.pack(">i", len(assignments)) + b"".join(assignments)
        answer = await self._line.ask(request(SYNC_GROUP, 3, body))
        (error,) = struct.unpack_from(">h", answer, _ERROR_AT)
        return not await self._is_to_be_retried(error)

    async def _beat_while_stable(self) -> None:
        frame = request(HEARTBEAT, 3, self._identity())
        while True:
            await asyncio.sleep(HEARTBEAT_INTERVAL_S)
            (error,) = struct.unpack_from(">h", await self._line.ask(frame), _ERROR_AT)
            if await self._is_to_be_retried(error):
                return

    def _identity(self) -> bytes:
        generation_id = struct.pack(">i", self.generation_id)
        return self._group_id + generation_id + legacy_string(self.member_id) + _NO_INSTANCE

    async def _is_to_be_retried(self, error: int) -> bool:
        """False without an error. Failed: one that a consumer would not go on after."""
        if error == 0:
            return False
        if error == UNKNOWN_MEMBER_ID:
            self.member_id = ""
        elif error in NOT_YET:
            await asyncio.sleep(RETRY_S)
            await self._line.follow(self._group.group_id)
        elif error not in (REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION):
            raise Failed(f"{self._group.group_id}: error {error}")
        return True


def _string(answer: bytes, at: int) -> tuple[str, int]:
    (size,) = struct.unpack_from(">h", answer, at)
    end = at + 2 + max(size, 0)
    return answer[at + 2 : end].decode(), end


def _after_names(joined: bytes) -> tuple[int, int]:
    """Where member id and, behind it, the members stand in a JoinGroup answer."""
    at = _ERROR_AT + _JOINED.size
    for _ in ("protocol name", "leader"):
        _, at = _string(joined, at)
    return at, _string(joined, at)[1]


def _leader(joined: bytes) -> str:
    _, at = _string(joined, _ERROR_AT + _JOINED.size)
    return _string(joined, at)[0]


def _members(joined: bytes) -> list[str]:
    _, at = _after_names(joined)
    (count,) = struct.unpack_from(">i", joined, at)
    at += 4
    members = []
    for _ in range(count):
        member_id, at = _string(joined, at)
        _, at = _string(joined, at)  # the instance id
        (size,) = struct.unpack_from(">i", joined, at)
        at += 4 + max(size, 0)
        members.append(member_id)
    return members


async def storm(
    peer: Peer, group_ids: list[str], size: int, session_timeout_ms: int, *, stay: bool = False
) -> Storm:
    """`size` members of each group connect, then all of them join at once. They leave afterwards unless they
    are to `stay`. Failed: a group did not settle."""
    found = await coordinators(peer.bootstrap[0], group_ids)
    lines = await open_all(found[group_id] for group_id in group_ids for _ in range(size))
    groups = [Group(group_id, size) for group_id in group_ids]
    of_line = [group for group in groups for _ in range(size)]
    members = [
        ClassicMember(line, group, session_timeout_ms) for line, group in zip(lines, of_line, strict=True)
    ]
    clock, began, own = CpuClock(peer.pids()), time.monotonic(), time.process_time()
    tasks = [asyncio.create_task(member.run()) for member in members]
    settled = asyncio.gather(*(group.settled.wait() for group in groups))
    try:
        await first_of(settled, tasks)
        seconds, cpu_s = time.monotonic() - began, clock.seconds()
        share = (time.process_time() - own) / seconds
        requests = sum(line.requests for line in lines)
    finally:
        settled.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(settled, *tasks, return_exceptions=True)
    if not stay:
        await asyncio.gather(*(member.leave() for member in members))
    for line in lines:
        line.close()
    settled_members = [
        Member(group.group_id, member.member_id, member.generation_id, *line.address)
        for group, member, line in zip(of_line, members, lines, strict=True)
    ]
    return Storm(seconds, cpu_s, requests, share, settled_members)


async def first_of(wanted: asyncio.Future[list[Any]], tasks: list[asyncio.Task[None]]) -> None:
    """Wait for what is wanted; tasks never end by themselves, unless with an error, which is raised."""
    waiting: set[asyncio.Future[object]] = {wanted, *tasks}  # type: ignore[arg-type]
    done, _ = await asyncio.wait(waiting, timeout=STORM_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
    if not done:
        raise Failed(f"not settled after {STORM_TIMEOUT_S:.0f} s")
    for each in done:
        each.result()
