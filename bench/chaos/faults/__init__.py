"""Every kind of fault there is."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from bench.chaos.faults import bursts, by_ray, disks, machines, network, operators, processes, upkeep
from bench.chaos.targets.fault import FaultKind

KINDS: Final[Mapping[str, FaultKind]] = MappingProxyType(
    {
        kind.name: kind
        for module in (processes, bursts, by_ray, network, disks, machines, upkeep, operators)
        for kind in module.KINDS
    }
)
"""Every kind of fault by its name, in the order in which they are listed."""
