"""When members go and come back: restarts, as arrays with one element each.

A group's time is cut into cells. In a plain cell one member restarts; storms and flapping are many
restarts in one cell. Restarts of a group never overlap, so every one of them is two
rebalances with known ends.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.history.generator.spec import DAY_MS, Spec

Int64s = NDArray[np.int64]
STORM_RESTARTS: Final = 6
FLAPS: Final = 12
FLAP_EVERY_MS: Final = 240_000
KEY_BITS: Final = 40
"""How many bits the milliseconds of a history need at most."""


class Restarts(NamedTuple):
    """Restarts in the order of group and time; times in ms since the history's beginning."""

    group: Int64s
    slot: Int64s
    """The number of the consumer within its group."""
    left_ms: Int64s
    first_ms: Int64s
    """How long the rebalance took that it caused by going."""
    away_ms: Int64s
    """How long the member stays away, from its end on."""
    second_ms: Int64s
    """How long the one took that it caused by coming back."""
    number: Int64s
    """Number of the restart within its group."""
    life: Int64s
    """How many lives the consumer had before."""
    planted: Int64s
    """The kind of the restart: 0 a plain one, 1 one in a storm, 2 one of a flapping member."""

    @property
    def back_ms(self) -> Int64s:
        return self.left_ms + self.first_ms + self.away_ms


class Departures(NamedTuple):
    """Members that go, in any order; the columns are as those of `Restarts`."""

    group: Int64s
    slot: Int64s
    left_ms: Int64s
    planted: Int64s


def restarts(spec: Spec) -> Restarts:
    """Make all restarts of a history."""
    random = np.random.default_rng([spec.seed, 1])
    per_day = np.full(spec.groups, spec.restarts_per_day)
    per_day[-1] *= spec.hot_restarts
    cells = spec.days * per_day
    group = np.repeat(np.arange(spec.groups), cells)
    cell = _numbers(group)
    cell_ms = (DAY_MS // per_day)[group]
    slot = random.integers(0, spec.members, group.size)
    left = cell * cell_ms + (cell_ms * random.uniform(0.1, 0.4, group.size)).astype(np.int64)
    planted = np.zeros(group.size, np.int64)
    special = np.flatnonzero(
        (group < spec.storms + spec.flapping) & (cell == spec.restarts_per_day // 2 + group % 5)
    )
    kept = np.delete(np.arange(group.size), special)
    parts = [Departures(group[kept], slot[kept], left[kept], planted[kept])]
    for where in special:
        kind = 1 if group[where] < spec.storms else 2
        times = STORM_RESTARTS if kind == 1 else FLAPS
        # A storm goes through the members one after the other; who flaps is one member.
        slots = (np.arange(times) if kind == 1 else np.zeros(times, np.int64)) % spec.members
        every = 1 if kind == 1 else FLAP_EVERY_MS
        starts = cell[where] * cell_ms[where] + 60_000 + np.arange(times) * every
        parts.append(Departures(np.full(times, group[where]), slots, starts, np.full(times, kind)))
    gone = Departures(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    return _timed(spec, random, gone)


def _timed(spec: Spec, random: np.random.Generator, gone: Departures) -> Restarts:
    order = np.lexsort((gone.left_ms, gone.group))
    group, slot, left, planted = (column[order] for column in gone)
    count = group.size
    first, second = random.integers(200, 3_000, (2, count))
    away = np.where(planted == 1, random.integers(1_000, 4_000, count), random.integers(5_000, 30_000, count))
    slow = is_slow(spec, group)
    first = np.where(slow, random.integers(12_000, 20_000, count), first)
    second = np.where(slow, random.integers(12_000, 20_000, count), second)
    pause = random.integers(1_000, 4_000, count)
    for at in np.flatnonzero((planted == 1) & np.r_[False, planted[:-1] == 1]):
        if group[at] == group[at - 1]:
            left[at] = left[at - 1] + first[at - 1] + away[at - 1] + second[at - 1] + pause[at]
    return Restarts(
        group, slot, left, first, away, second, _numbers(group), _lives(spec, group, slot), planted
    )


def _numbers(ordered: Int64s) -> Int64s:
    """How many of the same stand before each element."""
    begins = np.r_[0, np.flatnonzero(np.diff(ordered)) + 1]
    numbers: Int64s = np.arange(ordered.size) - np.repeat(begins, np.diff(np.r_[begins, ordered.size]))
    return numbers


def _lives(spec: Spec, group: Int64s, slot: Int64s) -> Int64s:
    """How often the same consumer stands before each element."""
    consumer = group * spec.members + slot
    order = np.argsort(consumer, kind="stable")
    found = np.empty(consumer.size, np.int64)
    found[order] = _numbers(consumer[order])
    return found


def lives_before(spec: Spec, all_: Restarts, group: Int64s, slot: Int64s, at_ms: Int64s) -> Int64s:
    """How many lives consumers have ended before these moments."""
    keys = np.sort(((all_.group * spec.members + all_.slot) << KEY_BITS) + all_.left_ms)
    consumer = (group * spec.members + slot) << KEY_BITS
    found: Int64s = np.searchsorted(keys, consumer + at_ms) - np.searchsorted(keys, consumer)
    return found


def is_slow(spec: Spec, group: Int64s) -> NDArray[np.bool_]:
    """Whether a group has a slow member; it is that of `SLOW_SLOT`."""
    first = spec.storms + spec.flapping
    found: NDArray[np.bool_] = (group >= first) & (group < first + spec.slow)
    return found


SLOW_SLOT: Final = 1
