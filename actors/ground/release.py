"""What an actor's release can serve: it says so in its status, and refuses what it cannot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from actors.ground.features import FEATURES, GROUPD_VERSION, Features

RELEASE: Final = "0.1.0"
"""The release that this process runs, which need not be the one that is installed by now."""
LEVEL_MIN: Final = FEATURES[GROUPD_VERSION].low
LEVEL_MAX: Final = FEATURES[GROUPD_VERSION].high
OLD_LEVELS: Final = (1, 1)
"""The levels that a release can serve which does not speak of levels yet."""


class ReleaseTooOld(RuntimeError):
    """Raised if the tier is at a level that this release cannot serve; the text says what to do."""


def told() -> dict[str, Any]:
    """Return what an actor says of its release in its status."""
    return {"release": RELEASE, "levels": (LEVEL_MIN, LEVEL_MAX)}


def levels_of(status: Mapping[str, Any]) -> tuple[int, int]:
    """Return the lowest and the highest level that the actor of a status can serve."""
    low, high = status.get("levels", OLD_LEVELS)
    return int(low), int(high)


def check_level(features: Features, where: str) -> None:
    """Check that this release can serve the tier's level. Raises ReleaseTooOld."""
    level = features.level(GROUPD_VERSION)
    if not LEVEL_MIN <= level <= LEVEL_MAX:
        raise ReleaseTooOld(unserved(level, where))


def unserved(level: int, where: str) -> str:
    """Return in words that what `where` names is at a level that this release cannot serve."""
    return (
        f"{where} is at level {level} of {GROUPD_VERSION}, and groupd {RELEASE} here serves levels "
        f"{LEVEL_MIN} to {LEVEL_MAX}: install the release that the tier was upgraded to"
    )


def misfit(release: str, levels: tuple[int, int], finalized: int | None) -> str | None:
    """Return in words why a release that serves `levels` cannot work beside this one, in a tier whose level
    is `finalized` (None: that is not known); None if it can."""
    low, high = levels
    has = f"it has groupd {release}, which serves levels {low} to {high} of {GROUPD_VERSION}"
    if finalized is not None and not low <= finalized <= high:
        return f"{has}, and the tier is at level {finalized}"
    if low > LEVEL_MAX or high < LEVEL_MIN:
        return f"{has}, and the machines here have {RELEASE}, which serves {LEVEL_MIN} to {LEVEL_MAX}"
    return None
