"""The CPU and memory that the server of a run needed, as `watch` wrote them down every second."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

FILE: Final = "server.jsonl"


class Need(NamedTuple):
    """What the server needed in one second."""

    at_s: float
    """The time since the swarm's start."""
    cores: float
    """How many cores were busy since the line before."""
    memory_mib: float
    """The proportional set sizes of the processes: what they share counts once."""
    processes: int


def read(directory: Path) -> list[Need]:
    """Read a run's directory; empty if its server was not watched. A line that was cut short is passed
    over."""
    path = directory / FILE
    needs = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        with contextlib.suppress(ValueError, TypeError):
            needs.append(Need(*json.loads(line)))
    return needs


def plain(needs: Sequence[Need]) -> dict[str, Any]:
    """Return means and maxima for report.json; empty if the server was not watched."""
    if not needs:
        return {}
    cores, memory_mib = [need.cores for need in needs], [need.memory_mib for need in needs]
    return {
        "seconds": len(needs),
        "cores_mean": round(sum(cores) / len(needs), 3),
        "cores_max": max(cores),
        "memory_mib_mean": round(sum(memory_mib) / len(needs), 1),
        "memory_mib_max": max(memory_mib),
        "processes_max": max(need.processes for need in needs),
    }
