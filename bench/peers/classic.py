"""Measures storms of fake members of classic groups: the time from the first join until every group has
settled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

from actors.protocol.consumer_protocol import Assignment, Subscription, write_assignment, write_subscription
from bench.member.assigning import Alike
from bench.member.classic import ClassicMember, ClassicTerms
from bench.member.reactions import Reaction
from bench.peers.lines import coordinators, open_all
from bench.peers.living import Living
from bench.peers.members import Member
from bench.peers.options import Failed
from bench.peers.peer import CpuClock, Peer

HEARTBEAT_INTERVAL_S: Final = 3.0
REBALANCE_TIMEOUT_MS: Final = 60_000
STORM_TIMEOUT_S: Final = 120.0
ALIKE: Final = Alike(
    write_subscription(Subscription(("bench",)), 1), write_assignment(Assignment((("bench", (0, 1)),)), 1)
)
"""The assignor of all members: their bytes are as long as real ones, and read by nobody."""


class Storm(NamedTuple):
    """The figures of a storm, from the first JoinGroup until every group is stable."""

    seconds: float
    cpu_s: float
    requests: int
    generator_share: float
    members: list[Member]


def terms(group_id: str, session_timeout_ms: int) -> ClassicTerms:
    """The settings that all members of a group have in common."""
    return ClassicTerms(group_id, ALIKE, session_timeout_ms, REBALANCE_TIMEOUT_MS, HEARTBEAT_INTERVAL_S)


class Group:
    """A group, which has settled when all of its members have synced in one generation."""

    def __init__(self, terms: ClassicTerms, size: int) -> None:
        self.group_id = terms.group_id
        self.settled = asyncio.Event()
        self._terms = terms
        self._size = size
        self._synced: dict[str, int] = {}
        self._in_generation: dict[int, int] = {}

    def new_member(self) -> ClassicMember:
        return ClassicMember(self._terms)

    def expect(self, size: int) -> None:
        """Expect the group to settle with so many members."""
        self._size = size
        self.settled.clear()

    def heard(self, member: ClassicMember, reaction: Reaction) -> None:
        before = self._synced.get(member.member_id)
        if member.needs_join or before == member.epoch:
            return
        if before is not None:
            self._in_generation[before] -= 1
        self._synced[member.member_id] = member.epoch
        self._in_generation[member.epoch] = self._in_generation.get(member.epoch, 0) + 1
        if self._in_generation[member.epoch] == self._size:
            self.settled.set()

    def left(self, member: ClassicMember) -> None:
        """Nothing has to be done: `expect` says how many members are left."""


async def storm(
    peer: Peer, group_ids: list[str], size: int, session_timeout_ms: int, *, stay: bool = False
) -> Storm:
    """Let `size` members of each group connect, then all join at once. They leave afterwards unless they are
    to `stay`. Raises Failed if a group does not settle."""
    found = await coordinators(peer.bootstrap[0], group_ids)
    lines = await open_all(found[group_id] for group_id in group_ids for _ in range(size))
    groups = [Group(terms(group_id, session_timeout_ms), size) for group_id in group_ids]
    of_line = [group for group in groups for _ in range(size)]
    members = [Living(line, group, group.new_member()) for line, group in zip(lines, of_line, strict=True)]
    clock, began, own = CpuClock(peer.pids()), time.monotonic(), time.process_time()
    async with settled(groups, members):
        seconds, cpu_s = time.monotonic() - began, clock.seconds()
        share = (time.process_time() - own) / seconds
        requests = sum(line.requests for line in lines)
    if not stay:
        await asyncio.gather(*(member.leave() for member in members))
    for line in lines:
        line.close()
    return Storm(seconds, cpu_s, requests, share, [known(each) for each in members])


@asynccontextmanager
async def settled(groups: Sequence[Group], members: Sequence[Living[ClassicMember]]) -> AsyncIterator[None]:
    """Let members live within; the block begins when their groups have settled."""
    tasks = [asyncio.create_task(member.run()) for member in members]
    all_settled = asyncio.gather(*(group.settled.wait() for group in groups))
    try:
        await first_of(all_settled, tasks)
        yield
    finally:
        all_settled.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(all_settled, *tasks, return_exceptions=True)


def known(each: Living[ClassicMember]) -> Member:
    """What is known of a member that has settled."""
    return Member(each.group.group_id, each.member.member_id, each.member.epoch, *each.line.address)


async def first_of(wanted: asyncio.Future[list[Any]], tasks: list[asyncio.Task[None]]) -> None:
    """Wait for a future while tasks go on, which end only with an error: this is raised."""
    waiting: set[asyncio.Future[object]] = {wanted, *tasks}  # type: ignore[arg-type]
    done, _ = await asyncio.wait(waiting, timeout=STORM_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
    if not done:
        raise Failed(f"not settled after {STORM_TIMEOUT_S:.0f} s")
    for each in done:
        each.result()
