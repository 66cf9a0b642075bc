"""What was changed of nodes' settings is replicated, and goes out with every image (W43)."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.metadata.commands import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    AlterBrokerConfigs,
    AlterGroupConfigs,
    BrokerConfigChange,
    GroupConfigChange,
)
from actors.metadata.wire import pack_image, unpack_image
from tests.metadata.driver import Host, new_shard, state_of, tier

MAX = "group.consumer.max.session.timeout.ms"
CHANGED = {"": {MAX: "90000"}, "2": {"group.max.size": "5"}}


def changed() -> Host:
    host = tier()
    changes = tuple(
        BrokerConfigChange(broker, tuple((name, SET, value) for name, value in configs.items()))
        for broker, configs in CHANGED.items()
    )
    assert [each.error_code for each in host.submit(AlterBrokerConfigs(changes)).brokers] == [0, 0]
    return host


def test_w43_a_replica_that_comes_later_and_every_actor_know_the_changes() -> None:
    host = changed()
    assert unpack_image(pack_image(host.shard.image())).broker_configs == CHANGED
    other = new_shard()
    for key, value in state_of(host.shard):
        other.apply(key, value)
    assert other.image().broker_configs == CHANGED
    assert state_of(other) == state_of(host.shard)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ((("node.id", SET, "1"), (MAX, APPEND, "1")), ErrorCode.invalid_config),
        (((MAX, SET, "x"), (MAX + ".not", SUBTRACT, "1")), ErrorCode.invalid_config),
        ((("node.id", SET, "1"), (MAX, 9, "1")), ErrorCode.invalid_request),
    ],
)
def test_w43_operations_are_looked_at_before_names_and_values(
    changes: tuple[tuple[str, int, str | None], ...], code: ErrorCode
) -> None:
    """What can be said of lists alone was told only if no setting was fixed at the start."""
    host = changed()
    assert host.submit(AlterBrokerConfigs((BrokerConfigChange("", changes),))).brokers[0].error_code == code
    assert host.shard.image().broker_configs == CHANGED


def test_w43_changes_are_taken_back_with_the_batch_that_brought_them() -> None:
    host = changed()
    host.take_back()
    assert host.shard.image().broker_configs == {}


def test_w43_a_groups_own_configs_are_bounded_by_the_changed_settings() -> None:
    host = changed()
    wanted = AlterGroupConfigs((GroupConfigChange("g", (("consumer.session.timeout.ms", SET, "80000"),)),))
    assert host.submit(wanted).groups[0].error_code == 0
    back = AlterBrokerConfigs((BrokerConfigChange("", ((MAX, DELETE, None),)),))
    assert host.submit(back).brokers[0].error_code == 0
    assert host.submit(wanted).groups[0].error_code != 0
