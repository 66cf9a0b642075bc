"""The features that the tier has, and the level of each that all nodes have agreed on (KIP-584)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

GROUP_VERSION: Final = "group.version"
METADATA_VERSION: Final = "metadata.version"
TRANSACTION_VERSION: Final = "transaction.version"
GROUPD_VERSION: Final = "groupd.version"
"""What this tier writes into its logs and says on its own links, which is nobody else's business. Level 2
brought nodes that come and go, partitions that split, and offsets in packed rows."""
ROWS_LEVEL: Final = 2
"""The level of `groupd.version` from which on offsets are logged as packed rows."""
CLIENT_ASSIGNORS_LEVEL: Final = 2
"""The level of `groupd.version` from which on members may bring assignors."""
PUSH_LEVEL: Final = 2
"""The level of `groupd.version` from which on there are groups whose coordinator pushes."""
TAKE_OVER_LEVEL: Final = 2
"""The level of `groupd.version` from which on groups can be taken over from Kafka's log of them."""
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
"""A way to change a level, with its number on the wire."""


class Feature(NamedTuple):
    """One feature, with the levels that the tier can serve."""

    name: str
    low: int
    high: int
    started: int
    """The level of a tier in which nobody has changed it. Level 0 is not told."""
    told: bool = True
    """Whether clients are told of it."""


_FEATURES: Final = (
    # A25: from level 1 on clients may use the consumer protocol.
    Feature(GROUP_VERSION, 0, 1, 1),
    Feature(METADATA_VERSION, 7, 33, 33),
    # O18: from level 2 on clients use the second generation of transactions.
    Feature(TRANSACTION_VERSION, 0, 2, 2),
    # A tier that this release founds begins at the highest level; one that says nothing is older.
    Feature(GROUPD_VERSION, 1, 2, 1, told=False),
)
FEATURES: Final[Mapping[str, Feature]] = MappingProxyType({each.name: each for each in _FEATURES})


class Features(NamedTuple):
    """The levels that are in force, which clients are told in ApiVersions."""

    epoch: int = 0
    """The number of changes so far: of two answers the one with the higher epoch is newer."""
    changed: tuple[tuple[str, int], ...] = ()
    """Name and level of the features that were changed, sorted by name."""

    def level(self, name: str) -> int:
        """Return the level of a feature that the tier has."""
        return dict(self.changed).get(name, FEATURES[name].started)

    def finalized(self) -> list[tuple[str, int]]:
        """Return name and level of the features that clients are told of and that are above level 0."""
        levels = [(name, self.level(name)) for name, feature in FEATURES.items() if feature.told]
        return [(name, level) for name, level in levels if level]
