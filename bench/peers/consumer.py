"""Members of KIP-848 groups that behave as real ones do: they beat at the interval they were told, take what
they are given, give up the rest at once, and say so at once.

ConsumerGroupHeartbeat v1: member ids are the client's.
"""

from __future__ import annotations

import asyncio
import struct
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from actors.protocol.wire import compact_count, compact_string, read_uvarint, uvarint
from bench.peers.classic import first_of
from bench.peers.lines import NOT_YET, RETRY_S, Line, request
from bench.peers.options import Failed
from bench.peers.peer import CpuClock, Peer

CONSUMER_GROUP_HEARTBEAT: Final = 68
REBALANCE_TIMEOUT_MS: Final = 60_000
TOPIC_ID_BYTES: Final = 16
_ERROR_AT: Final = 9
"""Correlation id, tags, throttle time, then the error code."""
_NOTHING: Final = b"\1"
"""An empty compact array."""
_UNCHANGED: Final = b"\0"
"""Null: a field that is as it was."""
_NO_TIMEOUT: Final = struct.pack(">i", -1)


class Answer(NamedTuple):
    """`assigned`: the partitions by topic as they stand on the wire, None without news."""

    error: int
    member_epoch: int
    interval_s: float
    assigned: bytes | None
    partitions: int


def parse(answer: bytes) -> Answer:
    """Of ConsumerGroupHeartbeat v0 and v1."""
    (error,) = struct.unpack_from(">h", answer, _ERROR_AT)
    at = _ERROR_AT + 2
    for _ in ("error message", "member id"):
        size, at = read_uvarint(answer, at)
        at += max(size - 1, 0)
    epoch, interval_ms, has_assignment = struct.unpack_from(">iib", answer, at)
    if has_assignment < 0:
        return Answer(error, epoch, interval_ms / 1000, None, 0)
    first = at = at + 9
    topics, at = read_uvarint(answer, at)
    count = 0
    for _ in range(topics - 1):
        partitions, at = read_uvarint(answer, at + TOPIC_ID_BYTES)
        count += partitions - 1
        at += 4 * (partitions - 1) + 1
    return Answer(error, epoch, interval_ms / 1000, answer[first:at], count)


class ConsumerGroup:
    """Who is in it, and whether it is at rest: one epoch, every partition owned, shares as even as can be,
    nobody who still owes an acknowledgement."""

    def __init__(self, group_id: str, partitions: int) -> None:
        self.group_id = group_id
        self.partitions = partitions
        self.members: set[ConsumerMember] = set()
        self.owned = 0
        self.unacknowledged = 0
        self.settled = asyncio.Event()

    def expect(self, partitions: int | None = None) -> None:
        """Something was done to it: it has yet to settle."""
        self.partitions = self.partitions if partitions is None else partitions
        self.settled.clear()

    def look(self) -> None:
        if self.owned != self.partitions or self.unacknowledged or self.settled.is_set():
            return
        least = self.partitions // len(self.members)
        epochs = {member.epoch for member in self.members}
        if len(epochs) == 1 and all(least <= member.count <= least + 1 for member in self.members):
            self.settled.set()


