"""The figures of a run as plain values for report.json, which `compare` reads again.

PURE.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.swarm.counted.counting import settled_lengths_us
from bench.swarm.counted.figures import Figures


def shape(values_us: Sequence[int]) -> list[float]:
    """Percentiles 0 to 100 in milliseconds, by nearest rank; empty without values."""
    if not values_us:
        return []
    ranks = np.percentile(np.asarray(values_us), range(101), method="inverted_cdf")
    return [round(float(rank) / 1e3, 3) for rank in ranks]


def shapes_ms(figures: Figures) -> dict[str, list[float]]:
    """The distributions of all figures that are lengths of time, in milliseconds."""
    return {
        "stable": shape([round(group.stable_ms * 1e3) for group in figures.groups if group.stable_ms]),
        "rebalance": shape(settled_lengths_us(figures.rebalances)),
        "without_coordinator": shape([gap.length_us for gap in figures.gaps]),
    }


def plain(figures: Figures) -> dict[str, Any]:
    """Return every figure as plain values for JSON. Lists that grow with the run are given as
    distributions."""
    return {
        "totals": figures.totals._asdict(),
        "stable": figures.stable._asdict(),
        "rebalance": figures.rebalance._asdict(),
        "without_coordinator": figures.without_coordinator._asdict(),
        "shapes_ms": shapes_ms(figures),
        "apis": [{**api._asdict(), "latency": api.latency._asdict()} for api in figures.apis],
        "errors": figures.errors,
        "groups": [
            {
                **group._asdict(),
                "rebalance": group.rebalance._asdict(),
                "without_coordinator": group.without_coordinator._asdict(),
            }
            for group in figures.groups
        ],
        "seconds": figures.seconds._asdict(),
        "faults": [
            {
                **fault._asdict(),
                "began_s": (fault.began_us - figures.began_us) / 1e6,
                "began_at": figures.wall.iso(fault.began_us),
            }
            for fault in figures.faults
        ],
    }
