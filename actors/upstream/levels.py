"""The features of an upstream cluster, and the levels of each that the tier understands (KIP-584). PURE.

A broker that registers says of each feature which levels it supports, and the controller refuses one whose
range does not contain the finalized level. The controller asks the ranges of all brokers before it raises a
feature, too, so a range of ours that ends too early holds an upgrade of the whole cluster up. What a feature
means to a coordinator of groups decides how far it is claimed:

* metadata.version says which records the metadata log has, group.version and transaction.version what
  clients and brokers ask of a coordinator. These end where this release's knowledge ends: a new level is
  released here first.
* Others are between controllers, or concern groups that the tier does not serve. They are claimed as far as
  the controller's own software goes, so that they hold nothing up.
* A feature with another name is not claimed: what the tier would make of it is not known.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from actors.ground.features import FEATURES as TIER_FEATURES
from actors.ground.features import GROUP_VERSION, GROUPD_VERSION, METADATA_VERSION, TRANSACTION_VERSION


class FeatureRange(NamedTuple):
    """The levels of one feature that the tier understands, both ends included."""

    name: str
    min_supported_version: int
    max_supported_version: int


KRAFT_VERSION: Final = "kraft.version"
UNDERSTOOD: Final[Mapping[str, int]] = MappingProxyType(
    {
        METADATA_VERSION: TIER_FEATURES[METADATA_VERSION].high,
        GROUP_VERSION: TIER_FEATURES[GROUP_VERSION].high,
        TRANSACTION_VERSION: TIER_FEATURES[TRANSACTION_VERSION].high,
        KRAFT_VERSION: 1,
        "eligible.leader.replicas.version": 1,
        "share.version": 2,
        "streams.version": 1,
    }
)
"""Feature -> its highest level here: those of Kafka 4.4.0."""
OF_OTHERS: Final = frozenset(
    {KRAFT_VERSION, "eligible.leader.replicas.version", "share.version", "streams.version"}
)
"""The features that no level of which changes what the tier does: how controllers vote and whom they elect,
and groups that stay with the brokers."""
_LOWEST: Final = {METADATA_VERSION: 17}
"""The lowest levels that are understood, where that is not 0. From 17 (3.7-IV2) on the records have the
brokers' directories (KIP-858)."""
FEATURES: Final = (
    *(FeatureRange(name, _LOWEST.get(name, 0), high) for name, high in UNDERSTOOD.items()),
    FeatureRange(GROUPD_VERSION, 0, TIER_FEATURES[GROUPD_VERSION].high),
)
"""All features that the tier understands, and the one by which another tier recognises its nodes. A
controller that does not know one accepts it, because it begins at 0."""
CORDONS_LEVEL: Final = 30
"""The level of metadata.version from which on brokers may cordon log directories (KIP-1066)."""
REFUSES_CORDONED_LEVEL: Final = 31
"""A controller that supports this level of metadata.version is Kafka 4.4 or newer: it refuses assignments by
hand to a broker whose directories are cordoned. Kafka 4.3 takes them."""
_BY_NAME: Final = {each.name: each for each in FEATURES}
_NAMES: Final = {
    1: "3.0-IV1",
    2: "3.1-IV0",
    3: "3.2-IV0",
    4: "3.3-IV0",
    5: "3.3-IV1",
    6: "3.3-IV2",
    7: "3.3-IV3",
    8: "3.4-IV0",
    9: "3.5-IV0",
    10: "3.5-IV1",
    11: "3.5-IV2",
    12: "3.6-IV0",
    13: "3.6-IV1",
    14: "3.6-IV2",
    15: "3.7-IV0",
    16: "3.7-IV1",
    17: "3.7-IV2",
    18: "3.7-IV3",
    19: "3.7-IV4",
    20: "3.8-IV0",
    21: "3.9-IV0",
    22: "4.0-IV0",
    23: "4.0-IV1",
    24: "4.0-IV2",
    25: "4.0-IV3",
    26: "4.1-IV0",
    27: "4.1-IV1",
    28: "4.2-IV0",
    29: "4.2-IV1",
    30: "4.3-IV0",
    31: "4.4-IV0",
    32: "4.4-IV1",
    33: "4.4-IV2",
}


