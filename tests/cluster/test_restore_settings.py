"""Settings that were changed while the backup's tier ran come into a new tier (W43, W44)."""

from __future__ import annotations

import pytest

from actors.ground.features import SAFE_DOWNGRADE
from actors.metadata.commands import (
    SET,
    AlterBrokerConfigs,
    BrokerConfigChange,
    FeatureUpdate,
    UpdateFeatures,
)
from actors.metadata.records import BROKER_CONFIG
from cluster.restore_rights import problem
from cluster.restore_settings import changed_settings
from tests.metadata.driver import Host, tier

CHANGED = {
    "": {"group.consumer.max.session.timeout.ms": "90000"},
    "2": {"group.consumer.session.timeout.ms": "80000", "message.max.bytes": "7"},
    "9": {"max.connections": "5"},
}
"""Node 2's time-out is allowed by what is set for all nodes, and only by that."""


def change(host: Host, changed: dict[str, dict[str, str]]) -> None:
    changes = tuple(
        BrokerConfigChange(broker, tuple((name, SET, value) for name, value in configs.items()))
        for broker, configs in changed.items()
    )
    assert problem(host.submit(AlterBrokerConfigs(changes))) is None


def lower(host: Host, **levels: int) -> None:
    updates = (FeatureUpdate(name.replace("_", "."), level, SAFE_DOWNGRADE) for name, level in levels.items())
    assert problem(host.submit(UpdateFeatures(tuple(updates)))) is None


def restore(old: Host, new: Host) -> tuple[str, ...]:
    """Restore the changes of one tier into another. Return the nodes that were left out."""
    changed = changed_settings(old.shard.records(), new.shard.records(), (1, 2, 3))
    for command in changed.commands:
        assert problem(new.submit(command)) is None
    return changed.nodes_left_out


def test_w43_settings_of_all_nodes_and_of_one_come_back_and_those_of_no_node_are_named() -> None:
    old, new = tier(), tier()
    change(old, CHANGED)
    assert restore(old, new) == ("9",)
    kept = {broker: configs for broker, configs in CHANGED.items() if broker != "9"}
    assert new.shard.image().broker_configs == kept


def test_w43_what_was_changed_in_the_new_tier_stays_unless_the_backup_has_another_value() -> None:
    old, new = tier(), tier()
    change(old, {"2": {"max.connections": "5"}})
    change(new, {"2": {"max.connections": "6", "message.max.bytes": "7"}, "3": {"max.connections": "8"}})
    restore(old, new)
    assert new.shard.image().broker_configs == {
        "2": {"max.connections": "5", "message.max.bytes": "7"},
        "3": {"max.connections": "8"},
    }


def test_w44_levels_of_features_come_back_in_either_direction() -> None:
    old, new = tier(), tier()
    lower(old, group_version=0)
    lower(new, transaction_version=1)
    restore(old, new)
    assert new.shard.image().features.finalized() == [("metadata.version", 33), ("transaction.version", 1)]
    lower(new, transaction_version=0)
    lower(old, transaction_version=1)
    restore(old, new)
    assert new.shard.image().features.level("transaction.version") == 1


@pytest.mark.parametrize("changes", [0, 1])
def test_a_backup_of_a_tier_in_which_nothing_was_changed_changes_nothing(changes: int) -> None:
    """Backups of releases that could change nothing are among them."""
    old, new = tier(), tier()
    lower(new, group_version=0)
    change(new, dict(list(CHANGED.items())[:changes]))
    before = [tuple(record) for record in new.shard.records()]
    assert restore(old, new) == ()
    assert [tuple(record) for record in new.shard.records()] == before


def test_w43_a_setting_that_this_tier_cannot_change_is_refused_by_name() -> None:
    unknown = [((BROKER_CONFIG, "", "1"), ((("log.cleaner.threads", "2"),),))]
    (command,) = changed_settings(unknown, [], (1,)).commands
    assert "log.cleaner.threads" in (problem(tier().submit(command)) or "")
