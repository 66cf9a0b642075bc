"""Configs of groups: A19. The changes to one group are made all or none, and outlive the group."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.ground.settings import GroupSettings
from actors.ground.spec import BrokerSettings
from actors.metadata.commands import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    AlterGroupConfigs,
    GroupConfigChange,
    GroupOutcome,
)
from actors.metadata.group_config_names import GROUP_CONFIGS, default_value, problem
from actors.metadata.shard import MetadataShard
from actors.metadata.wire import pack_image, unpack_image
from tests.metadata.driver import Host, state_of, tier

SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"


def alter(
    host: Host, *changes: tuple[str, int, str | None], group_id: str = "g", validate_only: bool = False
) -> GroupOutcome:
    command = AlterGroupConfigs((GroupConfigChange(group_id, changes),), validate_only)
    (outcome,) = host.submit(command).groups
    assert isinstance(outcome, GroupOutcome)
    return outcome


def test_what_is_set_is_in_the_image_until_it_is_deleted() -> None:
    """A19: a group that has none of its own is not kept at all."""
    host = tier()
    assert alter(host, (SESSION, SET, "50000"), (HEARTBEAT, SET, "7000")) == GroupOutcome("g")
    assert host.shard.image().group_configs == {"g": {SESSION: "50000", HEARTBEAT: "7000"}}
    assert alter(host, (SESSION, DELETE, None)).error_code == 0
    assert alter(host, ("share.isolation.level", SET, "read_committed")).error_code == 0
    alter(host, (HEARTBEAT, DELETE, None), ("share.isolation.level", DELETE, "ignored"))
    assert host.shard.image().group_configs == {}


def test_a_snapshot_and_an_image_carry_them() -> None:
    """A19, and that taking a change back restores what was there."""
    host = tier()
    alter(host, (SESSION, SET, "50000"))
    before = state_of(host.shard)
    copy = MetadataShard(
        cluster_id="tier", offsets_partitions=4, settings=BrokerSettings(), new_id=lambda: bytes(16)
    )
    for key, value in before:
        copy.apply(key, value)
    assert state_of(copy) == before
    assert unpack_image(pack_image(copy.image())).group_configs == {"g": {SESSION: "50000"}}
    host.undo.clear()
    alter(host, (SESSION, DELETE, None))
    host.take_back()
    assert state_of(host.shard) == before


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        (((SESSION, SET, "abc"),), ErrorCode.invalid_config),
        (((SESSION, SET, "99999999999"),), ErrorCode.invalid_config),
        (((SESSION, SET, "44999"),), ErrorCode.invalid_config),
        (((SESSION, SET, "60001"),), ErrorCode.invalid_config),
        (((HEARTBEAT, SET, "4999"),), ErrorCode.invalid_config),
        ((("consumer.assignment.interval.ms", SET, "15001"),), ErrorCode.invalid_config),
        ((("consumer.assignment.interval.ms", SET, "-1"),), ErrorCode.invalid_config),
        ((("share.auto.offset.reset", SET, "by_duration:1h"),), ErrorCode.invalid_config),
        ((("share.renew.acknowledge.enable", SET, "yes"),), ErrorCode.invalid_config),
        ((("share.isolation.level", SET, "READ_COMMITTED"),), ErrorCode.invalid_config),
        ((("streams.num.standby.replicas", SET, "3"),), ErrorCode.invalid_config),
        ((("no.such.config", SET, "1"),), ErrorCode.invalid_config),
        ((("no.such.config", DELETE, None),), ErrorCode.none),
        (((SESSION, APPEND, "50000"),), ErrorCode.invalid_config),
        (((SESSION, SUBTRACT, "50000"),), ErrorCode.invalid_config),
        (((SESSION, SET, None),), ErrorCode.invalid_request),
        (((SESSION, SET, "x" * 40_000),), ErrorCode.invalid_config),
        (((SESSION, SET, "50000"), (SESSION, DELETE, None)), ErrorCode.invalid_request),
        (((SESSION, SET, "50000"), (HEARTBEAT, SET, "1")), ErrorCode.invalid_config),
        (((SESSION, 7, "50000"),), ErrorCode.invalid_request),
    ],
)
def test_what_is_wrong_changes_nothing(
    changes: tuple[tuple[str, int, str | None], ...], code: ErrorCode
) -> None:
    """A19: 40 for names, operations, values and bounds, 42 for null and for repetitions."""
    host = tier()
    assert alter(host, *changes).error_code == code
    assert host.shard.image().group_configs == {}


def test_the_session_must_be_longer_than_the_heartbeat_interval() -> None:
    """Section 5: also against what the broker has where the group has nothing."""
    settings = GroupSettings(
        group_consumer_min_session_timeout_ms=1_000,
        group_consumer_session_timeout_ms=45_000,
        group_consumer_max_heartbeat_interval_ms=50_000,
    )
    assert problem({HEARTBEAT: "45000"}, settings) is not None
    assert problem({SESSION: "5000"}, settings) is not None
    assert problem({SESSION: "5000", HEARTBEAT: "5000"}, settings) is not None
    assert problem({SESSION: "5001", HEARTBEAT: "5000"}, settings) is None


def test_an_empty_group_id_and_a_group_twice_are_refused() -> None:
    """A19: 42; of a group that is named twice neither change is made."""
    host = tier()
    assert alter(host, (SESSION, SET, "50000"), group_id="").error_code == ErrorCode.invalid_request
    change = GroupConfigChange("g", ((SESSION, SET, "50000"),))
    other = GroupConfigChange("h", ((SESSION, SET, "50000"),))
    outcomes = host.submit(AlterGroupConfigs((change, other, change))).groups
    assert [each.error_code for each in outcomes] == [42, 0, 42]
    assert list(host.shard.image().group_configs) == ["h"]


def test_validation_alone_changes_nothing() -> None:
    host = tier()
    assert alter(host, (SESSION, SET, "50000"), validate_only=True).error_code == 0
    assert alter(host, (SESSION, SET, "1"), validate_only=True).error_code == ErrorCode.invalid_config
    assert host.shard.image().group_configs == {}


def test_every_default_is_possible() -> None:
    """Every default is within the bounds that the broker's defaults set."""
    defaults = {name: default_value(each, GroupSettings()) for name, each in GROUP_CONFIGS.items()}
    assert problem(defaults, GroupSettings()) is None
    good = {"share.auto.offset.reset": "by_duration:P1DT2H3M4.5S", "share.renew.acknowledge.enable": "FALSE"}
    assert problem({**defaults, **good}, GroupSettings()) is None
