"""A swarm of consumers whose coordinator pushes, and its judge: all in one loop, so that one clock tells when
each of them reads.

Its consumers come, close as they should, vanish without a word and come back; they read at a rate that is
made up, and what they tell is committed. Afterwards all partitions have to be read by somebody, and what was
committed has to be there still.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from actors.protocol.push_codec import read_push
from actors.protocol.push_messages import TopicCount
from bench.consumers.asking import GONE, Address, committed_offsets, create_topics
from bench.consumers.leader_kills import LeaderKills
from bench.member.push import Place, PushMember, PushTerms
from bench.push.consumer import PushConsumer, Refused, now_ms
from bench.push.judge import PushJudge

READ_EVERY_S: Final = 0.2
LOOK_EVERY_S: Final = 0.05
SETTLE_S: Final = 60.0
"""How long the groups may take, after the last who came or went, until all is read."""
FINDINGS_MAX: Final = 100


class Plan(NamedTuple):
    groups: int = 10
    members: int = 5
    partitions: int = 12
    seconds: float = 60.0
    session_ms: int = 6_000
    life_s: float = 15.0
    """How long a consumer lives on average, before it closes or vanishes."""
    seed: int = 0


class Outcome(NamedTuple):
    """What became of a swarm."""

    findings: tuple[str, ...]
    """What the judge found wrong, at most FINDINGS_MAX of it."""
    registrations: int
    starts: int
    answers: int
    committed: int
    """How many partitions are known to have a committed offset."""


class _Reader(PushConsumer):
    """A consumer that only says that it reads."""

    async def _fetch(self) -> None:
        while True:
            await asyncio.sleep(READ_EVERY_S)
            for place, position in list(self.member.positions.items()):
                self.member.consumed(place, max(position, 0) + 1)


class Swarm:
    """All consumers of a run."""

    def __init__(self, bootstrap: Sequence[Address], plan: Plan, name: str) -> None:
        self._bootstrap = bootstrap
        self._plan = plan
        self._name = name
        self._chance = random.Random(plan.seed)
        self._ends_at = 0.0
        self.judge = PushJudge()
        self.findings: list[str] = []
        self.registrations = self.answers = 0

    def group_id(self, group: int) -> str:
        return f"{self._name}-{group}"

    topic = group_id
    """Each group reads a topic of its name."""

    async def run(self, kills: LeaderKills | None, say: Callable[[str], object]) -> Outcome:
        """Run the plan, and judge what is left. Nobody is killed any more when everybody is to stay. Raises
        what is in GONE if no broker can be reached."""
        plan = self._plan
        await create_topics(self._bootstrap[0], map(self.topic, range(plan.groups)), plan.partitions)
        self._ends_at = time.monotonic() + plan.seconds
        halt = asyncio.Event()
        living = [
            asyncio.create_task(self._live(group, place, halt))
            for group in range(plan.groups)
            for place in range(plan.members)
        ]
        try:
            while time.monotonic() < self._ends_at:
                await asyncio.sleep(LOOK_EVERY_S)
                self._find(self.judge.owners(now_ms()))
            if kills is not None:
                await asyncio.to_thread(kills.calm)
            say("everybody stays now")
            await self._settle()
            await self._compare()
        finally:
            halt.set()
            for task in living:
                task.cancel()
            await asyncio.gather(*living, return_exceptions=True)
        known = len(self.judge.floors)
        return Outcome(
            tuple(self.findings[:FINDINGS_MAX]), self.registrations, self.judge.starts, self.answers, known
        )

    def _find(self, words: Iterable[str]) -> None:
        self.findings.extend(words)

    async def _live(self, group: int, place: int, halt: asyncio.Event) -> None:
        """One consumer after the other in one place of a group."""
        number, chance = group * self._plan.members + place, self._chance
        while not halt.is_set():
            consumer = self._consumer(group, place, number)
            running = asyncio.create_task(consumer.run())
            life_s = chance.expovariate(1 / self._plan.life_s)
            left_s = self._ends_at - time.monotonic()
            try:
                await asyncio.wait([running], timeout=life_s if life_s < left_s else None)
                if running.done():
                    self._find(_failure(running))
                elif chance.random() < 0.5:
                    consumer.member.close()
                    with contextlib.suppress(Refused):
                        await running
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
                consumer.member.lose()
                self.judge.left(number)
                self.registrations += consumer.registrations
            await asyncio.sleep(chance.uniform(0, 2))

    def _consumer(self, group: int, place: int, number: int) -> PushConsumer:
        terms = PushTerms(
            self.group_id(group),
            (TopicCount(self.topic(group), False, 1),),
            session_timeout_ms=self._plan.session_ms,
        )
        member = PushMember(terms, f"c{place}")
        consumer = _Reader(self._bootstrap, member, lambda *_: None)

        def heard(push: bytes, answer: bytes) -> None:
            _, api_key, request = read_push(push)
            self.answers += 1
            self._find(self.judge.answered(number, api_key, request, answer, now_ms()))

        consumer.heard = heard
        consumer.registering = lambda: self.judge.joined(number, member)
        return consumer

    # The end.

    async def _settle(self) -> None:
        deadline = time.monotonic() + SETTLE_S
        while (unread := self._unread()) is not None:
            if time.monotonic() > deadline:
                self.findings.append(f"progress: {SETTLE_S:.0f} s after the last change, {unread}")
                return
            await asyncio.sleep(LOOK_EVERY_S)

    def _unread(self) -> str | None:
        """Say what nobody reads; None if all is read."""
        now, plan = now_ms(), self._plan
        read: dict[str, int] = {}
        for member in self.judge.members.values():
            if member.is_fetching and not member.suspects(now):
                group_id = member.terms.group_id
                read[group_id] = read.get(group_id, 0) + len(member.positions)
        for group in range(plan.groups):
            found = read.get(self.group_id(group), 0)
            if found != plan.partitions:
                return f"{found} of {plan.partitions} partitions of {self.group_id(group)} are read"
        return None

    async def _compare(self) -> None:
        """Compare what was known to be committed with what OffsetFetch says now."""
        if not self.judge.floors:
            self.findings.append("offsets: nothing was known to be committed, so nothing can be compared")
        for group in range(self._plan.groups):
            group_id = self.group_id(group)
            committed = await self._committed(group_id)
            for (owner, topic, partition), floor in self.judge.floors.items():
                if owner == group_id and committed.get((topic, partition), -1) < floor:
                    found = committed.get((topic, partition), -1)
                    self.findings.append(
                        f"offsets: {topic}-{partition} of {group_id} is committed at {found}, after {floor}"
                    )

    async def _committed(self, group_id: str) -> dict[Place, int]:
        deadline = time.monotonic() + SETTLE_S
        while time.monotonic() < deadline:
            with contextlib.suppress(*GONE):
                return await committed_offsets(self._bootstrap[0], group_id)
            await asyncio.sleep(LOOK_EVERY_S)
        self.findings.append(f"progress: the offsets of {group_id} cannot be fetched")
        return {}


def _failure(running: asyncio.Task[None]) -> list[str]:
    error = None if running.cancelled() else running.exception()
    return [] if error is None else [f"consumer: {error}"]
