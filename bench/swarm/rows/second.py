"""The figures of a swarm that are shown while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple


class Second(NamedTuple):
    """What all processes of a swarm did within one second."""

    at_s: float
    """The time since the swarm's start."""
    requests_s: float
    errors_s: float
    commits_s: float
    members_by_state: dict[str, int]
    groups_stable: int
    groups: int
    moved_partitions: int
    """How many partitions were moved since the start."""
    p50_ms: float
    p99_ms: float
    requests: int = 0
    """How many requests there were since the start, as for errors and commits: nothing between two lines of a
    screen is lost."""
    errors: int = 0
    commits: int = 0
    groups_without_coordinator: int = 0
    apis: Mapping[str, Any] = MappingProxyType({})
    """The counts of `tally` in this second, as plain values."""
    busy: Mapping[str, float] = MappingProxyType({})
    """The share of a core that each process of the swarm needs."""
    lag: int | None = None
    """How many records all groups together are behind; None: no records are written."""
