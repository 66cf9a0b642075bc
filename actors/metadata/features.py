"""Change the levels of features, all of a request or none (KIP-584, W44)."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.ground.contract import Record
from actors.ground.features import (
    FEATURES,
    GROUPD_VERSION,
    METADATA_VERSION,
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
)
from actors.metadata.commands import FeatureUpdate, FoundTier, Outcome, Served, UpdateFeatures
from actors.metadata.records import FEATURE_LEVELS, FeaturesValue, SingletonKey
from actors.metadata.state import MetadataState
from actors.protocol.errors import GroupError

NAMED_MAX = 5
"""How many actors a refusal names."""
_FAILED = "The update failed for all features since the following feature had an error: "


def update_features(state: MetadataState, command: UpdateFeatures) -> tuple[list[Record], Outcome]:
    """Decide an update. Of a feature that is named twice the last entry counts."""
    features = state.features
    levels = dict(features.changed)
    for update in {update.name: update for update in command.updates}.values():
        try:
            _check(update, features.level(update.name) if update.name in FEATURES else 0)
            if update.name == GROUPD_VERSION and update.level > features.level(GROUPD_VERSION):
                _check_served(update, command.served)
        except GroupError as error:
            return [], Outcome(error.error_code, _FAILED + (error.message or ""))
        if update.level != features.level(update.name):
            levels[update.name] = update.level
    changed = tuple(sorted(levels.items()))
    if command.validate_only or changed == features.changed:
        return [], Outcome()
    value = FeaturesValue(features.epoch + 1, changed)
    return [Record(SingletonKey(FEATURE_LEVELS), value)], Outcome()


def found_tier(state: MetadataState, command: FoundTier) -> tuple[list[Record], Outcome]:
    """Begin a tier at a level. Nothing was there before, so that it counts as no change of a level; only news
    of partitions' leaders may have been faster."""
    if state.nodes or FEATURE_LEVELS in state.singletons:
        return [], Outcome()
    value = FeaturesValue(0, ((GROUPD_VERSION, command.level),))
    return [Record(SingletonKey(FEATURE_LEVELS), value)], Outcome()


def _check_served(update: FeatureUpdate, served: tuple[Served, ...]) -> None:
    """Check that every actor of the tier can serve a level of `groupd.version`: one that cannot would not
    understand what the others write from then on. Raises GroupError."""
    older = [
        f"{each.actor} has groupd {each.release}, which serves levels {each.low} to {each.high}"
        for each in served
        if each.high and not each.low <= update.level <= each.high
    ]
    silent = [f"{each.actor} does not answer" for each in served if not each.high]
    problems = older + silent if served else ["nobody has asked the tier's actors what they can serve"]
    if not older and not silent and served:
        return
    more = len(problems) - NAMED_MAX
    named = "; ".join(problems[:NAMED_MAX]) + (f"; and {more} more" if more > 0 else "")
    message = f"Invalid update version {update.level} for feature {update.name}. {named}."
    raise GroupError(ErrorCode.invalid_update_version, message)


def _check(update: FeatureUpdate, before: int) -> None:
    """Check one change of a level. Raises GroupError."""
    name, level, way = update
    feature = FEATURES.get(name)
    if way not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        problem = "The controller does not support the given upgrade type."
    elif level < 0:
        problem = "A feature version cannot be less than 0."
    elif feature is None:
        problem = "The tier does not support this feature."
    elif not feature.low <= level <= feature.high:
        problem = f"The tier only supports versions {feature.low}-{feature.high}."
    elif level < before and way == UPGRADE:
        problem = (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
    elif level > before and way != UPGRADE:
        problem = "Can't downgrade to a newer version."
    elif level < before and name == METADATA_VERSION:
        problem = "The tier's metadata has one format, which cannot be made an older one."
    elif level < before and name == GROUPD_VERSION:
        problem = "What the tier has written at its level, no older release can read."
    else:
        return
    message = f"Invalid update version {level} for feature {name}. {problem}"
    raise GroupError(ErrorCode.invalid_update_version, message)