def metadata_version_name(level: int) -> str:
    """Return the name that Kafka's tools use for a level of metadata.version."""
    return _NAMES.get(level, f"level {level}")


class FeatureLevel(NamedTuple):
    """A feature as it is now, and how far it may be raised while the tier is registered."""

    name: str
    level: int
    """The finalized level, 0 if there is none."""
    least: int
    most: int
    """The levels that the tier understands, both ends included; 0 and 0 if it knows no such feature."""
    offered: int | None = None
    """The highest level that the controller's software has; None if that is not known."""

    @property
    def is_held_up(self) -> bool:
        """Whether the controllers could raise it further than the tier lets them."""
        return self.offered is not None and self.offered > self.most

    def in_words(self) -> str:
        """Return the levels as people have them."""
        least, most = level_name(self.name, self.least), level_name(self.name, self.most)
        understood = f"understood from {least} to {most}" if self.most else "not known here"
        ends = ""
        if self.is_held_up and self.offered is not None:
            offered = level_name(self.name, self.offered)
            ends = f"; the controllers have {offered}, which is refused while the tier is attached"
        return f"{level_name(self.name, self.level)}, {understood}{ends}"


def feature_levels(
    finalized: Mapping[str, int], supported: Mapping[str, int] | None = None
) -> tuple[FeatureLevel, ...]:
    """Return every feature that the tier knows or the cluster has. `supported` is what the controller's
    software supports, None if nobody said so."""
    theirs = {} if supported is None else supported
    most = {each.name: each.max_supported_version for each in claims(theirs)}
    names = sorted({*UNDERSTOOD, *finalized, *theirs} - {GROUPD_VERSION})
    return tuple(
        FeatureLevel(
            name,
            finalized.get(name, 0),
            _LOWEST.get(name, 0),
            max(most.get(name, 0), finalized.get(name, 0) if name in OF_OTHERS else 0),
            None if supported is None else theirs.get(name, 0),
        )
        for name in names
    )


def level_name(name: str, level: int) -> str:
    """Return the level of a feature as people have it."""
    return metadata_version_name(level) if name == METADATA_VERSION and level else f"level {level}"


def claims(
    supported: Mapping[str, int], before: tuple[FeatureRange, ...] = FEATURES
) -> tuple[FeatureRange, ...]:
    """Return the levels with which a node registers at a controller whose software supports up to these
    levels. What was claimed `before` is kept: the next controller may be an older one, for a while."""
    return tuple(
        each._replace(max_supported_version=max(each.max_supported_version, supported.get(each.name, 0)))
        if each.name in OF_OTHERS
        else each
        for each in before
    )


def not_understood(features: Mapping[str, int]) -> dict[str, int]:
    """Return the finalized features whose level is above what is understood here, with that level."""
    return {
        name: level
        for name, level in sorted(features.items())
        if name not in OF_OTHERS and level > UNDERSTOOD.get(name, 0)
    }


def misunderstood(finalized: Mapping[str, int]) -> list[str]:
    """Return what is wrong with the finalized levels of a cluster, in words; [] if the tier understands
    them all."""
    wrong = []
    for name, level in sorted(finalized.items()):
        known = _BY_NAME.get(name)
        if name in OF_OTHERS:
            continue
        if known is None and level > 0:
            wrong.append(f"{name} is finalized at level {level}, and this release does not know that feature")
        elif known is not None and not known.min_supported_version <= level <= known.max_supported_version:
            wrong.append(
                f"{name} is finalized at level {level}, and this release understands levels "
                f"{known.min_supported_version} to {known.max_supported_version}"
            )
    if METADATA_VERSION not in finalized:
        wrong.append(
            f"no {METADATA_VERSION} is finalized: this is no KRaft cluster, or its controller starts"
        )
    return wrong


def can_cordon(finalized: Mapping[str, int]) -> bool:
    """Return whether brokers of a cluster with these finalized levels may cordon their directories."""
    return finalized.get(METADATA_VERSION, 0) >= CORDONS_LEVEL


def refuses_cordoned(supported: Mapping[str, int]) -> bool:
    """Return whether a controller that supports up to these levels refuses cordoned brokers in assignments
    by hand."""
    return supported.get(METADATA_VERSION, 0) >= REFUSES_CORDONED_LEVEL
