"""A group whose members restart one after the other, in simulated time, and how often it rebalances.

Members do as Java's consumer: they heartbeat at their interval, rejoin when they are told to, and
synchronise. A restarted one comes back without a member id. Nothing here knows of batching.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from actors.coordinator.told.consumer_events import AssignmentComputed
from actors.ground.contract import Token
from actors.ground.settings import GroupSettings
from actors.protocol import api_keys
from actors.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    SyncGroupRequest,
)
from tests.coordinator.driver import Driver

GROUP = "orders"
SESSION_MS = 45_000
REBALANCE_MS = 300_000
CLASSIC_INTERVAL_MS = 3_000
AWAY_MS = 2_000
"""How long a member is away."""
NEXT_MS = 3_000
"""The time from one member's return to the departure of the next."""

SETTLE_MS = 120_000


class Restart(NamedTuple):
    """How members restart."""

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

    def ask(self, api_key: int, body: Any, version: int, then: Callable[[Any], None]) -> None:
        """Send a request; `then` gets the answer, a millisecond after it was given."""
        self._waiting[self.driver.send(api_key, body, version)] = then

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


class ClassicMember:
    """A process with one consumer of the classic protocol."""

    def __init__(self, clock: Clock, number: int, *, static: bool) -> None:
        self.clock = clock
        self.instance_id = f"instance-{number}" if static else None
        self.member_id = ""
        self.generation = -1
        self.life = 0
        """The number of the process's life: answers to requests of an earlier life no longer matter."""

    def start(self) -> None:
        self._join()

    def depart(self, restart: Restart) -> None:
        self.life += 1
        if restart.leaves and not restart.static:
            body = LeaveGroupRequest(GROUP, (LeavingMember(self.member_id),))
            self.clock.driver.send(api_keys.LEAVE_GROUP, body, 5)
        self.member_id, self.generation = "", -1

    def _ask(self, api_key: int, body: Any, version: int, then: Callable[[Any], None]) -> None:
        life = self.life
        self.clock.ask(api_key, body, version, lambda answer: then(answer) if life == self.life else None)

    def _join(self) -> None:
        self.generation = -1
        body = JoinGroupRequest(
            GROUP,
            SESSION_MS,
            REBALANCE_MS,
            self.member_id,
            self.instance_id,
            "consumer",
            (("range", b""),),
        )
        self._ask(api_keys.JOIN_GROUP, body, 9, self._joined)

    def _joined(self, answer: Any) -> None:
        if answer.error_code is ErrorCode.member_id_required:
            self.member_id = answer.member_id
            self._join()
            return
        assert answer.error_code is ErrorCode.none, answer
        self.member_id, self.generation = answer.member_id, answer.generation_id
        assignments = tuple((member_id, b"") for member_id, _, _ in answer.members)
        body = SyncGroupRequest(
            GROUP, self.generation, self.member_id, self.instance_id, "consumer", "range", assignments
        )
        self._ask(api_keys.SYNC_GROUP, body, 5, self._synced)

    def _synced(self, answer: Any) -> None:
        if answer.error_code is ErrorCode.none:
            self._beat_later()
        else:
            self._join()

    def _beat_later(self) -> None:
        life, generation = self.life, self.generation
        self.clock.after(
            self.clock.chance.uniform(0.95, 1.05) * CLASSIC_INTERVAL_MS,
            lambda: self._beat() if (life, generation) == (self.life, self.generation) else None,
        )

    def _beat(self) -> None:
        body = HeartbeatRequest(GROUP, self.generation, self.member_id, self.instance_id)
        self._ask(api_keys.HEARTBEAT, body, 4, self._beaten)

    def _beaten(self, answer: Any) -> None:
        if answer.error_code is ErrorCode.none:
            self._beat_later()
        else:
            assert answer.error_code is ErrorCode.rebalance_in_progress, answer
            self._join()


class ConsumerMember:
    """A process with one consumer of the new protocol."""

    def __init__(self, clock: Clock, number: int, *, static: bool) -> None:
        self.clock = clock
        self.instance_id = f"instance-{number}" if static else None
        self._lives = (f"m{number}-{life}" for life in count())
        self.member_id = ""
        self.epoch = 0
        self.owned: Any = ()

    def start(self) -> None:
        self.member_id = next(self._lives)
        self.epoch, self.owned = 0, ()
        self._beat(self.member_id)

    def depart(self, restart: Restart) -> None:
        if restart.leaves:
            body = ConsumerGroupHeartbeatRequest(
                GROUP, self.member_id, -2 if restart.static else -1, self.instance_id
            )
            self.clock.driver.send(api_keys.CONSUMER_GROUP_HEARTBEAT, body, 1)
        self.member_id = ""

    def _beat(self, member_id: str, *, told: bool = True) -> None:
        if member_id != self.member_id:
            return
        body = ConsumerGroupHeartbeatRequest(GROUP, member_id, self.epoch, self.instance_id)
        if self.epoch == 0:
            body = body._replace(rebalance_timeout_ms=REBALANCE_MS, subscribed_topic_names=("orders",))
        if told:
            body = body._replace(topic_partitions=self.owned)
        self.clock.ask(
            api_keys.CONSUMER_GROUP_HEARTBEAT, body, 1, lambda answer: self._beaten(member_id, answer)
        )

    def _beaten(self, member_id: str, answer: Any) -> None:
        if member_id != self.member_id:
            return
        assert answer.error_code is ErrorCode.none, answer
        self.epoch = answer.member_epoch
        changed = answer.assignment is not None and answer.assignment != self.owned
        if changed:
            self.owned = answer.assignment
        self.clock.after(
            1 if changed else answer.heartbeat_interval_ms, lambda: self._beat(member_id, told=changed)
        )


class Counts(NamedTuple):
    """What one rolling restart caused."""

    rebalances: int
    """How many generations a classic group had, or how many targets a KIP-848 group."""
    group_epochs: int
    """How far the group epoch rose; of a classic group, how many generations it had."""


def roll(
    kind: type[ClassicMember] | type[ConsumerMember],
    members: int,
    settings: GroupSettings,
    restart: Restart = LEAVING,
) -> Counts:
    """Start a group, let it settle, restart every member once, let it settle again, and count."""
    clock = Clock(1, settings)
    group = [kind(clock, number, static=restart.static) for number in range(members)]
    for member in group:
        clock.after(clock.chance.uniform(0, 1_000), member.start)
    clock.run(SETTLE_MS)
    before = _counts(clock.driver)
    for number, member in enumerate(group):
        departs_ms = number * (AWAY_MS + NEXT_MS)
        clock.after(departs_ms, partial(member.depart, restart))
        clock.after(departs_ms + AWAY_MS, member.start)
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
