"""Make commands of what a backup's tier had changed while it ran: settings of nodes (W43) and levels of
features (W44)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from actors.ground.changeable import ALL_NODES
from actors.ground.features import (
    FEATURES,
    GROUPD_VERSION,
    METADATA_VERSION,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    Features,
)
from actors.metadata.commands import (
    SET,
    AlterBrokerConfigs,
    BrokerConfigChange,
    FeatureUpdate,
    UpdateFeatures,
)
from actors.metadata.records import BROKER_CONFIG, FEATURE_LEVELS, BrokerConfigValue, FeaturesValue
from cluster.restore_rights import Records


class ChangedSettings(NamedTuple):
    """The commands that bring the backup's changes into a tier, and what they leave out."""

    commands: tuple[AlterBrokerConfigs | UpdateFeatures, ...]
    nodes_left_out: tuple[str, ...]
    """The ids of nodes that had settings of their own, and that this tier does not have."""


def changed_settings(backup: Records, present: Records, node_ids: Collection[int]) -> ChangedSettings:
    """Return what brings the changes of a backup into a tier of these nodes, whose controller holds
    `present`. What was changed in that tier already stays, unless the backup says otherwise."""
    here = {ALL_NODES, *map(str, node_ids)}
    changes = []
    left_out = []
    levels = Features()
    for key, value in backup:
        if key[0] == BROKER_CONFIG and key[2] in here:
            configs = tuple((name, SET, text) for name, text in BrokerConfigValue(*value).configs)
            changes.append(BrokerConfigChange(key[2], configs))
        elif key[0] == BROKER_CONFIG:
            left_out.append(key[2])
        elif key[0] == FEATURE_LEVELS:
            levels = Features(*FeaturesValue(*value))
    updates = tuple(_updates(levels, _levels_of(present)))
    # What holds for all nodes comes first: a node's own settings were checked together with it.
    changes.sort(key=lambda change: change.broker != ALL_NODES)
    return ChangedSettings(
        (
            *((AlterBrokerConfigs(tuple(changes)),) if changes else ()),
            *((UpdateFeatures(updates),) if updates else ()),
        ),
        tuple(left_out),
    )


def _levels_of(controller: Records) -> Features:
    found = (value for key, value in controller if key[0] == FEATURE_LEVELS)
    return next((Features(*FeaturesValue(*value)) for value in found), Features())


def _updates(levels: Features, present: Features) -> Iterator[FeatureUpdate]:
    """Yield the changes of levels. Levels of formats stay if they would go down: what this tier has is
    written in its own format."""
    for name, level in levels.changed:
        # What this release does not know is refused by name.
        before = present.level(name) if name in FEATURES else 0
        if level > before:
            yield FeatureUpdate(name, level, UPGRADE)
        elif level < before and name not in (METADATA_VERSION, GROUPD_VERSION):
            yield FeatureUpdate(name, level, UNSAFE_DOWNGRADE)
