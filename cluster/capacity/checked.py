"""What a check of the model found: the same figures as the model says them and as a tier had them. PURE.

The file of a check holds what was measured. What the model says is computed when the file is read: it is
never an older model's.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from cluster.capacity import model
from cluster.capacity.costs import Costs, CostsError, Measured
from cluster.capacity.model import Shape
from cluster.capacity.workload import Workload


class Figure(NamedTuple):
    unit: str
    meaning: str


FIGURES: Final[Mapping[str, Figure]] = MappingProxyType(
    {
        "heartbeats_s": Figure("1/s", "heartbeats"),
        "commits_s": Figure("1/s", "commits"),
        "cores": Figure("cores", "CPU of all processes"),
        "leaders_cores": Figure("cores", "CPU of the leaders"),
        "followers_cores": Figure("cores", "CPU of the followers"),
        "memory_bytes": Figure("bytes", "memory of all processes"),
        "disk_bytes_s": Figure("bytes/s", "written to disk"),
        "clients_in_bytes_s": Figure("bytes/s", "received from clients, without packets"),
        "clients_out_bytes_s": Figure("bytes/s", "sent to clients, without packets"),
    }
)
"""The figures of a size."""


class Size(NamedTuple):
    """One swarm's figures."""

    load: Workload
    seconds: float
    """How long the figures were taken, all members being settled."""
    modelled: Mapping[str, float]
    measured: Mapping[str, float]

    def error(self, figure: str) -> float:
        """The share by which the model is above the measurement; negative: below it. Raises CostsError if
        nothing was measured: that proves nothing."""
        found = self.measured[figure]
        if not (math.isfinite(found) and found > 0):
            raise CostsError(f"{self.load.members:,} members: {figure} was measured as {found:g}")
        return self.modelled[figure] / found - 1


class Checked(NamedTuple):
    """A check: sizes on one tier."""

    measured: Measured
    shape: Shape
    sizes: tuple[Size, ...]
    unseen: tuple[str, ...] = ()
    """Why further sizes showed nothing."""

    @property
    def largest(self) -> int:
        """The members of the largest size."""
        return max(size.load.members for size in self.sizes)

    def worst(self, figure: str) -> float:
        """The largest error of a figure, whichever its sign."""
        return max((size.error(figure) for size in self.sizes), key=abs)


def modelled(load: Workload, shape: Shape, costs: Costs) -> dict[str, float]:
    """Return what the model says of the figures of a check."""
    found = model.needs(load, shape, costs)
    followers = shape.partitions * (shape.copies - 1)
    packets = model.ASSUMED["packets"].value * model.ASSUMED["packet_bytes"].value
    around = (load.heartbeats_per_s + load.commits_per_s) * packets
    return {
        "heartbeats_s": load.heartbeats_per_s,
        "commits_s": load.commits_per_s,
        "cores": found.cores,
        "leaders_cores": shape.partitions * found.leader.cores,
        "followers_cores": followers * found.follower.cores,
        "memory_bytes": found.memory_bytes,
        "disk_bytes_s": found.disk_write_bytes_s,
        "clients_in_bytes_s": found.traffic.clients_in - around,
        "clients_out_bytes_s": found.traffic.clients_out - around,
    }


def plain(checked: Checked) -> dict[str, Any]:
    """Return what the file says."""
    return {
        "measured": checked.measured._asdict(),
        "shape": checked.shape._asdict(),
        "unseen": checked.unseen,
        "sizes": [
            {
                "load": size.load._asdict(),
                "seconds": round(size.seconds, 1),
                "measured": {name: float(f"{size.measured[name]:.4g}") for name in FIGURES},
            }
            for size in checked.sizes
        ],
    }


def parse(text: str, costs: Costs) -> Checked:
    """Read a file's text. Raises CostsError; a check that saw nothing is none."""
    try:
        said = json.loads(text)
        shape = Shape(**said["shape"])
        loads = [Workload(**each["load"]) for each in said["sizes"]]
        sizes = tuple(
            Size(load, each["seconds"], modelled(load, shape, costs), each["measured"])
            for load, each in zip(loads, said["sizes"], strict=True)
        )
        checked = Checked(Measured(**said["measured"]), shape, sizes, tuple(map(str, said["unseen"])))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CostsError(f"it is no file of `groupd bench capacity-check`: {error}") from None
    if not sizes:
        raise CostsError("a check without sizes has checked nothing")
    for size in sizes:
        for name in FIGURES:
            size.error(name)
    return checked
