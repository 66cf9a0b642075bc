"""A made-up next release: our own packages, which can serve one level more and have fields of their own."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final

from cluster.child_process import ROOT

NUMBER: Final = "9.9.9"
PACKAGES: Final = ("actors", "cluster", "storage")


def make(directory: Path) -> Path:
    """Write the next release's packages into a new directory. Return it."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, directory / package)
    _change(
        directory / "actors/ground/features.py",
        r"(Feature\(GROUPD_VERSION, 1, )(\d+)",
        lambda found: f"{found[1]}{int(found[2]) + 1}",
    )
    _change(directory / "actors/ground/release.py", r'(RELEASE: Final = )"[^"]+"', rf'\1"{NUMBER}"')
    # What an older release has to leave out when it reads what this one kept or sent.
    _change(
        directory / "actors/ground/spec.py",
        r"(    history: HistorySettings = HistorySettings\(\)\n)",
        r'\1    of_the_next_release: str = "something"\n',
    )
    return directory


def _change(path: Path, pattern: str, by: object) -> None:
    changed, count = re.subn(pattern, by, path.read_text(encoding="utf-8"))  # type: ignore[call-overload]
    assert count == 1, f"{path} is not what it was: {pattern}"
    path.write_text(changed, encoding="utf-8")
