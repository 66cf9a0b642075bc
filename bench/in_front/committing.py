"""Members that commit one offset after the other and write down when each was acknowledged, wherever the
coordinator of their group is meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from actors.network.wire import Closed
from bench.attached.judge import longest_gap
from bench.member.answers import commit_errors
from bench.member.requests import Identity, offset_commit
from bench.peers.lines import NOT_YET, Address, Line, framed
from bench.peers.members import Member
from bench.peers.options import Failed
from bench.peers.works.failover import ANSWER_TIMEOUT_S, BACKOFF_S, Finder

VERSION: Final = 8
PARTITION: Final = 0
PAUSE_S: Final = 0.02
"""How long a member waits between an answer and its next commit."""
GET_ON_S: Final = 120.0


class Committer:
    """A member of a group of its own, which commits for one partition of a topic."""

    def __init__(self, finder: Finder, member: Member, topic: str, first: int) -> None:
        """`first` is what it has committed before."""
        self.group_id = member.group_id
        self.acknowledged: list[float] = []
        """When (monotonic) each commit was acknowledged."""
        self.last = first
        """The last offset that was acknowledged."""
        self.sent = first
        """The last one that was sent: it may have been committed."""
        self._finder = finder
        self._who = Identity(member.group_id, member.generation_id, member.member_id, None)
        self._topic = topic
        self._line: Line | None = None

    async def run(self) -> None:
        """Commit until it is cancelled. Raises Failed with an error after which no consumer goes on."""
        try:
            while True:
                self.sent = self.last + 1
                offsets = {self._topic: {PARTITION: self.sent}}
                frame = framed(offset_commit(self._who, VERSION, offsets))
                while not await self._is_committed(frame):
                    await asyncio.sleep(BACKOFF_S)
                self.last = self.sent
                self.acknowledged.append(time.monotonic())
                await asyncio.sleep(PAUSE_S)
        finally:
            self._hang_up()

    async def _is_committed(self, frame: bytes) -> bool:
        """Send a commit. Returns whether it was acknowledged; otherwise it is to be sent again."""
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                if self._line is None:
                    self._line = await Line.open(await self._finder.find(self.group_id))
                answer = await self._line.ask(frame)
        except (OSError, Closed, TimeoutError):
            self._hang_up()
            return False
        (error,) = commit_errors(answer).values()
        if error in NOT_YET:
            self._hang_up()
        elif error:
            raise Failed(f"{self.group_id}: a commit is refused with error {error}")
        return not error

    def _hang_up(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.close()


class Committers:
    """Several of them, at work."""

    def __init__(self, members: Sequence[Committer]) -> None:
        self.members = members
        self._tasks = [asyncio.create_task(each.run()) for each in members]

    @property
    def count(self) -> int:
        """How many commits were acknowledged so far."""
        return sum(len(each.acknowledged) for each in self.members)

    async def get_on(self) -> float:
        """Wait until each of them has another commit acknowledged. Returns when (monotonic). Raises Failed if
        one cannot go on, or has none for too long."""
        before = [len(each.acknowledged) for each in self.members]
        end = time.monotonic() + GET_ON_S
        while any(len(each.acknowledged) == count for each, count in zip(self.members, before, strict=True)):
            for task in self._tasks:
                if task.done():
                    task.result()
            if time.monotonic() > end:
                raise Failed(f"no commit of a group was acknowledged within {GET_ON_S:.0f} s")
            await asyncio.sleep(PAUSE_S)
        return time.monotonic()

    def gap_s(self, began: float, ended: float) -> float:
        """Return the longest time without an acknowledged commit of one of them, between two moments."""
        return max(longest_gap(each.acknowledged, began, ended) for each in self.members)

    async def stop(self) -> None:
        """Have them end. Raises what one of them could not go on with."""
        for task in self._tasks:
            task.cancel()
        ended = await asyncio.gather(*self._tasks, return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception):
                raise error


@asynccontextmanager
async def committing(
    bootstrap: list[Address], members: Sequence[Member], topic: str, committed: dict[str, int]
) -> AsyncIterator[Committers]:
    """Have members commit within. `committed` is what their groups have committed, and is kept up to date.
    Raises Failed if one of them could not go on."""
    finder = Finder(bootstrap)
    at_work = Committers(
        [Committer(finder, member, topic, committed.get(member.group_id, 0)) for member in members]
    )
    try:
        yield at_work
    finally:
        try:
            await at_work.stop()
        finally:
            finder.close()
            committed |= {each.group_id: each.last for each in at_work.members}
