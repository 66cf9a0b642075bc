"""What each fault did to the groups, by what their clients were answered.

PURE. All that happens between the beginning of one fault and the next is put down to the first: faults come
one at a time, with time between them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from bench.swarm.counted.columns import given_up
from bench.swarm.counted.figures import Figures
from bench.swarm.counted.gaps import STALLED_US
from bench.swarm.planning.plan import SLEEP
from storage.history.calls import CONSUMER, NEVER, Call, Fault, History
from storage.history.judge.findings import ERRORS_OF_MOVING

BEFORE: Final = -1


class Harm(NamedTuple):
    """What one fault did to one group."""

    kind: str
    fault: int
    """The fault's number in its history."""
    group_id: str
    without_us: int = 0
    """The time in which the group's requests failed or stalled, and none was served."""
    never: int = 0
    """1 if no request of the group was ever served again, else 0."""
    refused: int = 0
    """How many requests were told to come back, or lost their answer. Those that a client gave up because it
    was to leave or to crash do not count."""
    members_lost: int = 0
    """How many members were told that they are members no longer."""
    rebalances: int = 0
    """How many rebalances the group had; 0 if the swarm itself had its members come or go meanwhile."""


class Availability(NamedTuple):
    """What the faults in one history did to its groups."""

    faults: tuple[Fault, ...]
    """The faults in the order of time, without those that the swarm's own plan gave its members."""
    groups: int
    harms: tuple[Harm, ...]
    """What each fault did to each group that felt it."""

    def first(self, count: int) -> Availability:
        """Return what is known of the first `count` faults only."""
        harms = tuple(harm for harm in self.harms if harm.fault < count)
        return self._replace(faults=self.faults[:count], harms=harms)

    def plain(self) -> dict[str, Any]:
        """Return it as plain values for JSON."""
        kinds = [fault.kind for fault in self.faults]
        return {"groups": self.groups, "faults": kinds, "harms": [harm._asdict() for harm in self.harms]}


def read(plain: Mapping[str, Any]) -> Availability:
    """Read what `plain` gave; only the kinds of faults are known of it."""
    faults = tuple(Fault(kind, "", 0, 0) for kind in plain["faults"])
    return Availability(faults, plain["groups"], tuple(Harm(**harm) for harm in plain["harms"]))


def availability(history: History, figures: Figures) -> Availability:
    """Find what each fault did to each group. `figures` are those of the same history."""
    done_to_it = [fault for fault in history.faults if fault.kind != SLEEP]
    faults = sorted(done_to_it, key=lambda fault: fault.began_us)
    windows = _Windows(faults)
    found: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    for gap in figures.gaps:
        if not gap.is_served_again:
            found[windows.at(gap.began_us + STALLED_US), gap.group_id]["never"] = 1
            continue
        number = windows.most_of(gap.began_us, gap.ended_us)
        if number is not None:
            began_us = max(gap.began_us, faults[number].began_us)
            found[number, gap.group_id]["without_us"] += gap.ended_us - began_us
    own = set(given_up(history))
    for place, call in enumerate(history.calls):
        if call.group_id and call.ended_us != NEVER and _has_failed(call) and place not in own:
            found[windows.at(call.ended_us), call.group_id]["refused"] += 1
    for loss in figures.losses:
        found[windows.at(loss.at_us), loss.group_id]["members_lost"] += 1
    restless = {(windows.at(at_us), group_id) for at_us, group_id in _own_changes(history)}
    for each in figures.rebalances:
        if (windows.at(each.began_us), each.group_id) not in restless:
            found[windows.at(each.began_us), each.group_id]["rebalances"] += 1
    harms = [
        Harm(faults[number].kind, number, group_id, **counts)
        for (number, group_id), counts in found.items()
        if number != BEFORE
    ]
    return Availability(tuple(faults), len(figures.groups), tuple(sorted(harms, key=lambda harm: harm[1:3])))


class _Windows:
    """The fault to which a moment is put down, by its number; BEFORE the first fault there is none."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self._starts = [fault.began_us for fault in faults]

    def at(self, at_us: int) -> int:
        return bisect_right(self._starts, at_us) - 1

    def most_of(self, since_us: int, until_us: int) -> int | None:
        """Return the fault in whose time most of a span lies: a request that a fault loses may have been
        sent before it."""
        edges = [since_us, *self._starts[self.at(since_us) + 1 : self.at(until_us) + 1], until_us]
        lengths = [end - start for start, end in pairwise(edges)]
        number = self.at(since_us) + lengths.index(max(lengths))
        return None if number == BEFORE else number


def _has_failed(call: Call) -> bool:
    codes = (call.error_code, *(offset.error_code for offset in call.offsets))
    return call.was_sent and (not call.is_answered or not ERRORS_OF_MOVING.isdisjoint(codes))


def _own_changes(history: History) -> Iterator[tuple[int, str]]:
    """The times at which the swarm had a group's members come and go, or topics grow, by group."""
    gone = {row.client: row.at_us for row in history.gone}
    away: set[str] = set()
    last: dict[str, Call] = {}
    for call in history.calls:
        if not call.group_id:
            continue
        if call.client not in last or call.client in away:
            yield call.sent_us, call.group_id
        last[call.client] = call
        away.discard(call.client)
        if call.api == "LeaveGroup" or (call.protocol == CONSUMER and call.epoch in (-1, -2)):
            away.add(call.client)
            yield call.sent_us, call.group_id
    for client, at_us in gone.items():
        if client in last:
            yield at_us, last[client].group_id
            yield at_us + last[client].session_timeout_ms * 1_000, last[client].group_id
    groups = {call.group_id for call in last.values()}
    for topic in history.topics:
        yield from ((topic.at_us, group_id) for group_id in groups)
