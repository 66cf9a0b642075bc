"""A group of consumers whose coordinator pushes, as `bench.hold.measure` has crews of the other protocols."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Final

from actors.protocol.push_messages import TopicCount
from bench.consumers.asking import GONE
from bench.member.push import PushMember, PushTerms
from bench.push.consumer import now_ms
from bench.push.line import Line, fields_of

SETTLE_TIMEOUT_S: Final = 120.0
OPENING_MAX: Final = 20
"""How many connections are opened at once: servers listen with short queues."""


class PushCrew:
    """One group and its consumers, each on a connection of its own. They read nothing."""

    def __init__(
        self, group_id: str, topics: list[str], partitions: int, at: tuple[str, int], session_ms: int
    ) -> None:
        counts = tuple(TopicCount(topic, False, 1) for topic in topics)
        self._terms = PushTerms(group_id, counts, session_timeout_ms=session_ms)
        self._partitions = partitions
        self._at = at
        self._members: list[PushMember] = []
        self._lines: list[Line] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._made = 0
        self._opening = asyncio.Semaphore(OPENING_MAX)
        self._settled = asyncio.Event()
        self._known: set[str] = set()
        """The consumers that have been stopped since the last change."""
        self._changed_at = self._known_at = 0.0
        """When the last change was, and the last stop."""
        self.requests = 0
        """How many requests were sent by either side."""

    @property
    def reading(self) -> int:
        """How many consumers read."""
        return sum(member.is_fetching for member in self._members)

    @property
    def generation_id(self) -> int:
        """The newest generation that a consumer has been started in."""
        return max(member.generation_id for member in self._members)

    @property
    def known_s(self) -> float:
        """Return how long after the last change the last consumer was stopped."""
        return max(self._known_at - self._changed_at, 0.0)

    async def add(self, count: int) -> float:
        """Let so many consumers register at once. Returns the seconds until all is read."""
        members = [PushMember(self._terms, f"c{self._made + number}") for number in range(count)]
        self._made += count
        lines = await asyncio.gather(*(self._open(member) for member in members))
        self._lines += lines
        self._members += members
        began = self._expect()
        pairs = zip(members, lines, strict=True)
        self._tasks += [asyncio.create_task(self._live(member, line)) for member, line in pairs]
        return await self._until_settled(began)

    async def join(self) -> float:
        return await self.add(1)

    async def leave(self) -> float:
        """Let the oldest consumer leave. Returns the seconds until the others read all."""
        member, line, task = self._members.pop(0), self._lines.pop(0), self._tasks.pop(0)
        began = self._expect()
        row = {"member_id": member.consumer_id, "group_instance_id": None, "reason": None}
        self.requests += 1
        await line.call("leave_group", 5, group_id=self._terms.group_id, members=(row,))
        seconds = await self._until_settled(began)
        task.cancel()
        await line.close()
        return seconds

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for line in self._lines:
            await line.close()

    async def _open(self, member: PushMember) -> Line:
        async with self._opening:
            return await Line.connect(*self._at, member.consumer_id)

    def _expect(self) -> float:
        self._settled.clear()
        self._known.clear()
        self._changed_at = time.monotonic()
        return self._changed_at

    async def _until_settled(self, began: float) -> float:
        async with asyncio.timeout(SETTLE_TIMEOUT_S):
            await self._settled.wait()
        return time.monotonic() - began

    async def _live(self, member: PushMember, line: Line) -> None:
        """Register, and answer what is asked. It ends with its connection."""
        with contextlib.suppress(*GONE):
            self.requests += 1
            answer = await line.call("register_consumer", 0, **fields_of(member.register()))
            assert answer["error_code"] == 0, answer
            member.registered(now_ms())
            while True:
                frame = await line.next_push(member.terms.session_timeout_ms / 1000)
                was_fetching = member.is_fetching
                line.send(member.take(frame, now_ms()))
                self.requests += 1
                if was_fetching and not member.is_fetching:
                    self._known.add(member.consumer_id)
                    self._known_at = time.monotonic()
                elif member.is_fetching and not was_fetching:
                    self._look()

    def _look(self) -> None:
        """See whether all consumers read what is theirs, and all is read."""
        if not all(member.is_fetching for member in self._members):
            return
        generations = {member.generation_id for member in self._members}
        owned = sum(len(member.positions) for member in self._members)
        if len(generations) == 1 and owned == self._partitions:
            self._settled.set()
