"""A group whose members restart one after the other, in simulated time, and how often it rebalances.

Members are the fake ones of the benchmarks, and a restarted one comes back without a member id. Nothing here
knows of batching.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from actors.coordinator.told.consumer_events import AssignmentComputed
from actors.ground.contract import Token
from actors.ground.settings import GroupSettings
from bench.member.assigning import Alike
from bench.member.classic import ClassicMember, ClassicTerms
from bench.member.consumer import ConsumerMember, ConsumerTerms
from bench.member.member import NEWEST, Asked, Member
from bench.member.reactions import Reaction
from tests.coordinator.driver import Driver

GROUP = "orders"
SESSION_MS = 45_000
REBALANCE_MS = 300_000
AWAY_MS = 2_000
"""How long a member that restarts is away."""
NEXT_MS = 3_000
"""The time from one member's return to the departure of the next."""

SETTLE_MS = 120_000
GOES_ON = (Reaction.FINE, Reaction.UNNAMED, Reaction.REJOIN)
"""The answers that members may get in a tier in which nothing fails."""
Kind = Callable[[str | None, str], Member]
"""Makes a consumer of one protocol, given its instance id and a name for the life of its process."""


class Restart(NamedTuple):
    """The way in which members restart."""

    leaves: bool = True
    """The member sends LeaveGroup; else its session runs out."""
    static: bool = False


LEAVING = Restart()


class Clock:
    """The calendar of a simulation, and the shard that it drives."""

    def __init__(self, seed: int, settings: GroupSettings) -> None:
        self.chance = random.Random(seed)
        self.driver = Driver(settings=settings, orders=1_000)
        self._order = count()
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._waiting: dict[Token, Callable[[Any], None]] = {}

    def after(self, delay_ms: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.driver.now_ms + round(delay_ms), next(self._order), call))

    @property
    def now_s(self) -> float:
        return self.driver.now_ms / 1_000

    def ask(self, asked: Asked, then: Callable[[Any], None]) -> None:
        """Send a request; `then` gets the answer, a millisecond after it was given."""
        api_key, version = NEWEST[type(asked)]
        self._waiting[self.driver.send(api_key, asked, version)] = then

    def run(self, for_ms: int) -> None:
        end_ms = self.driver.now_ms + for_ms
        while self.driver.now_ms < end_ms:
            self._deliver()
            deadline_ms = self.driver.shard.next_deadline_ms
            moments = [moment for moment, _, _ in self._due[:1]] + [deadline_ms or end_ms, end_ms]
            self.driver.advance(max(min(moments) - self.driver.now_ms, 0))
            while self._due and self._due[0][0] <= self.driver.now_ms:
                heapq.heappop(self._due)[2]()

    def _deliver(self) -> None:
        for token in [token for token in self._waiting if token in self.driver.replies]:
            then, body = self._waiting.pop(token), self.driver.replies.pop(token)
            self.after(1, partial(then, body))


class Process:
    """A process with one consumer, which is another one after each restart."""

    def __init__(self, clock: Clock, consumer: Callable[[str], Member], number: int) -> None:
        self._clock = clock
        self._consumer = consumer
        self._names = (f"m{number}-{life}" for life in count())
        self._member: Member | None = None

    def start(self) -> None:
        self._member = self._consumer(next(self._names))
        self._go_on(self._member)

    def depart(self, *, leaves: bool) -> None:
        assert self._member is not None, "it was started"
        asked = self._member.leave() if leaves else None
        if asked is not None:
            self._clock.ask(asked, lambda answer: None)
        self._member = None

    def _go_on(self, member: Member) -> None:
        if member is not self._member:
            return
        asked = member.next_request(self._clock.now_s)
        if asked is not None:
            self._clock.ask(asked, partial(self._answered, member))
            return
        rest_ms = (member.next_deadline - self._clock.now_s) * 1_000
        self._clock.after(math.ceil(rest_ms), partial(self._go_on, member))

    def _answered(self, member: Member, answer: Any) -> None:
        if member is self._member:
            assert member.received(answer) in GOES_ON, answer
            self._go_on(member)


def classic(instance_id: str | None, name: str) -> Member:
    """Return a member that speaks the classic protocol."""
    return ClassicMember(ClassicTerms(GROUP, Alike(), SESSION_MS, REBALANCE_MS), instance_id)


def consumer(instance_id: str | None, name: str) -> Member:
    """Return a member that speaks the consumer protocol."""
    return ConsumerMember(ConsumerTerms(GROUP, ("orders",), REBALANCE_MS), name, instance_id)


class Counts(NamedTuple):
    """What one rolling restart caused."""

    rebalances: int
    """How many generations a classic group had, or how many targets a KIP-848 group."""
    group_epochs: int
    """How far the group epoch rose; of a classic group, how many generations it had."""


def roll(
    kind: Kind,
    members: int,
    settings: GroupSettings,
    restart: Restart = LEAVING,
) -> Counts:
    """Start a group, let it settle, restart every member once, let it settle again, and count."""
    clock = Clock(1, settings)
    group = []
    for number in range(members):
        instance_id = f"instance-{number}" if restart.static else None
        group.append(Process(clock, partial(kind, instance_id), number))
    for process in group:
        clock.after(clock.chance.uniform(0, 1_000), process.start)
    clock.run(SETTLE_MS)
    before = _counts(clock.driver)
    for number, process in enumerate(group):
        departs_ms = number * (AWAY_MS + NEXT_MS)
        clock.after(departs_ms, partial(process.depart, leaves=restart.leaves))
        clock.after(departs_ms + AWAY_MS, process.start)
    clock.run(members * (AWAY_MS + NEXT_MS) + SETTLE_MS)
    summary = clock.driver.shard.summary(GROUP)
    assert (summary["state"], summary["members"]) == ("Stable", members), summary
    after = _counts(clock.driver)
    return Counts(*(behind - ahead for behind, ahead in zip(after, before, strict=True)))


def _counts(driver: Driver) -> Counts:
    summary = driver.shard.summary(GROUP)
    if "generation" in summary:
        return Counts(summary["generation"], summary["generation"])
    targets = sum(isinstance(event, AssignmentComputed) for event in driver.events)
    return Counts(targets, summary["group_epoch"])
