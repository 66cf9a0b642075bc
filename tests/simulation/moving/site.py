"""Brokers with the log of each offsets partition, and shards of a tier that take it over: what is committed,
acknowledged, fetched and served.

A broker acknowledges a commit when all of its ISR have it. A shard keeps what it has fetched, whoever leads
it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from actors.upstream.given import GivenLog
from actors.upstream.image import NO_LEADER
from actors.upstream.orders import (
    DROPPING,
    FOLLOW,
    LOOK,
    NOTHING,
    RETAKEN,
    SEALED,
    SERVED,
    Order,
    Standing,
)
from actors.upstream.orders import FOLLOWED as TAKEN
from actors.upstream.partitions import RaftLeader
from tests.simulation.upstream.kraft import Key, Kraft

LAG_MS = 2_000
"""How long a replica may not have fetched to stay in the ISR."""
FORGET_MS = 3_000
"""How long a shard goes on fetching without an order."""
BATCH = 40


@dataclass
class Shard:
    """One offsets partition of the tier, as its log makes it: every replica has the same."""

    phase: str = NOTHING
    log: list[int] = field(default_factory=list)
    order: Order | None = None
    ordered_ms: int = 0
    epoch: int = -1
    """The leader epoch up to which its log is known to be the leader's."""
    is_checked: bool = False
    """Whether it was looked at what it serves."""
    dropping_ms: int = 0
    served_epoch: int = -1
    kept: list[int] = field(default_factory=list)
    """What it had when brokers led what was served here."""

    def take(self, order: Order, now_ms: int, drop_takes_ms: int) -> Standing:
        """Take an order, and answer it."""
        problem = None
        if order.order != LOOK:
            self.order, self.ordered_ms = order, now_ms
        match order.order:
            case "follow" if self.phase == NOTHING:
                self.phase = TAKEN
            case "serve" if self.phase in (NOTHING, TAKEN, RETAKEN):
                self.log = [*self.kept, *(each for each in self.log if each not in set(self.kept))]
                self.phase, self.order, self.kept, self.served_epoch = SERVED, None, [], order.led_epoch
            case "retake" if self.phase == SERVED:
                assert order.source is not None
                if order.source.leader_epoch > self.served_epoch:
                    self.phase, self.kept, self.log, self.order = RETAKEN, self.log, [], None
                    self.epoch, self.is_checked = -1, False
            case "seal" if self.phase == SERVED:
                self.phase = SEALED
            case "unseal" if self.phase == SEALED:
                self.phase = SERVED
            case "drop" if self.phase in (TAKEN, DROPPING, SEALED):
                self.phase = DROPPING
                self.dropping_ms = self.dropping_ms or now_ms + drop_takes_ms
            case "drop" | "follow" if self.phase == SERVED:
                problem = "the groups are served here"
            case _:
                pass
        if self.phase == DROPPING and now_ms >= self.dropping_ms:
            self.phase, self.order, self.log, self.dropping_ms, self.epoch = NOTHING, None, [], 0, -1
            self.is_checked = False
        return Standing(self.phase, len(self.log), False, len(self.log), problem)

    def follows(self, now_ms: int) -> Order | None:
        """Return what it fetches now."""
        order = self.order
        if order is None or order.order != FOLLOW or self.phase not in (TAKEN, RETAKEN):
            return None
        return order if now_ms - self.ordered_ms < FORGET_MS else None

    def lose_leader(self) -> None:
        """Forget what only a leader knows."""
        self.order = None


