"""The features of an upstream cluster, and the levels of each that the tier understands (KIP-584).

A broker that registers says of each feature which levels it supports, and the controller refuses one whose
range does not contain the finalized level. The controller asks the ranges of all brokers before it raises a
feature, too, so a range of ours that ends too early holds an upgrade of the whole cluster up: a new level is
released here first. Nothing is claimed that the tier does not understand.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from actors.ground.features import FEATURES as TIER_FEATURES
from actors.ground.features import GROUPD_VERSION, METADATA_VERSION
from actors.upstream.levels import CORDONS_LEVEL, UNDERSTOOD


class FeatureRange(NamedTuple):
    """The levels of one feature that the tier understands, both ends included."""

    name: str
    min_supported_version: int
    max_supported_version: int


_LOWEST: Final = {METADATA_VERSION: 17}
"""The lowest levels that are understood, where that is not 0. From 17 (3.7-IV2) on the records have the
brokers' directories (KIP-858)."""
FEATURES: Final = (
    *(FeatureRange(name, _LOWEST.get(name, 0), high) for name, high in UNDERSTOOD.items()),
    FeatureRange(GROUPD_VERSION, 0, TIER_FEATURES[GROUPD_VERSION].high),
)
"""All features that the tier understands, and the one by which another tier recognises its nodes. A
controller that does not know one accepts it, because it begins at 0."""
REFUSES_CORDONED_LEVEL: Final = 31
"""A controller that supports this level of metadata.version is Kafka 4.4 or newer: it refuses assignments by
hand to a broker whose directories are cordoned. Kafka 4.3 takes them."""

_BY_NAME: Final = {each.name: each for each in FEATURES}


def misunderstood(finalized: Mapping[str, int]) -> list[str]:
    """Return what is wrong with the finalized levels of a cluster, in words; [] if the tier understands
    them all."""
    wrong = []
    for name, level in sorted(finalized.items()):
        known = _BY_NAME.get(name)
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
