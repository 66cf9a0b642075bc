"""Which tests wait for each other when several processes of pytest share the work (`-n 3`).

Tests that start a tier are long for what they wait for, not for what they compute: those of one lane run one
after the other and share a tier where its fixture is the session's; everything else runs beside them, file by
file. The lanes are taken in the order in which they stand here, before everything else; one that is long by
itself is among them, so that nobody waits for it at the end.
"""

from __future__ import annotations

from pathlib import PurePath

LANES = {
    "processes": (
        "tests/chaos",
        "tests/cluster",
        "tests/faults",
        "tests/fuzz",
        "tests/history/real_run",
        "tests/lies",
        "tests/matrix",
        "tests/swarm",
    ),
    "tiers of their own": (
        "tests/tier/test_asked_without_ray.py",
        "tests/tier/test_connection_survives.py",
        "tests/tier/test_held.py",
        "tests/tier/test_lag.py",
        "tests/tier/test_metrics.py",
        "tests/tier/test_security.py",
    ),
    "tier": ("tests/tier",),
    "oracle": ("tests/oracle",),
    "long": ("tests/simulation/test_world.py",),
}
"""Lane -> the folders and files in it. A file goes to the first lane that has it."""


def lane_of(path: PurePath) -> str:
    """The lane of a test file, given relative to the project; a file that starts no tier is one by itself."""
    for lane, places in LANES.items():
        if any(path.is_relative_to(place) for place in places):
            return lane
    return str(path)
