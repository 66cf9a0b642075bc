"""What an actor says of its release is what was built."""

from __future__ import annotations

import tomllib
from pathlib import Path

from actors.ground.release import RELEASE

ROOT = Path(__file__).resolve().parents[2]


def test_the_release_is_that_of_the_package() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == RELEASE
