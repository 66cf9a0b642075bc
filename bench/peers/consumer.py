"""Drives crowds of fake members of KIP-848 groups, and measures how long their groups take to settle after a
change."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from actors.coordinator.ground import partitions
from bench.member.consumer import JOINS, ConsumerMember, ConsumerTerms
from bench.member.reactions import Reaction
from bench.peers.classic import first_of
from bench.peers.lines import Line
from bench.peers.living import Living
from bench.peers.options import Failed
from bench.peers.peer import CpuClock, Peer

REBALANCE_TIMEOUT_MS: Final = 60_000
ASSIGNOR: Final = "uniform"


def terms(group_id: str, topics: Sequence[str]) -> ConsumerTerms:
    """The settings that all members of a group have in common."""
    return ConsumerTerms(group_id, tuple(topics), REBALANCE_TIMEOUT_MS, ASSIGNOR)


class ConsumerGroup:
    """A group, which is at rest when its members are in one epoch and own every partition, in shares as even
    as can be. Unless acknowledgements are `held`, none may still wait for its answer."""

    def __init__(
        self, group_id: str, topics: Sequence[str], partition_count: int, *, held: bool = False
    ) -> None:
        self.group_id = group_id
        self.settled = asyncio.Event()
        self._terms = terms(group_id, topics)
        self._partitions = partition_count
        self._is_held = held
        self._shares: dict[ConsumerMember, int] = {}
        """How many partitions each member owns."""
        self._owned = 0
        self._owing: set[ConsumerMember] = set()
        """The members whose acknowledgement of their assignment is not answered yet."""

    def new_member(self, number: int) -> ConsumerMember:
        member_id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.group_id}/{number}"))
        member = ConsumerMember(self._terms, member_id)
        self._shares[member] = 0
        return member

    def expect(self, partition_count: int | None = None) -> None:
        """Expect the group to settle after a change."""
        self._partitions = self._partitions if partition_count is None else partition_count
        self.settled.clear()

    def heard(self, member: ConsumerMember, reaction: Reaction) -> None:
        """Take a member's answer. Raises Failed if it says that it is no member."""
        if reaction is Reaction.LOST:
            raise Failed(f"{self.group_id}: a member is fenced")
        if member.target is None:
            self._owing.discard(member)
        else:
            member.reconcile()
            if not self._is_held:
                self._owing.add(member)
            share = partitions.count(member.owned)
            self._owned += share - self._shares[member]
            self._shares[member] = share
        self._look()

    def left(self, member: ConsumerMember) -> None:
        self._owned -= self._shares.pop(member, 0)
        self._owing.discard(member)

    def _look(self) -> None:
        if self._owned != self._partitions or self._owing or self.settled.is_set():
            return
        least = self._partitions // len(self._shares)
        epochs = {member.epoch for member in self._shares}
        if len(epochs) == 1 and all(least <= share <= least + 1 for share in self._shares.values()):
            self.settled.set()


class Step(NamedTuple):
    """The figures from a change of a group until it has settled."""

    seconds: float
    cpu_s: float
    requests: int
    generator_share: float


class Crowd:
    """A crowd of members with their connections and tasks."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self.members: list[Living[ConsumerMember]] = []
        self.tasks: list[asyncio.Task[None]] = []
        self._left: set[asyncio.Task[None]] = set()

    def add(self, line: Line, group: ConsumerGroup) -> None:
        self.members.append(Living(line, group, group.new_member(len(self.members))))

    def join(self) -> None:
        """Let the members that were added since the last call join, all at once."""
        new = self.members[len(self.tasks) :]
        self.tasks += [asyncio.create_task(each.run()) for each in new]

    def leave(self, place: int) -> None:
        """Let a member leave without waiting for the answer of a heartbeat that is under way."""
        self.tasks[place].cancel()
        self._left.add(self.tasks[place])
        self.members[place].say_goodbye()

    async def step(
        self, groups: Sequence[ConsumerGroup], act: Callable[[], asyncio.Future[None] | None]
    ) -> Step:
        """Make a change, and wait until these groups have settled and for what it returns. Raises Failed if
        they do not settle, or an error comes."""
        clock, began, own = CpuClock(self._peer.pids()), time.monotonic(), time.thread_time()
        before = self._requests()
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
        requests = self._requests() - before
        return Step(seconds, clock.seconds(), requests, share)

    async def stop(self) -> None:
        """End all tasks without a LeaveGroup."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def leave_all(self) -> None:
        await self.stop()
        await asyncio.gather(*(each.leave() for each in self.members if each.member.epoch > JOINS))

    def close(self) -> None:
        for each in self.members:
            each.line.close()

    def _requests(self) -> int:
        return sum(each.line.requests for each in self.members)
