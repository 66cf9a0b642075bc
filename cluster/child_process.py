"""Start another process of ours: with the same Python and the same packages, in the user's directory.

A child that ran elsewhere would take the user's relative paths for its own, and write there.
"""

from __future__ import annotations

import os
import site
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
"""The folder of our packages: the source tree, or where they were installed."""


def python(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module. Without -P a folder `cluster` or `bench` in the user's directory
    would pass for ours."""
    return [sys.executable, "-P", "-m", module, *arguments]


def environment() -> dict[str, str]:
    """Return our environment, with the way to our packages if a Python would not find them by itself."""
    if str(ROOT) in (*site.getsitepackages(), site.getusersitepackages()):
        return dict(os.environ)
    paths = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}
