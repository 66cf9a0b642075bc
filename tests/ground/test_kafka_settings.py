"""What Kafka says of its own settings, and which values it would start with."""

from __future__ import annotations

import pytest

from actors.ground.kafka_settings import KafkaSetting, allowed_values, is_allowed, kafka_settings
from actors.ground.settings import GroupSettings


def test_every_default_is_allowed_by_its_own_rule() -> None:
    refused = [
        setting.name
        for setting in kafka_settings().values()
        if setting.default is not None and not is_allowed(setting, setting.default)
    ]
    assert refused == []


def test_the_coordinators_defaults_are_kafkas() -> None:
    """A setting of the coordinators that Kafka knows has Kafka's default, but for the one that names streams
    groups, which the tier does not have."""
    for field, ours in ((field, getattr(GroupSettings(), field)) for field in GroupSettings.__slots__):
        if field == "group_coordinator_rebalance_protocols":
            continue
        theirs = kafka_settings().get(field.replace("_", "."))
        if theirs is not None:
            assert theirs.default == (",".join(ours) if isinstance(ours, tuple) else str(ours)), field


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("num.io.threads", "1", True),
        ("num.io.threads", " 8 ", True),
        ("num.io.threads", "0", False),
        ("num.io.threads", "2147483648", False),
        ("num.io.threads", "many", False),
        ("log.retention.ms", "9223372036854775807", True),
        ("log.cleaner.min.cleanable.ratio", "0.25", True),
        ("log.cleaner.min.cleanable.ratio", "1.5", False),
        ("auto.leader.rebalance.enable", "TRUE", True),
        ("auto.leader.rebalance.enable", "yes", False),
        ("group.consumer.migration.policy", "Upgrade", True),
        ("group.consumer.migration.policy", "sideways", False),
        ("log.message.timestamp.type", "createtime", False),
        ("group.coordinator.rebalance.protocols", "classic, consumer", True),
        ("group.coordinator.rebalance.protocols", "classic,raft", False),
        ("log.dirs", "anything", True),
    ],
)
def test_a_value_is_allowed_as_kafka_allows_it(name: str, value: str, allowed: bool) -> None:
    assert is_allowed(kafka_settings()[name], value) is allowed


def test_what_is_allowed_is_said_in_words() -> None:
    assert allowed_values(kafka_settings()["num.io.threads"]) == "a whole number from 1 to 2147483647"
    assert allowed_values(kafka_settings()["ssl.client.auth"]) == "required or requested or none"
    assert allowed_values(KafkaSetting("ratio", "DOUBLE", low=0, high=1)) == "a number from 0 to 1"
