"""Which tests wait for each other when several processes of pytest share the work (`-n 3 --dist loadgroup`).

Tests that start a tier are long for what they wait for, not for what they compute: those of one lane run one
after the other and share a tier where its fixture is the session's; everything else runs beside them, file by
file.
"""

from __future__ import annotations

from pathlib import PurePath

LANES = {
    "tier": ("tests/tier",),
    "processes": (
        "tests/chaos",
        "tests/cluster",
        "tests/faults",
        "tests/fuzz",
        "tests/history/real_run",
        "tests/lies",
        "tests/matrix",
        "tests/oracle",
        "tests/swarm",
    ),
}


def lane_of(path: PurePath) -> str:
    """The lane of a test file, given relative to the project; a file that starts no tier is one by itself."""
    for lane, folders in LANES.items():
        if any(path.is_relative_to(folder) for folder in folders):
            return lane
    return str(path)
