"""The features of a Kafka cluster that the tier understands, and up to which level. PURE.

A level above is a cluster's right and no error here, but what the tier would make of it is not known.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from actors.ground.features import FEATURES, GROUP_VERSION, METADATA_VERSION, TRANSACTION_VERSION

KRAFT_VERSION: Final = "kraft.version"
UNDERSTOOD: Final[Mapping[str, int]] = MappingProxyType(
    {
        METADATA_VERSION: FEATURES[METADATA_VERSION].high,
        GROUP_VERSION: FEATURES[GROUP_VERSION].high,
        TRANSACTION_VERSION: FEATURES[TRANSACTION_VERSION].high,
        KRAFT_VERSION: 1,
        "eligible.leader.replicas.version": 1,
        "share.version": 2,
        "streams.version": 1,
    }
)
"""Feature -> its highest level here: those of Kafka 4.4.0."""
CORDONS_LEVEL: Final = 30
"""The level of metadata.version from which on brokers may cordon log directories (KIP-1066)."""
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


def not_understood(features: Mapping[str, int]) -> dict[str, int]:
    """Return the finalized features whose level is above what is understood here, with that level."""
    return {name: level for name, level in sorted(features.items()) if level > UNDERSTOOD.get(name, 0)}
