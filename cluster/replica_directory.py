"""Set aside or remove directories of replicas that begin anew or are gone. Runs on the machine that has
them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final

KEPT_MAX: Final = 2
"""How many directories of one replica are kept for whoever wants to know what happened to them."""


def set_aside(directory: str, began: str) -> None:
    """Let the replica begin anew, as a newcomer: its directory becomes `<directory>.damaged-<n>`.

    `began` is touched first: a replica without a journal is a newcomer only if it is known to have had one.
    Raises OSError.
    """
    Path(began).touch()
    _rename(Path(directory))


def set_founder_aside(directory: str, began: str) -> None:
    """Let the replica begin anew as a founder, as one that has never run. All others of its group have to, so
    that nobody remembers what it acknowledged. Raises OSError."""
    _rename(Path(directory))
    Path(began).unlink(missing_ok=True)


def _rename(path: Path) -> None:
    if not path.exists():
        return
    numbers = _numbers(path)
    path.rename(_aside(path, max(numbers, default=0) + 1))
    for number in sorted(numbers, reverse=True)[KEPT_MAX - 1 :]:
        shutil.rmtree(_aside(path, number), ignore_errors=True)


def remove(directory: str) -> None:
    """Remove the directory of a replica that has left its group, and those that were set aside before."""
    path = Path(directory)
    for number in _numbers(path):
        shutil.rmtree(_aside(path, number), ignore_errors=True)
    shutil.rmtree(path, ignore_errors=True)


def _aside(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.damaged-{number}")


def _numbers(path: Path) -> list[int]:
    pattern = re.compile(re.escape(path.name) + r"\.damaged-(\d+)")
    siblings = path.parent.iterdir() if path.parent.exists() else ()
    return [int(found[1]) for other in siblings if (found := pattern.fullmatch(other.name))]
