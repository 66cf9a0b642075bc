"""What a tier's parts cost, as measured: the table that `groupd bench costs` fills, and its file. PURE.

The file says when and on which machine it was measured, and what else the machine did meanwhile.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from cluster.capacity.curve import Curve, Point

FOREIGN_MAX: Final = 0.1
"""The share of the processors that other programs may have had, for figures that can be quoted."""


class CostsError(ValueError):
    """A file of costs, or of a check, that cannot be used; the text says why."""


class Row(NamedTuple):
    """A row of the table of costs."""

    unit: str
    meaning: str


ROWS: Final[Mapping[str, Row]] = MappingProxyType(
    {
        "leader_idle": Row("cores", "a leader that is asked nothing"),
        "follower_idle": Row("cores", "a follower that is sent nothing"),
        "controller_leader_idle": Row("cores", "the controller's leader"),
        "controller_follower_idle": Row("cores", "a follower of the controller"),
        "broker_idle": Row("cores", "a node's broker"),
        "machine_idle": Row("cores", "Ray's processes and the command's on one machine"),
        "offset_leader_us": Row("us", "each further offset of a commit, leader"),
        "offset_follower_us": Row("us", "each further offset of a commit, follower"),
        "join_leader_us": Row("us", "a member's join in a rebalance, with its sync, leader"),
        "join_follower_us": Row("us", "the same, follower"),
        "leader_bytes": Row("bytes", "memory of a leader's process without groups"),
        "follower_bytes": Row("bytes", "memory of a follower's process without groups"),
        "controller_bytes": Row("bytes", "memory of a replica of the controller"),
        "broker_bytes": Row("bytes", "memory of a node's broker"),
        "machine_bytes": Row("bytes", "memory of Ray's processes and the command's on one machine"),
        "member_leader_bytes": Row("bytes", "memory of a member, leader"),
        "member_follower_bytes": Row("bytes", "memory of a member, follower"),
        "group_leader_bytes": Row("bytes", "memory of a group without its members, leader"),
        "group_follower_bytes": Row("bytes", "memory of a group without its members, follower"),
        "offset_bytes": Row("bytes", "memory of a committed offset, in each copy"),
        "connection_bytes": Row("bytes", "memory of a client's connection, leader"),
        "member_snapshot_bytes": Row("bytes", "a member in a snapshot"),
        "offset_snapshot_bytes": Row("bytes", "a committed offset in a snapshot"),
        "commit_journal_bytes": Row("bytes", "a commit of one offset in a journal"),
        "offset_journal_bytes": Row("bytes", "each further offset of a commit in a journal"),
        "name_bytes": Row("bytes", "mean length of the names with which the following was counted"),
        "heartbeat_in_bytes": Row("bytes", "a heartbeat's request"),
        "heartbeat_out_bytes": Row("bytes", "a heartbeat's answer"),
        "commit_in_bytes": Row("bytes", "the request of a commit of one offset"),
        "commit_out_bytes": Row("bytes", "its answer"),
        "offset_in_bytes": Row("bytes", "each further offset in the request"),
        "offset_out_bytes": Row("bytes", "each further offset in the answer"),
    }
)
"""Costs that are one number each."""
CURVES: Final[Mapping[str, Row]] = MappingProxyType(
    {
        "heartbeat": Row("us", "a KIP-848 heartbeat, leader"),
        "classic_heartbeat": Row("us", "a classic heartbeat, leader"),
        "held_heartbeat": Row("us", "a KIP-848 heartbeat that is held, leader"),
        "commit_leader": Row("us", "a commit of one offset, leader"),
        "commit_follower": Row("us", "a commit of one offset, follower"),
        "commit_disk": Row("bytes", "a commit of one offset, what the disks of the copies write, mean"),
    }
)
"""Costs that depend on how many requests a process gets, measured at several rates."""


class Measured(NamedTuple):
    """When and where costs were measured."""

    machine: str
    date: str
    command: str
    foreign: float
    """The share of the processors that other programs had meanwhile."""

    @property
    def is_quotable(self) -> bool:
        return self.foreign <= FOREIGN_MAX


@dataclass(frozen=True, slots=True)
class Costs:
    """The table. `costs` makes it; `table["offset_bytes"]` is the cost of that name among ROWS."""

    measured: Measured
    curves: Mapping[str, Curve]
    """The curve of each of CURVES."""
    numbers: Mapping[str, float]
    """The value of each of ROWS."""

    def __getitem__(self, name: str) -> float:
        return self.numbers[name]


def costs(measured: Measured, points: Mapping[str, tuple[Point, ...]], numbers: Mapping[str, float]) -> Costs:
    """Make the table. Raises CostsError if a cost is missing, unknown or no number above or at zero."""
    for kind, given, known in (("curve", points, CURVES), ("cost", numbers, ROWS)):
        missing, unknown = sorted(known.keys() - given.keys()), sorted(given.keys() - known.keys())
        if missing or unknown:
            what = f"no {kind} {missing[0]}" if missing else f"no such {kind}: {unknown[0]}"
            raise CostsError(f"{what}; `groupd bench costs` makes a whole file")
    for name, value in numbers.items():
        if not (math.isfinite(value) and value >= 0):
            raise CostsError(f"{name}: {value:g} is no cost")
    for name, of_curve in points.items():
        if any(not (point.per_s > 0 and 0 < point.each < math.inf) for point in of_curve):
            raise CostsError(f"{name}: rates and costs are above zero")
    try:
        curves = {name: Curve.through(of_curve) for name, of_curve in points.items()}
    except ValueError as error:
        raise CostsError(str(error)) from None
    return Costs(measured, curves, numbers)


def plain(table: Costs) -> dict[str, Any]:
    """Return what the file says."""
    return {
        "measured": table.measured._asdict(),
        "by_rate": {
            name: [[float(f"{n:.4g}") for n in point] for point in curve.points]
            for name, curve in table.curves.items()
        },
        "costs": {name: float(f"{table.numbers[name]:.4g}") for name in ROWS},
    }


def parse(text: str) -> Costs:
    """Read a file's text. Raises CostsError."""
    try:
        said = json.loads(text)
        points = {
            str(name): tuple(Point(float(per_s), float(each)) for per_s, each in found)
            for name, found in said["by_rate"].items()
        }
        numbers = {str(name): float(value) for name, value in said["costs"].items()}
        return costs(Measured(**said["measured"]), points, numbers)
    except CostsError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CostsError(f"it is no file of `groupd bench costs`: {error}") from None
