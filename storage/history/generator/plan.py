"""Everything that happens in a made-up history, decided from its seed. Pure: no file, no clock."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from storage.history.generator import groups, lives
from storage.history.generator.groups import World
from storage.history.generator.lives import SLOW_SLOT, Int64s
from storage.history.generator.rows import CAUSES, KIND, NULL, Rows, concatenated, rows, taken
from storage.history.generator.spec import (
    DAY_MS,
    Answers,
    Client,
    DoubleOwnership,
    Expiring,
    FallenEpoch,
    Regressed,
    Spec,
    Storm,
)


class Plan(NamedTuple):
    """What happened to groups and leaders, by time; commits and lag samples are made day by day (`bulk`)."""

    world: World
    events: Rows
    failovers_ms: Int64s
    """offsets partition * failovers each, in order of time."""
    answers: Answers

    @property
    def spec(self) -> Spec:
        return self.world.spec


def plan(spec: Spec) -> Plan:
    """The same spec gives the same plan."""
    of = groups.world(spec, lives.restarts(spec))
    parts = [groups.forming(of), groups.restarting(of)]
    size = parts[1].size // 10
    starts = parts[0].size + np.arange(10) * size
    events = concatenated(parts)
    events, double_owned = _plant_double_owners(of, events, int(starts[4]), int(starts[9]))
    fallen = _plant_fallen_epochs(of, events, int(starts[9]))
    regressions, regressed = _regressions(of)
    expiries, expiring = _expiries(of)
    events = concatenated([events, regressions, expiries])
    order = np.lexsort((events.columns["order"], events.columns["at_ms"]))
    rebalances = 1 + 2 * np.bincount(of.restarts.group, minlength=spec.groups)
    slow = lives.is_slow(spec, np.arange(spec.groups))
    answers = Answers(
        {group_id(each): int(count) for each, count in enumerate(rebalances)},
        _storms(of, events, parts[0].size),
        tuple(client(spec, each, 0) for each in range(spec.storms, spec.storms + spec.flapping)),
        tuple(client(spec, each, SLOW_SLOT) for each in range(spec.groups) if slow[each]),
        double_owned,
        regressed,
        fallen,
        group_id(spec.groups - 1),
        expiring,
    )
    return Plan(of, taken(events, order), _failovers(spec), answers)


def group_id(group: int) -> str:
    return f"group-{group:04}"


def topic(group: int) -> str:
    return f"topic-{group:04}"


def client(spec: Spec, group: int, slot: int) -> Client:
    return Client(group_id(group), f"consumer-{slot}", host(group * spec.members + slot))


def host(consumer: int) -> str:
    return f"/10.{consumer >> 16}.{consumer >> 8 & 255}.{consumer & 255}"


def member_id(consumer: int, life: int) -> str:
    """A member id such as a client library makes, here without chance."""
    return f"consumer-{consumer % 1_000_003:06}-{consumer * 2_654_435_761 % 2**32:08x}-{life:06}"


def _member_text(of: World, member: int) -> str:
    consumer = int(np.searchsorted(of.first_member, member, side="right")) - 1
    return member_id(consumer, member - int(of.first_member[consumer]))


def _storms(of: World, events: Rows, start: int) -> tuple[Storm, ...]:
    spec, all_ = of.spec, of.restarts
    found = []
    for group in range(spec.storms):
        mine = np.flatnonzero((all_.group == group) & (all_.planted == 1))
        first, last = int(mine[0]), int(mine[-1])
        found.append(
            Storm(
                group_id(group),
                spec.first_ms + int(all_.left_ms[first]),
                spec.first_ms + int(all_.back_ms[last] + all_.second_ms[last]),
                2 * mine.size,
                _member_text(of, int(events.columns["member_id"][start + first])),
                CAUSES[events.columns["cause"][start + first]],
            )
        )
    return tuple(found)


def _plant_double_owners(
    of: World, events: Rows, first_ended: int, second_ended: int
) -> tuple[Rows, tuple[DoubleOwnership, ...]]:
    """Plant partitions with two owners: in one restart each of some groups a partition of a third member
    is given to a fourth as well, until the restart's second rebalance."""
    spec, all_ = of.spec, of.restarts
    planted, extra = [], []
    for group in range(spec.groups - 1 - spec.double_owned, spec.groups - 1):
        at = int(np.flatnonzero(all_.group == group)[3])
        one = np.array([group])
        third, fourth = (
            int(of.alive(one, (all_.slot[[at]] + step) % spec.members, all_.left_ms[[at]])[0])
            for step in (2, 3)
        )
        partition = int((all_.slot[at] + 2) % spec.members)
        extra += [
            (first_ended + at, group, partition, NULL, fourth),
            (second_ended + at, group, partition, fourth, NULL),
        ]
        ends = [
            spec.first_ms + int(events.columns["at_ms"][each + at]) for each in (first_ended, second_ended)
        ]
        members = _member_text(of, third), _member_text(of, fourth)
        planted.append(DoubleOwnership(group_id(group), topic(group), partition, members, ends[0], ends[1]))
    columns = {
        name: np.concatenate([each, np.array([more[at] for more in extra], np.int64)])
        for at, (name, each) in enumerate(events.moves.items())
    }
    order = np.argsort(columns["row"], kind="stable")
    return events._replace(moves={name: each[order] for name, each in columns.items()}), tuple(planted)


