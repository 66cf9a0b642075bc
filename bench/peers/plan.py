"""The words of a comparison: what a run is asked to do, what one scenario is, what one run of it gave."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from bench.peers.peer import Peer

UNITS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cpu_us": "us CPU a request",
        "own_cpu_us": "us CPU a request, without Ray's processes",
        "per_s": "requests a second",
        "p50_ms": "ms, p50",
        "p99_ms": "ms, p99",
        "seconds": "s",
        "cpu_s": "s CPU",
        "p50_s": "s, p50",
        "max_s": "s, max",
        "gap_s": "s, the longest time without an acknowledged commit",
        "bytes": "bytes each, a copy",
        "core": "% of a core",
        "own_core": "% of a core, without Ray's processes",
    }
)
"""Unit of a figure by its name; a figure "join:seconds" is the "seconds" of a part."""
HIGHER_IS_BETTER: Final = frozenset({"per_s"})
SATURATED: Final = "the load generator was above 90 % of a core"
SATURATED_FROM: Final = 0.9
BEHIND: Final = "below 95 % of the intended rate"
KAFKAS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "groupd-1": "kafka-1",
        "groupd-3": "kafka-3",
        "unsynced-1": "kafka-1",
        "unsynced-3": "kafka-3",
        "attached-3": "alone-3",
    }
)
"""Ours, and the Kafka with as many copies; and a Kafka with a tier in front of it, and without."""
ALWAYS: Final = ("groupd-1", "groupd-3")
"""Every report sets these beside Kafka, and the others of ours only where they were measured. A report of a
tier in front of Kafka has none of them."""


FAILURES_MAX: Final = 2
"""After how many failures in a scenario a peer is given up; after the first it is started anew and asked
again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One run of a scenario on a peer. `generator_share`: of a core, the busiest load generator's; `foreign`:
    of all processors, what neither the peer nor the generators had meanwhile (None: not looked at); `load_s`:
    of full load (0: the whole run was); `percentiles`: 0 to 100, of what the scenario says."""

    figures: Mapping[str, float]
    requests: int
    generator_share: float = 0.0
    foreign: float | None = None
    load_s: float = 0.0
    percentiles: tuple[float, ...] = ()
    marks: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Row:
    """What a report shows of a scenario: `label` stands under `heading`; `shown` are its figures, one row
    each. `goals`: by (peer, figure), at most. `rate`: intended, in requests a second."""

    work: int
    heading: str
    label: str
    shown: tuple[str, ...]
    goals: Mapping[tuple[str, str], float] = field(default_factory=dict)
    rate: float | None = None

    @property
    def name(self) -> str:
        return f"{self.heading}, {self.label}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scenario(Row):
    """`measure` is called for each run and raises Refused where there is nothing to be had.

    `warm_up` names what a JVM has to compile for it: the first scenario of a name is repeated, uncounted,
    until the peer is warm. `fresh`: it starts and stops peers itself. `together`: on all peers at a time, for
    it is hardly any load.
    """

    measure: Callable[[Peer], Sample]
    warm_up: str = ""
    fresh: bool = False
    together: bool = False


@dataclass(slots=True, kw_only=True)
class Outcome:
    """All runs of a scenario on a peer. `refused` says why it does not do this, `failures` what went wrong;
    `command`: the place among the report's commands of the one that measured it."""

    row: Row
    peer: str
    samples: list[Sample] = field(default_factory=list)
    refused: str = ""
    failures: list[str] = field(default_factory=list)
    command: int = 0

    @property
    def key(self) -> tuple[int, str, str]:
        return self.row.work, self.row.name, self.peer

    @property
    def is_over(self) -> bool:
        """Whether the peer gets no further runs, because it refused or failed too often."""
        return bool(self.refused) or len(self.failures) >= FAILURES_MAX

    def values(self, figure: str) -> list[float]:
        return [sample.figures[figure] for sample in self.samples if figure in sample.figures]

    def median(self, figure: str) -> float | None:
        values = self.values(figure)
        return statistics.median(values) if values else None

    @property
    def marks(self) -> frozenset[str]:
        return frozenset().union(*(sample.marks for sample in self.samples))


class Command(NamedTuple):
    """One call of the command. `is_whole`: it was not interrupted."""

    line: str
    date: str
    runs: int
    seconds: float
    is_whole: bool


@dataclass(slots=True, kw_only=True)
class Report:
    """What one call of the command found, or several on the same machine. `peers`: name to version;
    `skipped`: name to reason."""

    machine: str
    cores: int
    quick: bool
    commands: list[Command]
    peers: dict[str, str]
    skipped: dict[str, str]
    outcomes: list[Outcome]

    def outcome(self, row: Row, peer: str) -> Outcome | None:
        key = (row.work, row.name, peer)
        return next((each for each in self.outcomes if each.key == key), None)

    def ratio(self, row: Row, figure: str, ours: str, theirs: str) -> float | None:
        """The ratio of two medians; below 1 we take less. None unless one call of the command measured
        both."""
        mine, other = self.outcome(row, ours), self.outcome(row, theirs)
        if mine is None or other is None or mine.command != other.command:
            return None
        top, bottom = mine.median(figure), other.median(figure)
        return top / bottom if top is not None and bottom else None

    @property
    def foreign(self) -> float | None:
        """Median over all runs that looked at it."""
        shares = [sample.foreign for each in self.outcomes for sample in each.samples]
        known = [share for share in shares if share is not None]
        return statistics.median(known) if known else None

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Ours and the Kafka beside it, as the report compares them."""
        always = () if "attached-3" in self.peers else ALWAYS
        return [pair for pair in KAFKAS.items() if pair[0] in always or pair[0] in self.peers]

    @property
    def rows(self) -> list[Row]:
        return list({(each.row.work, each.row.name): each.row for each in self.outcomes}.values())


def unit_of(figure: str) -> str:
    return UNITS[figure.rpartition(":")[2]]


def part_of(figure: str) -> str:
    """ "join" of "join:seconds"; empty without."""
    return figure.rpartition(":")[0]


def ours_beside(peer: str) -> str:
    """The tier of ours that a peer is compared with; empty for ours."""
    if peer in KAFKAS:
        return ""
    return next((ours for ours, theirs in KAFKAS.items() if theirs == peer), "groupd-1")


def saturated(share: float) -> frozenset[str]:
    """The mark of a run whose load generator had this share of a core."""
    return frozenset({SATURATED} if share > SATURATED_FROM else ())


def percentiles(values: Iterable[float]) -> tuple[float, ...]:
    """0 to 100 of these, nearest rank, to tenths of a millisecond if they are seconds."""
    ordered = sorted(values)
    return tuple(round(ordered[round(n / 100 * (len(ordered) - 1))], 4) for n in range(101))


def kept(peer: Peer, name: str, make: Callable[[], Any]) -> Any:
    """What a scenario once made on this peer and further runs use again: members, topics."""
    if name not in peer.kept:
        peer.kept[name] = make()
    return peer.kept[name]
