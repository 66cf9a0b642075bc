"""When groups had no coordinator, as far as their members could tell.

PURE.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from bench.swarm.counted.columns import OUTCOMES, WAITING_APIS, Columns, Integers, Mask
from storage.history.calls import TIMED_OUT
from storage.history.judge.findings import ERRORS_OF_MOVING
from storage.history.judge.outages import OF_COORDINATORS, OF_OFFSETS

STALLED_US: Final = 1_000_000
"""An answer that waits for no other member and takes longer than this is no service: a frozen leader fails no
request if it wakes in time."""


class Gap(NamedTuple):
    """A time in which a group's requests failed or stalled, and none of them was served."""

    group_id: str
    began_us: int
    ended_us: int
    is_served_again: bool
    """Whether a request was served at its end; False: none was until the group's members stopped asking."""

    @property
    def length_us(self) -> int:
        return self.ended_us - self.began_us


def gaps(columns: Columns) -> list[Gap]:
    """The gaps of all groups, by group and time. A gap begins with the sending of a request that fails or
    stalls, or with the last answer before that one ends; it ends with the next request that is served. A
    join or sync that waits for other members has a coordinator: one that fails begins a gap when it ends,
    unless nobody ever answered, and one that is served ends a gap when it is sent."""
    of_groups = columns.group >= 0
    moving = columns.answered & np.isin(columns.error_code, list(ERRORS_OF_MOVING))
    failed = of_groups & (columns.lost | moving)
    served = of_groups & columns.of(OF_COORDINATORS) & columns.answered & ~moving
    took_us = columns.ended_us - columns.sent_us
    stalled = served & columns.of(OF_OFFSETS) & (took_us > STALLED_US)
    bad = failed | stalled
    hit = np.unique(columns.group[bad]).astype(np.int64)
    good_of, bad_of = _by_group(columns, served, hit), _by_group(columns, bad, hit)
    waits = columns.of(WAITING_APIS)
    found = (_gaps_of(columns, place, bad_of[place], good_of[place], waits) for place in hit.tolist())
    return [gap for of_group in found for gap in of_group]


def _by_group(columns: Columns, mask: Mask, hit: Integers) -> dict[int, Integers]:
    """The places of each group's calls in `columns`."""
    places = np.flatnonzero(mask & np.isin(columns.group, hit))
    order = places[np.argsort(columns.group[places], kind="stable")]
    starts = np.searchsorted(columns.group[order], hit)
    parts = np.split(order, starts[1:]) if len(hit) else []
    return dict(zip(hit.tolist(), parts, strict=True))


def _gaps_of(columns: Columns, group: int, bad: Integers, good: Integers, waits: Mask) -> Iterator[Gap]:
    answers_us = np.sort(np.concatenate((columns.ended_us[good], columns.sent_us[good[waits[good]]])))
    ended_us = columns.ended_us[bad]
    timed_out = columns.outcome[bad] == OUTCOMES.index(TIMED_OUT)
    sent_us = np.where(waits[bad] & ~timed_out, ended_us, columns.sent_us[bad])
    is_stalled = np.isin(bad, good)
    """Whether the request stalled: then it is itself the first one that is served again."""
    after = np.where(
        is_stalled, np.searchsorted(answers_us, ended_us), np.searchsorted(answers_us, ended_us, "right")
    )
    edges_us = np.concatenate(([-1], answers_us, [ended_us.max()]))
    began_us = np.maximum(sent_us, edges_us[after])
    until_us = np.maximum(edges_us[after + 1], ended_us)
    is_served_again = after < len(answers_us)
    merged: list[Gap] = []
    for place in np.argsort(began_us, kind="stable").tolist():
        span = int(began_us[place]), int(until_us[place]), bool(is_served_again[place])
        if merged and span[0] <= merged[-1].ended_us:
            before = merged.pop()
            merged.append(
                before._replace(
                    ended_us=max(before.ended_us, span[1]), is_served_again=before.is_served_again and span[2]
                )
            )
        else:
            merged.append(Gap(columns.groups[group], *span))
    yield from merged