def _plant_fallen_epochs(of: World, events: Rows, second_ended: int) -> tuple[FallenEpoch, ...]:
    """One rebalance of each of some groups ends with an epoch that the group had long before."""
    spec, all_ = of.spec, of.restarts
    found = []
    epochs = events.columns["group_epoch"] = events.columns["group_epoch"].copy()
    for group in range(spec.groups // 2, spec.groups // 2 + spec.epochs_fallen):
        at = int(np.flatnonzero(all_.group == group)[5])
        row = second_ended + at
        before = int(epochs[row])
        epochs[row] = before - 4
        at_ms = spec.first_ms + int(events.columns["at_ms"][row])
        found.append(FallenEpoch(group_id(group), at_ms, before, before - 4))
    return tuple(found)


def _regressions(of: World) -> tuple[Rows, tuple[Regressed, ...]]:
    spec = of.spec
    random = np.random.default_rng([spec.seed, 4])
    count = spec.regressed
    group = random.choice(spec.groups, count, replace=count > spec.groups)
    partition = random.integers(0, spec.members * spec.partitions_each, count)
    at_ms = random.integers(DAY_MS // 10, spec.days * DAY_MS, count)
    before, lost = random.integers(100_000, 200_000, count), random.integers(1, 5_000, count)
    member = of.alive(group, partition % spec.members, at_ms)
    told = {
        "at_ms": at_ms,
        "kind": KIND["commit_regressed"],
        "group_id": group,
        "member_id": member,
        "order": 0,
        "topic": group,
        "partition": partition,
        "committed_offset": before - lost,
        "end_offset": before,
    }
    summed = {
        "at_ms": at_ms,
        "kind": KIND["commits"],
        "group_id": group,
        "order": 1,
        "first_ms": at_ms,
        "last_ms": at_ms,
        "commits": 1,
        "offsets": 1,
        "regressed": 1,
    }
    answers = tuple(
        Regressed(
            group_id(int(group[each])),
            spec.first_ms + int(at_ms[each]),
            topic(int(group[each])),
            int(partition[each]),
            _member_text(of, int(member[each])),
            int(before[each]),
            int(before[each] - lost[each]),
        )
        for each in range(count)
    )
    return concatenated([rows(count, told), rows(count, summed)]), answers


def _expiries(of: World) -> tuple[Rows, tuple[Expiring, ...]]:
    """Told a day ahead, and then they expire, if the history is long enough."""
    spec = of.spec
    random = np.random.default_rng([spec.seed, 7])
    group = random.choice(spec.groups, spec.expiring, replace=False)
    at_ms = random.integers(0, spec.days * DAY_MS, spec.expiring)
    count = random.integers(1, spec.members * spec.partitions_each, spec.expiring)
    common = {"group_id": group, "order": 2, "count": count}
    last_ms = at_ms + DAY_MS
    told = {"at_ms": at_ms, "kind": KIND["offsets_expiring"], "first_ms": last_ms, "last_ms": last_ms}
    over = {"at_ms": last_ms, "kind": KIND["offsets_expired"]}
    parts = [rows(spec.expiring, common | each) for each in (told, over)]
    ended = np.flatnonzero(last_ms < spec.days * DAY_MS)
    answers = tuple(
        Expiring(
            group_id(int(group[each])),
            spec.first_ms + int(at_ms[each]),
            int(count[each]),
            spec.first_ms + int(last_ms[each]),
        )
        for each in range(spec.expiring)
    )
    return concatenated([parts[0], taken(parts[1], ended)]), answers


def _failovers(spec: Spec) -> Int64s:
    random = np.random.default_rng([spec.seed, 5])
    each = spec.days * spec.failovers_per_day
    found: Int64s = np.sort(
        random.integers(FAILOVER_FIRST_MS, spec.days * DAY_MS, (spec.offsets_partitions, each)), axis=1
    )
    return found


FAILOVER_FIRST_MS = 10_000
