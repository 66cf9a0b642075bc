"""What is shown live of a swarm."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple


class Second(NamedTuple):
    """What a swarm did within one second, of all processes."""

    at_s: float
    """After the swarm's start."""
    requests_s: float
    errors_s: float
    commits_s: float
    members_by_state: dict[str, int]
    groups_stable: int
    groups: int
    moved_partitions: int
    """Since the start."""
    p50_ms: float
    p99_ms: float
    requests: int = 0
    """These three since the start: what happened between two lines of a screen is not lost."""
    errors: int = 0
    commits: int = 0
    groups_without_coordinator: int = 0
    apis: Mapping[str, Any] = MappingProxyType({})
    """What `tally` counted in this second, as plain values."""
    busy: Mapping[str, float] = MappingProxyType({})
    """Share of a core that each process of the swarm needs."""
    lag: int | None = None
    """Records that groups are behind, all together; None: none are written."""