class ConsumerMember:
    """One task: `run` goes on until it is cancelled or `leave` was called."""

    def __init__(self, line: Line, group: ConsumerGroup, topics: Sequence[str], number: int) -> None:
        self._line = line
        self._group = group
        self._topics = compact_count(len(topics)) + b"".join(compact_string(topic) for topic in topics)
        self.member_id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{group.group_id}/{number}"))
        self.epoch = 0
        self.count = 0
        self._owned = _NOTHING
        self._interval_s = 0.0
        group.members.add(self)

    async def run(self) -> None:
        body = compact_string("uniform") + _NOTHING
        timeout = struct.pack(">i", REBALANCE_TIMEOUT_MS)
        has_news = await self._beat(timeout + self._topics + _UNCHANGED + body)
        while True:
            if has_news:
                self._group.unacknowledged += 1
                has_news = await self._beat(_steady(self._owned))
                self._group.unacknowledged -= 1
                self._group.look()
            else:
                await asyncio.sleep(self._interval_s)
                has_news = await self._beat(_steady(_UNCHANGED))

    def leave(self) -> asyncio.Future[bytes]:
        """It is out of the group at once; the answer is the coordinator's. Cancel its task before."""
        self._group.members.discard(self)
        self._group.owned -= self.count
        self.epoch = -1
        return self._line.ask(self._frame(_steady(_UNCHANGED)))

    def steady_frame(self) -> bytes:
        """Its heartbeat when there is no news."""
        return self._frame(_steady(_UNCHANGED))

    def _frame(self, rest: bytes) -> bytes:
        head = compact_string(self._group.group_id) + compact_string(self.member_id)
        head += struct.pack(">i", self.epoch) + _UNCHANGED + _UNCHANGED
        return request(CONSUMER_GROUP_HEARTBEAT, 1, head + rest + b"\0", flexible=True)

    async def _beat(self, rest: bytes) -> bool:
        """True: it was given other partitions than it had."""
        while True:
            answer = parse(await self._line.ask(self._frame(rest)))
            if answer.error not in NOT_YET:
                break
            await asyncio.sleep(RETRY_S)
            await self._line.follow(self._group.group_id)
        if answer.error:
            raise Failed(f"ConsumerGroupHeartbeat: error {answer.error}")
        self.epoch = answer.member_epoch
        self._interval_s = answer.interval_s
        has_news = answer.assigned is not None and answer.assigned != self._owned
        if has_news:
            assert answer.assigned is not None, "that is the news"
            self._group.owned += answer.partitions - self.count
            self.count = answer.partitions
            self._owned = answer.assigned
        self._group.look()
        return has_news


def _steady(owned: bytes) -> bytes:
    """Rebalance timeout, topics, regex and assignor as they were; what it owns."""
    return _NO_TIMEOUT + _UNCHANGED * 3 + owned


class Step(NamedTuple):
    """From something done to a group until it settled."""

    seconds: float
    cpu_s: float
    requests: int
    generator_share: float


class Crowd:
    """Members with their lines and tasks."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self.members: list[ConsumerMember] = []
        self.lines: list[Line] = []
        self.tasks: list[asyncio.Task[None]] = []
        self._left: set[asyncio.Task[None]] = set()

    def add(self, line: Line, member: ConsumerMember) -> None:
        self.members.append(member)
        self.lines.append(line)

    def join(self) -> None:
        """Those added since the last call begin, all at once."""
        new = self.members[len(self.tasks) :]
        self.tasks += [asyncio.create_task(member.run()) for member in new]

    def leave(self, place: int) -> asyncio.Future[bytes]:
        """Without waiting for the answer of a heartbeat that is on its way."""
        self.tasks[place].cancel()
        self._left.add(self.tasks[place])
        return self.members[place].leave()

    async def step(
        self, groups: Sequence[ConsumerGroup], act: Callable[[], asyncio.Future[None] | None]
    ) -> Step:
        """Do something and wait until these groups have settled, and for what it returns. Failed: they did
        not settle, or an error came."""
        clock, began, own = CpuClock(self._peer.pids()), time.monotonic(), time.thread_time()
        before = sum(line.requests for line in self.lines)
        done = act()
        waits = [group.settled.wait() for group in groups]
        settled = asyncio.gather(*waits, *([] if done is None else [done]))
        try:
            await first_of(settled, [task for task in self.tasks if task not in self._left])
        finally:
            settled.cancel()
            await asyncio.gather(settled, return_exceptions=True)
        seconds = time.monotonic() - began
        share = (time.thread_time() - own) / seconds
        requests = sum(line.requests for line in self.lines) - before
        return Step(seconds, clock.seconds(), requests, share)

    async def stop(self) -> None:
        """Without a word to the group."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def leave_all(self) -> None:
        await self.stop()
        await asyncio.gather(*(member.leave() for member in self.members if member.epoch >= 0))

    def close(self) -> None:
        for line in self.lines:
            line.close()


def join_frame(group_id: str, member_id: str, topic: str) -> bytes:
    """The first heartbeat of a member of one topic."""
    head = compact_string(group_id) + compact_string(member_id) + struct.pack(">i", 0) + _UNCHANGED * 2
    timeout = struct.pack(">i", REBALANCE_TIMEOUT_MS)
    topics = uvarint(2) + compact_string(topic)
    rest = timeout + topics + _UNCHANGED + compact_string("uniform") + _NOTHING
    return request(CONSUMER_GROUP_HEARTBEAT, 1, head + rest + b"\0", flexible=True)


def error_of(answer: bytes) -> int:
    """Of an answer to it."""
    return parse(answer).error
