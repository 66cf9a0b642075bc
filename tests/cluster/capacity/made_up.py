"""Costs and a check with round figures, so that a test can do the sums in its head."""

from __future__ import annotations

from typing import Final

from cluster.capacity.checked import FIGURES, Checked, Size
from cluster.capacity.costs import CURVES, ROWS, Costs, Measured, costs
from cluster.capacity.curve import Point
from cluster.capacity.model import Shape
from cluster.capacity.workload import Workload

MEASURED: Final = Measured("a machine", "2026-11-26", "groupd bench costs", 0.02)
NUMBERS: Final = dict.fromkeys(ROWS, 0.0) | {
    "leader_idle": 0.01,
    "follower_idle": 0.01,
    "controller_leader_idle": 0.01,
    "controller_follower_idle": 0.01,
    "broker_idle": 0.01,
    "machine_idle": 0.01,
    "offset_leader_us": 10,
    "leader_bytes": 100e6,
    "follower_bytes": 100e6,
    "broker_bytes": 100e6,
    "controller_bytes": 100e6,
    "machine_bytes": 300e6,
    "member_leader_bytes": 1_000,
    "member_follower_bytes": 500,
    "offset_bytes": 200,
    "connection_bytes": 2_000,
    "member_snapshot_bytes": 100,
    "offset_snapshot_bytes": 50,
    "commit_journal_bytes": 100,
    "name_bytes": 20,
    "heartbeat_in_bytes": 100,
    "heartbeat_out_bytes": 50,
    "commit_in_bytes": 200,
    "commit_out_bytes": 50,
}
POINTS: Final = (Point(1, 600), Point(100, 60), Point(10_000, 6))
"""What a request costs: at a hundred times the rate a tenth of it."""


def table(**numbers: float) -> Costs:
    """Make costs of which every request costs what POINTS say."""
    return costs(MEASURED, dict.fromkeys(CURVES, POINTS), NUMBERS | numbers)


def checked(error: float = 0.1) -> Checked:
    """Make a check whose model is above what was measured by this share."""
    measured = dict.fromkeys(FIGURES, 100.0)
    modelled = dict.fromkeys(FIGURES, 100.0 * (1 + error))
    size = Size(Workload(3_000), 40.0, modelled, measured)
    return Checked(MEASURED, Shape(1, 3, 4, 3), (size,))
