"""A swarm of groups whose members assign, and its judge: all in one loop, so that one clock tells who owns
what.

Consumers come, leave as they should and vanish. Whoever is asked to compute does so well, too slowly,
wrongly, or vanishes in the midst of it. Afterwards all partitions have to be owned, and what was committed
has to be there.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from actors.assignors.by_members.sticky import Sticky
from actors.assignors.by_members.weighted import CapacityWeighted
from actors.protocol.client_assignor_messages import (
    InstallAssignmentRequest,
    InstalledMember,
    PrepareAssignmentResponse,
)
from bench.client_assignors.consumer import AssigningConsumer, GivenUp
from bench.client_assignors.judge import Judge
from bench.consumers.asking import GONE, Address, committed_offsets, create_topics
from bench.consumers.fetching import UNKNOWN
from bench.consumers.leader_kills import LeaderKills
from bench.member.computing import ComputingMember, MemberAssignor
from bench.member.consumer import ConsumerTerms
from bench.swarm.records.requests import Partition

READ_EVERY_S: Final = 0.2
LOOK_EVERY_S: Final = 0.05
SETTLE_S: Final = 120.0
"""How long the groups may take, after the last who came or went, until all is owned: a session and more."""
FINDINGS_MAX: Final = 100
WELL, SLOW, WRONG, DYING = "well", "slow", "wrong", "dying"
"""How a member computes."""
WAYS: Final = (WELL, SLOW, WRONG, DYING)


class Plan(NamedTuple):
    groups: int = 10
    members: int = 5
    partitions: int = 12
    seconds: float = 60.0
    life_s: float = 20.0
    """How long a consumer lives on average, before it leaves or vanishes."""
    vanishing: float = 0.2
    """The share of those that go who vanish."""
    well: float = 0.7
    """The share of computations that are done well; the rest is slow, wrong and dying alike."""
    slow_s: float = 4.0
    """How long a slow member takes: longer than the coordinator waits."""
    session_s: float = 6.0
    seed: int = 0


class Outcome(NamedTuple):
    """What became of a swarm."""

    findings: tuple[str, ...]
    """What the judge found wrong, at most FINDINGS_MAX of it."""
    members: int
    """How many consumers there were, one after the other."""
    ways: dict[str, int]
    """How often members computed in each way."""
    taken: int
    refused: int
    """How many assignments were taken, and how many refused as wrong."""
    committed: int
    """How many partitions are known to have a committed offset."""


class Vanished(Exception):
    """Raised in a consumer that is to vanish while it computes."""


class Swarm:
    """All consumers of a run."""

    def __init__(self, bootstrap: Sequence[Address], plan: Plan, name: str) -> None:
        self._bootstrap = bootstrap
        self.plan = plan
        self._name = name
        self.chance = random.Random(plan.seed)
        self._ends_at = 0.0
        self._living: dict[str, _Fake] = {}
        self._made = 0
        self.judge = Judge()
        self.ways = dict.fromkeys(WAYS, 0)
        self.findings: list[str] = []

    def group_id(self, group: int) -> str:
        return f"{self._name}-{group}"

    topic = group_id
    """Each group reads a topic of its name."""

    @property
    def is_over(self) -> bool:
        """Whether nobody comes, goes, or computes badly any more."""
        return time.monotonic() >= self._ends_at

    async def run(self, kills: LeaderKills | None, say: Callable[[str], object]) -> Outcome:
        """Run the plan, and judge what is left. Nobody is killed any more when everybody is to stay. Raises
        what is in GONE if no broker can be reached."""
        plan = self.plan
        await create_topics(self._bootstrap[0], map(self.topic, range(plan.groups)), plan.partitions)
        self._ends_at = time.monotonic() + plan.seconds
        living = [
            asyncio.create_task(self._live(group))
            for group in range(plan.groups)
            for _ in range(plan.members)
        ]
        try:
            while not self.is_over:
                await asyncio.sleep(LOOK_EVERY_S)
                self.find(self.judge.owners(self._owned()))
            if kills is not None:
                await asyncio.to_thread(kills.calm)
            say("everybody stays now, and computes well")
            await self._settle()
            await self._compare()
        finally:
            for task in living:
                task.cancel()
            await asyncio.gather(*living, return_exceptions=True)
        findings = tuple(self.findings[:FINDINGS_MAX])
        judge = self.judge
        return Outcome(findings, self._made, self.ways, judge.taken, judge.refused, len(judge.floors))

    def find(self, words: Iterable[str]) -> None:
        self.findings.extend(words)

    def _owned(self) -> Iterator[tuple[str, str, Iterable[Partition]]]:
        """Tell what consumers own, of which the coordinator has surely heard within the session."""
        for fake in self._living.values():
            if time.monotonic() - fake.vouched_s < self.plan.session_s:
                yield fake.member.terms.group_id, fake.described(), list(fake.positions)

    async def _live(self, group: int) -> None:
        """One consumer after the other in one place of a group."""
        while True:
            await asyncio.sleep(self.chance.uniform(0, 2))
            fake = self._fake(group)
            self._living[fake.member.member_id] = fake
            running = asyncio.create_task(fake.run())
            life_s = self.chance.expovariate(1 / self.plan.life_s)
            left_s = self._ends_at - time.monotonic()
            try:
                await asyncio.wait([running], timeout=life_s if life_s < left_s else None)
                if not running.done() and self.chance.random() >= self.plan.vanishing:
                    fake.close()
                    await asyncio.wait([running], timeout=SETTLE_S)
                self.find(_failure(running))
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
                del self._living[fake.member.member_id]

    def _fake(self, group: int) -> _Fake:
        self._made += 1
        terms = ConsumerTerms(self.group_id(group), (self.topic(group),))
        assignors: list[MemberAssignor] = [CapacityWeighted(self.chance.randint(1, 3)), Sticky()]
        return _Fake(self, ComputingMember(terms, f"m{self._made}-{self._name}", assignors))

    def addresses(self) -> Sequence[Address]:
        return self._bootstrap

    def way(self) -> str:
        """Choose how a member computes now."""
        is_well = self.is_over or self.chance.random() < self.plan.well
        found = WELL if is_well else self.chance.choice((SLOW, WRONG, DYING))
        self.ways[found] += 1
        return found

    # The end.

    async def _settle(self) -> None:
        deadline = time.monotonic() + SETTLE_S
        while len(self.findings) < FINDINGS_MAX and (missing := self._missing()) is not None:
            self.find(self.judge.owners(self._owned()))
            if time.monotonic() > deadline:
                self.findings.append(f"progress: {SETTLE_S:.0f} s after the last change, {missing}")
                return
            await asyncio.sleep(LOOK_EVERY_S)

    def _missing(self) -> str | None:
        """Say what nobody owns, or who has no member; None if all is well."""
        owned = dict.fromkeys(map(self.group_id, range(self.plan.groups)), 0)
        for group_id, _, places in self._owned():
            owned[group_id] += len(list(places))
        for group_id, found in owned.items():
            if found != self.plan.partitions:
                return f"{found} of {self.plan.partitions} partitions of {group_id} are owned"
        return None

    async def _compare(self) -> None:
        """Compare what was known to be committed with what OffsetFetch says now."""
        if not self.judge.floors:
            self.findings.append("offsets: nothing was known to be committed, so nothing can be compared")
        if not self.judge.taken:
            self.findings.append("computing: no assignment of a member was taken")
        for group in range(self.plan.groups):
            deadline = time.monotonic() + SETTLE_S
            while (found := await self._committed(self.group_id(group))) is None:
                if time.monotonic() > deadline:
                    self.findings.append(f"progress: the offsets of {self.group_id(group)} cannot be fetched")
                    return
                await asyncio.sleep(LOOK_EVERY_S)
            every = {(self.topic(group), number): UNKNOWN for number in range(self.plan.partitions)}
            self.find(self.judge.fetched(self.group_id(group), every | found))

    async def _committed(self, group_id: str) -> dict[Partition, int] | None:
        with contextlib.suppress(*GONE):
            return await committed_offsets(self._bootstrap[0], group_id)
        return None


class _Fake(AssigningConsumer):
    """A consumer that only says that it reads, and computes as the swarm chooses."""

    def __init__(self, swarm: Swarm, member: ComputingMember) -> None:
        super().__init__(swarm.addresses(), member)
        self._swarm = swarm
        self._wrong_ones: list[InstallAssignmentRequest] = []
        self._is_dying = False
        """Whether the consumer is to vanish in the midst of computing."""
        self.on_installed = self._installed
        self.on_committed = lambda offsets: swarm.judge.committed(member.terms.group_id, offsets)

    def described(self) -> str:
        """Say who this is, and how well it knows what it owns, for a finding."""
        age_s = time.monotonic() - self.vouched_s
        ways = [word for word, is_so in (("closing", self._is_closing), ("dying", self._is_dying)) if is_so]
        about = ", ".join((f"epoch {self.member.epoch}", f"vouched for {age_s:.1f} s ago", *ways))
        return f"{self.member.member_id} ({about})"

    async def run(self) -> None:
        reading = asyncio.create_task(self._read())
        consuming = asyncio.create_task(super().run())
        try:
            await asyncio.wait([reading, consuming], return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()
            consuming.result()
        except Vanished:
            pass
        finally:
            reading.cancel()
            consuming.cancel()
            await asyncio.gather(reading, consuming, return_exceptions=True)

    async def _read(self) -> None:
        """Say of all partitions that they are read. Raises Vanished if the consumer is to vanish."""
        while True:
            await asyncio.sleep(READ_EVERY_S)
            for place, position in list(self.positions.items()):
                self.positions[place] = max(position, 0) + 1
            if self._is_dying:
                raise Vanished

    async def assigned(self, prepared: PrepareAssignmentResponse) -> InstallAssignmentRequest:
        way = self._swarm.way()
        install = self.member.install(prepared)
        if way == DYING:
            self._is_dying = True
            await asyncio.Event().wait()
        if way == SLOW:
            await asyncio.sleep(self._swarm.plan.slow_s)
        if way == WRONG:
            install = spoiled(install, self._swarm.chance)
            self._wrong_ones.append(install)
        return install

    def _installed(self, install: InstallAssignmentRequest, error: int, words: str | None) -> None:
        is_wrong = any(each is install for each in self._wrong_ones)
        group_id = self.member.terms.group_id
        self._swarm.find(self._swarm.judge.installed(group_id, is_wrong, error, words))


def spoiled(install: InstallAssignmentRequest, chance: random.Random) -> InstallAssignmentRequest:
    """Return an assignment that does not fit: a partition too many, one twice, or somebody unknown."""
    topics = next((each.topic_partitions for each in install.members if each.topic_partitions), ())
    topic_id = topics[0][0] if topics else bytes(15) + b"\1"
    numbers = topics[0][1] if topics else (0,)
    unknown = InstalledMember("nobody", 0, ((topic_id, numbers),), -1, b"")
    first = install.members[0]
    too_many = first._replace(topic_partitions=((topic_id, (1_000_000,)),))
    twice = first._replace(topic_partitions=((topic_id, (numbers[0], numbers[0])),))
    others = install.members[1:]
    return install._replace(
        members=chance.choice([(*install.members, unknown), (too_many, *others), (twice, *others)])
    )


def _failure(running: asyncio.Task[None]) -> list[str]:
    if not running.done() or running.cancelled():
        return []
    error = running.exception()
    if error is None:
        return []
    kind = "refused" if isinstance(error, GivenUp) else "failed"
    return [f"consumer: it was {kind}: {error!r}"]
