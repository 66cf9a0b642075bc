"""A member of a KIP-848 group: beats as often as it is told, gives up what is asked for, and says so."""

from __future__ import annotations

import time
from typing import Final
from uuid import NAMESPACE_OID, uuid5

import gevent

from bench.swarm.members.asking import JOINING, STABLE
from bench.swarm.members.member import Heartbeat, Member
from bench.swarm.members.processing import plain
from bench.swarm.planning.plan import MemberPlan
from bench.swarm.planning.reactions import CONSUMER_REACTIONS, Reaction
from bench.swarm.rows.shared import Shared
from bench.swarm.wire.answers import Beat, beat
from bench.swarm.wire.requests import (
    consumer_heartbeat,
    packed,
)
from storage.history.calls import Call

Assigned = dict[str, tuple[int, ...]] | None
"""By topic; None: as before."""
RESTART_S: Final = 1.0
"""What runs a client takes so long to start it again."""
JOINS: Final = 0
LEAVES: Final = -1
LEAVES_FOR_A_WHILE: Final = -2
"""Epochs that say so; a static member keeps its place (KIP-848)."""


class ConsumerMember(Member):
    """Its member id is its own choice (version 1 of the heartbeat)."""

    reactions = CONSUMER_REACTIONS

    def __init__(self, plan: MemberPlan, life: int, shared: Shared) -> None:
        super().__init__(plan, life, shared)
        self.member_id = str(uuid5(NAMESPACE_OID, f"{shared.run_id}/{self.client}"))
        self.epoch = JOINS
        self._says_all = True
        """A whole request: the first one, and after whatever went wrong."""
        self._says_owned = True
        self._interval_s = 0.0
        self._target: dict[str, tuple[int, ...]] | None = None
        """What it is to own, until it does."""

    def settle(self) -> bool:
        if self._target is not None:
            self._reconcile(self._target)
            return True
        if self.epoch == JOINS:
            self.become(JOINING)
            self._beat_now()
            return True
        return False

    @property
    def is_member(self) -> bool:
        return True  # its heartbeats are what it joins with

    def heartbeat(self) -> Heartbeat:
        subscription = (self.plan.rebalance_timeout_ms, self.plan.topics) if self._says_all else None
        says_owned = self._says_all or self._says_owned
        owned = packed(self.owned, self.shared.catalogue.ids) if says_owned else None
        request = consumer_heartbeat(self.identity(), subscription, owned)
        call = self.call()._replace(
            subscribed=() if subscription is None else self.plan.topics,
            owned=plain(self.owned) if says_owned else None,
        )
        self._says_all = True  # unless this one is answered well
        software = self.software
        timeout_s = software.heartbeat_timeout_ms / 1000
        if software.consumer_timeout_is_interval and self._interval_s:
            timeout_s = self._interval_s
        return Heartbeat(request, call, self._read, timeout_s)

    def beat_interval_s(self) -> float:
        """As it was last told."""
        return self._interval_s

    def beaten(self, answer: tuple[Beat, Assigned]) -> None:
        told, assigned = answer
        reaction = self.check(told.error_code)
        if reaction is Reaction.HELD_BY_ANOTHER:
            gevent.sleep(RESTART_S)
            return
        if reaction is not Reaction.FINE:
            self.lose()
            return
        self._says_all = self._says_owned = False
        if told.interval_ms / 1000 != self._interval_s:
            self._interval_s = told.interval_ms / 1000
            self.beat_at = time.monotonic() + self._interval_s
        self._is_told(told.member_epoch, assigned)

    def lose(self) -> None:
        self.epoch = JOINS
        self._target = None
        self._says_all = True
        self.take({})

    def say_goodbye(self) -> bool:
        if self.epoch == JOINS:
            return False
        is_static = self.plan.instance_id is not None
        self.epoch = LEAVES_FOR_A_WHILE if is_static else LEAVES
        self.ask(consumer_heartbeat(self.identity(), None, None), self.call(), self._read)
        return True

    def _beat_now(self) -> None:
        """One heartbeat and what its answer asks for, before anything else: to join, and to say what it owns.
        Of those of one member no two are on their way at once."""
        while self._flights:
            self._flights[0].wait()
            self._land()
        self._take_off()
        self._flights[0].wait()
        self._land()

    def _read(self, answer: bytes, call: Call) -> tuple[Call, tuple[Beat, Assigned]]:
        told = beat(answer)
        assigned = None
        if told.assigned is not None:
            name = self.shared.catalogue.name
            assigned = {name(topic_id): numbers for topic_id, numbers in told.assigned if numbers}
        call = call._replace(
            error_code=told.error_code,
            told_epoch=told.member_epoch,
            assigned=None if assigned is None else plain(assigned),
        )
        return call, (told, assigned)

    def _is_told(self, epoch: int, assigned: dict[str, tuple[int, ...]] | None) -> None:
        is_new = epoch != self.epoch or self.state == JOINING
        self.epoch = epoch
        if assigned is not None and plain(assigned) != plain(self.owned):
            self._target = assigned
            self.become(JOINING)
        elif assigned is not None:
            self._target = None
        if self._target is None and is_new:
            self.become(STABLE)

    def _reconcile(self, target: dict[str, tuple[int, ...]]) -> None:
        """Commit and give up first, then own the rest, and say so at once."""
        keeps = {
            topic: kept
            for topic, numbers in self.owned.items()
            if (kept := tuple(number for number in numbers if number in target.get(topic, ())))
        }
        if plain(keeps) != plain(self.owned):
            self.commit_all()
            self.take(keeps)
        news = self.take(target)
        self._target = None
        self._says_owned = True
        self._beat_now()
        if self._target is None and self.epoch > JOINS:
            self.become(STABLE, gained=sum(len(numbers) for _, numbers in news))
        self.find_positions(news)
