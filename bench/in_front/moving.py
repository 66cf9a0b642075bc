"""What it takes to move groups with very many offsets: to the tier and back, beside a move between Kafka's
own brokers. Members commit meanwhile; afterwards every offset is read back."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import uvloop

from actors.protocol.java_hash import partition_for
from bench.in_front.committing import PARTITION, VERSION, Committer, committing
from bench.in_front.stand import Alone, StandingPeer
from bench.member.answers import commit_errors, fetched
from bench.member.requests import Identity, offset_commit, offset_fetch
from bench.peers import topics
from bench.peers.classic import storm
from bench.peers.kafka import busiest
from bench.peers.lines import framed
from bench.peers.members import Member
from bench.peers.options import Failed
from bench.peers.peer import SETTINGS, CpuClock, Peer
from bench.peers.plan import Sample, kept
from bench.peers.sending import send

MOVED: Final = "moved"
LIVE: Final = "live"
"""The topics that groups have offsets of, and how their ids begin: those that rest, and those that commit
meanwhile."""
LIVE_EACH: Final = 2
"""How many groups of each offsets partition commit meanwhile."""
NO_MEMBER: Final = -1
THERE: Final = "take-over"
BACK: Final = "way back"
BY_ITSELF: Final = "a broker ends, which another one replaces"
TIER: Final = "the tier"
KAFKA: Final = "Kafka"
SHOWN: Final = (
    *(f"{step}:{figure}" for figure in ("seconds", "gap_s") for step in (THERE, BACK, BY_ITSELF)),
    *(f"{step}, {who}:cpu_s" for step in (THERE, BACK) for who in (TIER, KAFKA)),
)
WRONG_SHOWN: Final = 3


class Extent(NamedTuple):
    """How many groups rest, and how many offsets each of them has."""

    groups: int
    each: int

    def group(self, number: int) -> str:
        """Return the id of a group."""
        return f"{MOVED}-{number}"

    def committed(self, number: int) -> dict[int, tuple[int]]:
        """Return partition -> what a group has committed for it: no two have committed the same."""
        first = number * self.each + 1
        return {partition: (first + partition,) for partition in range(self.each)}


def measure(extent: Extent, peer: Peer) -> Sample:
    """Measure a move, and see that no offset was lost. Raises Failed if one was."""
    assert isinstance(peer, StandingPeer), peer
    peer.come_up()
    peer.stand.detach()
    if MOVED not in peer.kept:
        topics.create(peer, {MOVED: extent.each, LIVE: PARTITION + 1})
        uvloop.run(_fill(peer, extent))
        peer.kept[MOVED] = True
    peer.stand.site.wait_until_whole()
    members: list[Member] = kept(peer, LIVE, lambda: _live_members(peer))
    committed: dict[str, int] = kept(peer, "what live groups have committed", dict)
    move = _Move(peer, extent, members, committed)
    return uvloop.run(move.by_itself() if isinstance(peer, Alone) else move.there_and_back())


def _live_members(peer: Peer) -> list[Member]:
    count = int(SETTINGS["offsets.topic.num.partitions"])
    names: dict[int, list[str]] = {partition: [] for partition in range(count)}
    number = 0
    while any(len(some) < LIVE_EACH for some in names.values()):
        some = names[partition_for(f"{LIVE}-{number}", count)]
        if len(some) < LIVE_EACH:
            some.append(f"{LIVE}-{number}")
        number += 1
    group_ids = [name for some in names.values() for name in some]
    return uvloop.run(storm(peer, group_ids, 1, peer.session_timeout_ms, stay=True)).members


async def _fill(peer: Peer, extent: Extent) -> None:
    """Have all groups commit, once."""

    def frames() -> Iterator[tuple[str, bytes]]:
        for number in range(extent.groups):
            group_id = extent.group(number)
            offsets = {partition: offset for partition, (offset,) in extent.committed(number).items()}
            who = Identity(group_id, NO_MEMBER, "", None)
            yield group_id, framed(offset_commit(who, VERSION, {MOVED: offsets}))

    def taken(_: str, answer: bytes) -> int:
        return max(commit_errors(answer).values())

    await send(peer, [extent.group(number) for number in range(extent.groups)], frames(), taken)


class _Step(NamedTuple):
    """What a move took."""

    seconds: float
    gap_s: float
    cpu_s: Mapping[str, float]
    """Whose processes -> their CPU."""

    def figures(self, name: str) -> dict[str, float]:
        cpu = {f"{name}, {who}:cpu_s": cpu_s for who, cpu_s in self.cpu_s.items()}
        return {f"{name}:seconds": self.seconds, f"{name}:gap_s": self.gap_s} | cpu


class _Move:
    """A move of all groups, while some of them commit."""

    def __init__(
        self, peer: StandingPeer, extent: Extent, members: list[Member], committed: dict[str, int]
    ) -> None:
        self._peer = peer
        self._extent = extent
        self._members = members
        self._committed = committed
        self._acknowledged = 0
        self._live: Sequence[Committer] = ()
        """Who committed last."""

    async def there_and_back(self) -> Sample:
        """Have the tier take the groups over, and give them back."""
        stand = self._peer.stand
        servers = {TIER: stand.tier_pids(), KAFKA: stand.nodes.pids()}
        there = await self._step(stand.attach, servers)
        await self._check()
        back = await self._step(stand.detach, servers)
        await self._check()
        return Sample(figures=there.figures(THERE) | back.figures(BACK), requests=self._acknowledged)

    async def by_itself(self) -> Sample:
        """Have a broker end as it does when Kafka is upgraded: others coordinate its groups from then on."""
        nodes = self._peer.stand.nodes
        number, _ = await asyncio.to_thread(busiest, nodes, [member.group_id for member in self._members])

        def end() -> None:
            process = nodes.process(number)
            process.send_signal(signal.SIGTERM)
            process.wait()

        step = await self._step(end, {})
        await asyncio.to_thread(self._peer.mend)
        await self._check()
        return Sample(figures=step.figures(BY_ITSELF), requests=self._acknowledged)

    async def _step(self, act: Callable[[], object], servers: Mapping[str, list[int]]) -> _Step:
        """Do something while members commit. Raises Failed if one of them cannot go on."""
        peer = self._peer
        async with committing(peer.bootstrap, self._members, LIVE, self._committed) as committers:
            await committers.get_on()
            clocks = {who: CpuClock(pids) for who, pids in servers.items()}
            began = time.monotonic()
            await asyncio.to_thread(act)
            seconds = time.monotonic() - began
            cpu_s = {who: clock.seconds() for who, clock in clocks.items()}
            gap_s = committers.gap_s(began, await committers.get_on())
            self._acknowledged += committers.count
        self._live = committers.members
        return _Step(seconds, gap_s, cpu_s)

    async def _check(self) -> None:
        """Read all offsets back. Raises Failed if one is missing or wrong."""
        extent, live = self._extent, {each.group_id: each for each in self._live}
        resting = {extent.group(number): number for number in range(extent.groups)}
        wrong: list[str] = []

        def frames() -> Iterator[tuple[str, bytes]]:
            for group_id in (*live, *resting):
                wanted = (LIVE, (PARTITION,)) if group_id in live else (MOVED, tuple(range(extent.each)))
                who = Identity(group_id, NO_MEMBER, "", None)
                yield group_id, framed(offset_fetch(who, VERSION, (wanted,)))

        def taken(group_id: str, answer: bytes) -> int:
            error, offsets = fetched(answer)
            if not error:
                right: Mapping[int, Sequence[int]]
                found = {each.partition: each.offset for each in offsets}
                if group_id in live:
                    right = {PARTITION: (live[group_id].last, live[group_id].sent)}
                else:
                    right = extent.committed(resting[group_id])
                wrong.extend(f"{group_id}-{words}" for words in differing(found, right))
            return error

        await send(self._peer, [*live, *resting], frames(), taken)
        if wrong:
            more = "" if len(wrong) <= WRONG_SHOWN else f", and {len(wrong) - WRONG_SHOWN:,} more"
            raise Failed(f"offsets are wrong: {'; '.join(wrong[:WRONG_SHOWN])}{more}")


def differing(found: Mapping[int, int], right: Mapping[int, Sequence[int]]) -> Iterator[str]:
    """Yield in words where the offsets of a group, by partition, are none of those that are right."""
    for partition, offsets in right.items():
        offset = found.get(partition)
        if offset not in offsets:
            yield f"{partition}: {offset}, and not {' or '.join(map(str, dict.fromkeys(offsets)))}"
