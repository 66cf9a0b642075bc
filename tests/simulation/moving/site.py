"""Brokers with the log of each offsets partition, and shards of a tier that take it over: what is committed,
acknowledged, fetched and served.

A broker acknowledges a commit when all of its ISR have it; whoever is elected next may lack what was not, and
those that have it give it up. A shard keeps what it has fetched, whoever leads it.

Commits are numbers that rise, and all of them are of the same offset: what is served has to have all that
were acknowledged, the last one at the end.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import NamedTuple

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
    Source,
    Standing,
)
from actors.upstream.orders import FOLLOWED as TAKEN
from actors.upstream.partitions import RaftLeader
from tests.simulation.upstream.kraft import Key, Kraft, State

LAG_MS = 2_000
"""How long a replica may not have fetched to stay in the ISR."""
FORGET_MS = 3_000
"""How long a shard goes on fetching without an order."""
BATCH = 40


class Entry(NamedTuple):
    """A commit in a log, with the leader epoch of its batch."""

    number: int
    epoch: int


Log = list[Entry]


def shared(one: Log, other: Log) -> int:
    """Return the offset up to which two logs are the same."""
    for offset, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return offset
    return min(len(one), len(other))


@dataclass
class Shard:
    """One offsets partition of the tier, as its log makes it: every replica has the same."""

    phase: str = NOTHING
    log: Log = field(default_factory=list)
    """What it has of Kafka's log, or what it gives to brokers."""
    order: Order | None = None
    ordered_ms: int = 0
    epoch: int = -1
    """The leader epoch up to which its log is known to be the leader's."""
    is_checked: bool = False
    """Whether it was looked at what it serves."""
    dropping_ms: int = 0
    served_epoch: int = -1
    released_epoch: int = -1
    acknowledged: int = 0
    """Up to which offset Kafka had acknowledged what it has of the log."""
    owed: int = 0
    """The offset before which nobody is served."""
    kept: list[int] = field(default_factory=list)
    """What it had when brokers led what it alone has."""
    kept_epoch: int = -1
    """The lowest epoch of what is taken on top of that."""

    def take(self, order: Order, now_ms: int, drop_takes_ms: int, led: Log | None = None) -> Standing:
        """Take an order, and answer it. `led` is the log of the broker that the order names."""
        problem = None
        if order.order != LOOK:
            self.order, self.ordered_ms = order, now_ms
        match order.order:
            case "follow" if self.phase == NOTHING:
                self.phase = TAKEN
            case "serve" if self.phase in (NOTHING, TAKEN, RETAKEN):
                if len(self.log) < self.owed:
                    problem = "Kafka counts on more than what is here"
                else:
                    self._serve(order.led_epoch)
            case "retake" if self.phase in (TAKEN, SERVED, SEALED):
                self._retake(order.source)
            case "seal" if self.phase == SERVED:
                self.phase = SEALED
            case "release" if self.phase == SEALED:
                self.released_epoch = order.led_epoch
            case "unseal" if self.phase == SEALED:
                self.phase, self.released_epoch = SERVED, -1
            case "drop" if self.phase == TAKEN and self.acknowledged and led is None:
                problem = "nobody leads"
            case "drop" if self.phase == TAKEN and self._lacks(order.source, shared(self.log, led or [])):
                self._retake(order.source)
            case "drop" if self.phase == RETAKEN:
                self.log = []
            case "drop" if self.phase in (TAKEN, DROPPING) or self.released_epoch >= 0:
                self.phase = DROPPING
                self.dropping_ms = self.dropping_ms or now_ms + drop_takes_ms
            case "drop" | "follow" if self.phase in (SERVED, SEALED):
                problem = "the groups are served here, or sealed"
            case _:
                pass
        if self.phase == DROPPING and now_ms >= self.dropping_ms:
            self._become(Shard())
        return Standing(
            self.phase, len(self.log), False, len(self.log), problem, released_epoch=self.released_epoch
        )

    def part(self, source: Source, offset: int) -> None:
        """Part from a leader whose log is the same up to an offset."""
        if self._lacks(source, offset):
            self._retake(source)
        else:
            self.log, self.acknowledged, self.owed = [], 0, max(offset, self.owed)

    def _lacks(self, source: Source | None, offset: int) -> bool:
        if source is None or not self.log or self.kept_epoch >= 0:
            return False
        return source.leader_epoch > self.log[-1].epoch and offset < self.acknowledged

    def _serve(self, led_epoch: int) -> None:
        on_top = [each.number for each in self.log if each.epoch >= self.kept_epoch]
        self.log = [Entry(number, led_epoch) for number in (*self.kept, *on_top)]
        self.phase, self.served_epoch, self.kept, self.kept_epoch = SERVED, led_epoch, [], -1
        self.order, self.acknowledged, self.owed = None, 0, 0

    def _retake(self, source: Source | None) -> None:
        assert source is not None
        last = self.log[-1].epoch if self.phase == TAKEN and self.log else self.served_epoch
        if source.leader_epoch > last:
            kept = [each.number for each in self.log]
            self._become(Shard(RETAKEN, kept=kept, kept_epoch=last + 1))

    def _become(self, other: Shard) -> None:
        vars(self).update(vars(other))

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
        self.lag = 0.3
        """How often a broker that follows another one gets nothing."""
        self.logs: dict[tuple[int, int], Log] = {}
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
        """(follower, partition) -> what its leader of the present epoch, a broker, knows that it has."""
        self._least = [0] * count
        """What a follower has to have before it comes into the ISR of a broker: what that had when it was
        elected, and everything that is acknowledged."""

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
        for follower in [key for key in self._lengths if key[1] == index]:
            del self._lengths[follower]
        if state.leader in self.tier or state.leader == NO_LEADER:
            return
        is_forced = index in self.forced
        assert is_forced or self.shards[index].phase != SERVED, f"{index} was served, {state.leader} leads it"
        if not any(at == index for _, at in self.logs):
            backlog = self._backlog(state.leader_epoch)
            self.acked[index] = [each.number for each in backlog]
            self.logs |= {(broker, index): backlog.copy() for broker in state.replicas}
        led = self.logs.setdefault((state.leader, index), [])
        self._least[index] = len(led)
        missing = set() if is_forced else self.lacking(index, led)
        assert not missing, f"{index}: broker {state.leader} leads without {len(missing)} commits"

    def lacking(self, index: int, log: Log) -> set[int]:
        """Return the commits that were acknowledged and are not in a log."""
        return set(self.acked[index]).difference(each.number for each in log)

    def _commit_here(self, index: int) -> None:
        """Commit at the tier, if it serves."""
        shard = self.shards[index]
        if shard.phase != SERVED:
            return
        if not shard.is_checked:
            missing = len(self.lacking(index, shard.log))
            assert not missing, f"{index} is served without {missing} commits that were acknowledged"
            if shard.log:
                least = max(self.acked[index], default=shard.log[-1].number)
                assert shard.log[-1].number >= least, f"{index} has gone back to {shard.log[-1]} from {least}"
            shard.is_checked = True
            self.forced.discard(index)
        self._next += 1
        shard.log.append(Entry(self._next, shard.served_epoch))
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
        led.append(Entry(self._next, state.leader_epoch))
        self._follow_outside(index, state, led, now_ms)
        self._fetch(index, now_ms)
        self._set_isr(index, now_ms)
        state = self.kraft.partitions[key]
        if state.leader in self.tier or state.leader == NO_LEADER:
            return
        least = self._high_watermark(state, index)
        self._least[index] = max(self._least[index], least)
        done = [value for value, place in self._pending[index] if place < least]
        if done:
            self.acked[index] += done
            self._pending[index] = self._pending[index][len(done) :]
            self.unserved_ms[index] = 0

    def _follow_outside(self, index: int, state: State, led: Log, now_ms: int) -> None:
        """Let the other brokers follow the one that leads. Who has more than that gives it up."""
        for broker in set(state.replicas) - self.tier - {state.leader}:
            if self.kraft.brokers[broker].fenced or self.random.random() < self.lag:
                continue
            own = self.logs.setdefault((broker, index), [])
            if (broker, index) not in self._lengths:
                del own[shared(own, led) :]
            self._lengths[broker, index] = len(own)
            if len(own) >= len(led) - 2:
                self.fetched_ms[broker, index] = now_ms
            own += led[len(own) :]

    def _high_watermark(self, state: State, index: int) -> int:
        """Return the offset before which everything is acknowledged."""
        lengths = [
            len(self.logs[broker, index]) if broker == state.leader else self._lengths.get((broker, index), 0)
            for broker in state.isr
        ]
        return min(lengths)

    def _backlog(self, epoch: int) -> Log:
        """Return what was committed long ago."""
        count = self.random.choice((0, 300, 6_000))
        return [Entry(each - count, epoch) for each in range(count)]

    def led_outside(self, index: int) -> Log | None:
        """Return the log of the broker that leads a partition; None if none does."""
        state = self.kraft.partitions.get((self.topic, index))
        return None if state is None else self.logs.get((state.leader, index))

    def _fetch(self, index: int, now_ms: int) -> None:
        """Let the shard fetch from the leader, as all nodes that its order names. What a fetch asks from is
        what it has committed."""
        shard, state = self.shards[index], self.kraft.partitions[self.topic, index]
        order = shard.follows(now_ms)
        if order is None or order.source is None or self.random.random() < 0.3:
            return
        if (order.source.broker_id, order.source.leader_epoch) != (state.leader, state.leader_epoch):
            return
        asking = [
            node
            for node, epoch in order.replicas
            if node in state.replicas and self.kraft.brokers[node].broker_epoch == epoch
        ]
        if not asking:
            return
        led = self.logs[state.leader, index]
        if shard.epoch != state.leader_epoch:
            same = shared(shard.log, led)
            if same < len(shard.log):
                shard.part(order.source, same)
            shard.epoch = state.leader_epoch
        for node in asking:
            self._lengths[node, index] = len(shard.log)
            if len(shard.log) >= len(led) - 1 and self.random.random() < 0.3:
                self.fetched_ms[node, index] = now_ms
        shard.log += led[len(shard.log) : len(shard.log) + BATCH]
        known = min(self._high_watermark(state, index), len(shard.log))
        shard.acknowledged = max(shard.acknowledged, known)

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
                and (broker in state.isr or self._lengths.get((broker, index), 0) >= self._least[index])
            )
        )
        if set(isr) != set(state.isr) and state.leader in isr:
            self.kraft.set_isr(key, isr)

    def force(
        self, index: int, brokers: tuple[int, ...], known: int | None, *, is_done: bool, epochs: int
    ) -> None:
        """Have brokers lead what the tier alone has, with the first commits of it or none; or, if `known` is
        None, with what they have fetched."""
        self.kraft.force((self.topic, index), brokers, is_done=is_done, epochs=epochs)
        self.forced.add(index)
        had = {broker: self.logs.get((broker, index), []) for broker in brokers}
        for key in [key for key in self.logs if key[1] == index]:
            del self.logs[key]
            self._followed.pop(key, None)
        for broker in brokers:
            log = had[broker] if known is None else self.shards[index].log[:known]
            self.logs[broker, index] = log.copy()

    def change_leader_here(self, index: int) -> None:
        self.shards[index].lose_leader()
