"""What an actor says of its release is what was built, and what fits is said by levels."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from actors.ground.release import LEVEL_MAX, LEVEL_MIN, RELEASE, misfit

ROOT = Path(__file__).resolve().parents[2]


def test_the_release_is_that_of_the_package() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == RELEASE


@pytest.mark.parametrize(
    ("levels", "finalized", "why"),
    [
        ((1, 1), 1, None),
        ((1, 1), None, None),
        ((1, LEVEL_MAX + 3), LEVEL_MAX, None),
        (
            (1, 1),
            2,
            "it has groupd 7.7, which serves levels 1 to 1 of groupd.version, and the tier is at level 2",
        ),
        (
            (LEVEL_MAX + 1, 9),
            None,
            f"and the machines here have {RELEASE}, which serves {LEVEL_MIN} to {LEVEL_MAX}",
        ),
    ],
)
def test_a_release_fits_by_its_levels(
    levels: tuple[int, int], finalized: int | None, why: str | None
) -> None:
    said = misfit("7.7", levels, finalized)
    assert (said is None) == (why is None)
    assert why is None or why in str(said)