class Site:
    """All partitions of one topic, on the brokers and in the tier."""

    def __init__(
        self, kraft: Kraft, topic: str, tier: tuple[int, ...], count: int, rng: random.Random
    ) -> None:
        self.kraft = kraft
        self.topic = topic
        self.tier = frozenset(tier)
        self.random = rng
        self.shards = [Shard() for _ in range(count)]
        self.leaders: dict[int, RaftLeader] = {}
        """Who leads here."""
        self.forced: set[int] = set()
        """Partitions that a broker was made to lead which lacks commits, until they are served here again."""
        self.hangs_ms: dict[int, int] = {}
        """Broker outside -> until when it does not fetch from here, though it lives."""
        self.logs: dict[tuple[int, int], list[int]] = {}
        """(broker outside, partition) -> its log."""
        self.acked: list[list[int]] = [[] for _ in range(count)]
        self.epochs = [-1] * count
        self.fetched_ms: dict[tuple[int, int], int] = {}
        """(broker, partition) -> when it fetched last, as a follower that has everything."""
        self.unserved_ms = [0] * count
        """How long nobody has been acknowledged a commit."""
        self._pending: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        """Commits that are not acknowledged yet, with their places in the leader's log."""
        self._next = 0
        self._followed: dict[tuple[int, int], int] = {}
        """(broker outside, partition) -> the term of the leader here whose log it has."""
        self._fetched: dict[tuple[int, int], int] = {}
        """(broker outside, partition) -> the place from which on it has fetched of that log."""
        self._lengths: dict[tuple[int, int], int] = {}
        """(tier node, partition) -> what the leader knows that it has."""

    def step(self, now_ms: int, step_ms: int) -> None:
        """Let everybody commit, fetch and acknowledge once."""
        for index in range(len(self.shards)):
            self.unserved_ms[index] += step_ms
            state = self.kraft.partitions.get((self.topic, index))
            if state is None:
                continue
            if state.leader_epoch != self.epochs[index]:
                self._led_anew(index, now_ms)
            if state.leader in self.tier:
                self._commit_here(index)
                self._fetch_here(index, now_ms)
            elif state.leader != NO_LEADER:
                self._commit_outside(index, now_ms)

    def _led_anew(self, index: int, now_ms: int) -> None:
        """Take note of another leader, or another epoch of the same."""
        state = self.kraft.partitions[self.topic, index]
        self.epochs[index] = state.leader_epoch
        self._pending[index].clear()
        for broker in state.replicas:
            self.fetched_ms[broker, index] = now_ms if broker in state.isr else -LAG_MS
        if state.leader in self.tier or state.leader == NO_LEADER:
            return
        is_forced = index in self.forced
        assert is_forced or self.shards[index].phase != SERVED, f"{index} was served, {state.leader} leads it"
        led = self.logs.setdefault((state.leader, index), self._backlog())
        missing = set() if is_forced else set(self.acked[index]) - set(led)
        assert not missing, f"{index}: broker {state.leader} leads without {len(missing)} commits"
        for broker, at in self.logs:
            if at == index and broker != state.leader:
                self.logs[broker, at] = led.copy()

    def _commit_here(self, index: int) -> None:
        """Commit at the tier, if it serves."""
        shard = self.shards[index]
        if shard.phase != SERVED:
            return
        if not shard.is_checked:
            missing = len(set(self.acked[index]) - set(shard.log))
            assert not missing, f"{index} is served without {missing} commits that were acknowledged"
            shard.is_checked = True
            self.forced.discard(index)
        self._next += 1
        shard.log.append(self._next)
        self.acked[index].append(self._next)
        self.unserved_ms[index] = 0

    def _fetch_here(self, index: int, now_ms: int) -> None:
        """Let brokers follow the partition's leader here. The log of another term begins anew."""
        state, leader = self.kraft.partitions[self.topic, index], self.leaders[index]
        if state.leader != leader.broker_id or self.shards[index].phase not in (SERVED, SEALED):
            return
        for broker in set(state.replicas) - self.tier:
            hangs = self.hangs_ms.get(broker, 0) > now_ms
            if self.kraft.brokers[broker].fenced or hangs or self.random.random() < 0.3:
                continue
            if self._followed.get((broker, index)) != leader.term:
                self._followed[broker, index], self.logs[broker, index] = leader.term, []
            own = self.logs[broker, index]
            self._fetched[broker, index] = len(own)
            own += self.shards[index].log[len(own) : len(own) + 30 * BATCH]

    def given(self, node: int) -> dict[int, GivenLog]:
        """Return what a node tells of the logs that it gives to brokers."""
        found = {}
        for index, leader in self.leaders.items():
            shard, state = self.shards[index], self.kraft.partitions.get((self.topic, index))
            if leader.broker_id != node or state is None or shard.phase not in (SERVED, SEALED):
                continue
            begin = leader.term << 40
            fetchers = {
                broker: (self.kraft.brokers[broker].broker_epoch, begin + self._fetched[broker, at])
                for (broker, at), term in self._followed.items()
                if at == index and term == leader.term
            }
            end = begin + len(shard.log)
            found[index] = GivenLog(begin, end, shard.phase == SEALED, fetchers)
        return found

    def _commit_outside(self, index: int, now_ms: int) -> None:
        key: Key = (self.topic, index)
        state = self.kraft.partitions[key]
        led = self.logs.setdefault((state.leader, index), [])
        self._next += 1
        self._pending[index].append((self._next, len(led)))
        led.append(self._next)
        for broker in state.replicas:
            if broker not in self.tier and not self.kraft.brokers[broker].fenced:
                own = self.logs.setdefault((broker, index), [])
                own += led[len(own) :]
                self.fetched_ms[broker, index] = now_ms
        self._fetch(index, now_ms)
        self._set_isr(index, now_ms)
        state = self.kraft.partitions[key]
        if state.leader in self.tier or state.leader == NO_LEADER:
            return
        least = min(self._length(broker, index) for broker in state.isr)
        done = [value for value, place in self._pending[index] if place < least]
        if done:
            self.acked[index] += done
            self._pending[index] = self._pending[index][len(done) :]
            self.unserved_ms[index] = 0

    def _backlog(self) -> list[int]:
        """Return what was committed long ago."""
        return [-1 - each for each in range(self.random.choice((0, 300, 6_000)))]

    def _length(self, broker: int, index: int) -> int:
        if broker in self.tier:
            return self._lengths.get((broker, index), 0)
        return len(self.logs.get((broker, index), []))

    def _fetch(self, index: int, now_ms: int) -> None:
        """Let the shard fetch from the leader, as all nodes that its order names. What a fetch asks from is
        what it has committed."""
        shard, state = self.shards[index], self.kraft.partitions[self.topic, index]
        order = shard.follows(now_ms)
        if order is None or order.source is None or self.random.random() < 0.3:
            return
        if (order.source.broker_id, order.source.leader_epoch) != (state.leader, state.leader_epoch):
            return
        led = self.logs[state.leader, index]
        if shard.epoch != state.leader_epoch and shard.log != led[: len(shard.log)]:
            shard.log = []  # what it has took another way: it begins anew
        shard.epoch = state.leader_epoch
        asking = [
            node
            for node, epoch in order.replicas
            if node in state.replicas and self.kraft.brokers[node].broker_epoch == epoch
        ]
        for node in asking:
            self._lengths[node, index] = len(shard.log)
            if len(shard.log) >= len(led) - 1 and self.random.random() < 0.3:
                self.fetched_ms[node, index] = now_ms
        if asking:
            shard.log += led[len(shard.log) : len(shard.log) + BATCH]

    def _set_isr(self, index: int, now_ms: int) -> None:
        """Have the leader say who is in sync."""
        key = (self.topic, index)
        state, brokers = self.kraft.partitions[key], self.kraft.brokers
        isr = tuple(
            broker
            for broker in state.replicas
            if broker == state.leader
            or (
                not brokers[broker].fenced
                and now_ms - self.fetched_ms.get((broker, index), -LAG_MS)
                < (LAG_MS if broker in state.isr else 20)
            )
        )
        if set(isr) != set(state.isr) and state.leader in isr:
            self.kraft.set_isr(key, isr)

    def force(self, index: int, brokers: tuple[int, ...], known: int, *, is_done: bool) -> None:
        """Have brokers lead what is served here, with the first commits of it or none."""
        self.kraft.force((self.topic, index), brokers, is_done=is_done)
        self.forced.add(index)
        for key in [key for key in self.logs if key[1] == index]:
            del self.logs[key]
            self._followed.pop(key, None)
        for broker in brokers:
            self.logs[broker, index] = self.shards[index].log[:known]

    def change_leader_here(self, index: int) -> None:
        self.shards[index].lose_leader()
