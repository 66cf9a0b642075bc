"""Settings of nodes over the wire: described with where each value comes from, changed at run time (W43)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.ground.changeable import CHANGEABLE
from actors.ground.spec import BrokerSettings
from actors.metadata.commands import CreateTopics, NewTopic
from actors.network.quota import ConnectionLimits, ConnectionQuota
from actors.protocol.api_keys import ALTER_CONFIGS, DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from tests.api.brokers import Broker, brokers, describe_configs, part, versions

TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND = 0, 1, 2
MESSAGE, RETENTION = "message.max.bytes", "log.retention.ms"
Change = tuple[str, int, str | None]


def run(story: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(story, 20))


async def altered(
    broker: Broker, *resources: tuple[str, list[Change]], version: int = 1, **fields: Any
) -> list[Any]:
    """Change settings; each of `resources` is (node id or "", changes). Return the answer's results."""
    key = INCREMENTAL_ALTER_CONFIGS
    asked = tuple(
        part(
            key,
            version,
            "AlterConfigsResource",
            resource_type=BROKER,
            resource_name=name,
            configs=tuple(
                part(key, version, "AlterableConfig", name=config, config_operation=operation, value=value)
                for config, operation, value in changes
            ),
        )
        for name, changes in resources
    )
    answer = await broker.ask(key, version, resources=asked, **{"validate_only": False, **fields})
    assert [each.resource_name for each in answer.responses] == [name for name, _ in resources]
    return [(each.error_code, each.error_message) for each in answer.responses]


async def replaced(broker: Broker, name: str, configs: dict[str, str]) -> int:
    """Say all that is to be set under a name."""
    resource = part(
        ALTER_CONFIGS,
        2,
        "AlterConfigsResource",
        resource_type=BROKER,
        resource_name=name,
        configs=tuple(
            part(ALTER_CONFIGS, 2, "AlterableConfig", name=key, value=value) for key, value in configs.items()
        ),
    )
    answer = await broker.ask(ALTER_CONFIGS, 2, resources=(resource,), validate_only=False)
    return int(answer.responses[0].error_code)


async def described(broker: Broker, name: str, config: str, kind: int = BROKER, version: int = 4) -> Any:
    result = await describe_configs(broker, version, kind, name, (config,))
    return next(iter(result.configs), None)


def synonyms(config: Any) -> list[tuple[str, int]]:
    return [(each.value, each.source) for each in config.synonyms]


OK = (ErrorCode.none, None)


@pytest.mark.parametrize("version", versions(DESCRIBE_CONFIGS))
def test_w43_a_setting_shows_its_value_where_it_comes_from_and_what_lies_beneath(version: int) -> None:
    async def story() -> None:
        _, (one, two, _) = brokers(BrokerSettings(message_max_bytes=5_000))
        assert synonyms(await described(one, "1", MESSAGE, version=version)) == [("5000", 4), ("1048588", 5)]
        assert (
            await altered(one, ("", [(MESSAGE, SET, "6000")]), ("1", [(MESSAGE, SET, " +7000 ")])) == [OK] * 2
        )
        shown = await described(one, "1", MESSAGE, version=version)
        assert (shown.value, shown.config_source, shown.read_only) == ("7000", 2, False)
        assert synonyms(shown) == [("7000", 2), ("6000", 3), ("5000", 4), ("1048588", 5)]
        assert synonyms(await described(two, "2", MESSAGE)) == [("6000", 3), ("5000", 4), ("1048588", 5)]
        assert synonyms(await described(two, "", MESSAGE)) == [("6000", 3)]
        assert await described(two, "", RETENTION) is None
        assert (
            await altered(one, ("", [(MESSAGE, DELETE, None)]), ("1", [(MESSAGE, DELETE, None)])) == [OK] * 2
        )
        assert synonyms(await described(one, "1", MESSAGE)) == [("5000", 4), ("1048588", 5)]

    run(story())


def test_w43_types_are_kafkas_and_what_cannot_change_is_read_only() -> None:
    async def story() -> None:
        _, (one, *_) = brokers()
        listed = {each.name: each for each in (await describe_configs(one, 4, BROKER, "1")).configs}
        assert {name for name, each in listed.items() if not each.read_only} == set(CHANGEABLE)
        types = {name: listed[name].config_type for name in ("node.id", MESSAGE, RETENTION, "group.max.size")}
        assert types == {"node.id": 3, MESSAGE: 3, RETENTION: 5, "group.max.size": 3}
        assert listed["auto.create.topics.enable"].config_type == 1
        assert listed["group.consumer.assignors"].config_type == 7
        assert (listed["node.id"].value, listed["node.id"].config_source) == ("1", 4)

    run(story())


def test_w43_topics_and_groups_show_the_nodes_changed_settings_beneath() -> None:
    async def story() -> None:
        controller, (one, *_) = brokers()
        controller.decide(CreateTopics((NewTopic("t"),)))
        await altered(
            one, ("", [(MESSAGE, SET, "6000"), ("group.consumer.session.timeout.ms", SET, "50000")])
        )
        of_topic = await described(one, "t", "max.message.bytes", TOPIC)
        assert synonyms(of_topic)[0] == ("6000", 3)
        of_group = await described(one, "g", "consumer.session.timeout.ms", GROUP)
        assert synonyms(of_group) == [("50000", 3), ("45000", 5)]

    run(story())


def test_w43_a_change_holds_on_its_node_for_topics_that_are_made_and_records_that_come() -> None:
    async def story() -> None:
        _, (one, two, _) = brokers()
        await altered(one, ("1", [(MESSAGE, SET, "6000")]))
        assert (one.apis.settings.message_max_bytes, two.apis.settings.message_max_bytes) == (
            6_000,
            1_048_588,
        )
        await altered(two, ("", [(MESSAGE, SET, "9000")]))
        assert (one.apis.settings.message_max_bytes, two.apis.settings.message_max_bytes) == (6_000, 9_000)

    run(story())


def test_w43_a_node_takes_no_more_connections_than_it_is_told_now() -> None:
    quota = ConnectionQuota(ConnectionLimits.of(BrokerSettings()))
    quota.claim("a", 3)
    assert quota.refusal("b") is None
    quota.take(ConnectionLimits.of(BrokerSettings(max_connections=3)))
    assert quota.refusal("b") == "max.connections is 3"


@pytest.mark.parametrize(
    ("name", "changes", "code"),
    [
        ("1", [(MESSAGE, SET, "x")], ErrorCode.invalid_request),
        ("1", [(MESSAGE, SET, "0")], ErrorCode.invalid_request),
        ("", [(MESSAGE, SET, "99999999999")], ErrorCode.invalid_request),
        ("1", [(MESSAGE, SET, None)], ErrorCode.invalid_request),
        ("1", [(MESSAGE, SET, "5"), (MESSAGE, SET, "6")], ErrorCode.invalid_request),
        ("1", [(MESSAGE, APPEND, "5")], ErrorCode.invalid_config),
        ("1", [(MESSAGE, 9, "5")], ErrorCode.invalid_request),
        ("1", [("node.id", SET, "1")], ErrorCode.invalid_request),
        ("", [("no.such", SET, "1")], ErrorCode.invalid_request),
        ("2", [(MESSAGE, SET, "5")], ErrorCode.invalid_request),
        ("x", [(MESSAGE, SET, "5")], ErrorCode.invalid_request),
        ("", [("group.consumer.session.timeout.ms", SET, "70000")], ErrorCode.invalid_request),
        ("1", [("group.consumer.heartbeat.interval.ms", SET, "1")], ErrorCode.invalid_request),
        ("", [("group.min.session.timeout.ms", SET, "1800000")], ErrorCode.invalid_request),
        ("", [("group.consumer.migration.policy", SET, "sideways")], ErrorCode.invalid_request),
        ("", [("auto.create.topics.enable", SET, "no")], ErrorCode.invalid_request),
        ("1", [("node.id", DELETE, None)], ErrorCode.none),
        ("1", [], ErrorCode.none),
    ],
)
def test_w43_what_kafka_refuses_is_refused_and_changes_nothing(
    name: str, changes: list[Change], code: ErrorCode
) -> None:
    async def story() -> None:
        _, (one, *_) = brokers()
        ((error_code, message),) = await altered(one, (name, [("group.max.size", SET, "5"), *changes]))
        assert error_code == code
        assert bool(message) == bool(code)
        assert bool(one.apis.image.broker_configs) == (code == ErrorCode.none)

    run(story())


def test_w43_settings_of_a_node_have_to_go_with_those_of_all_nodes() -> None:
    async def story() -> None:
        _, (one, *_) = brokers()
        top = "group.consumer.max.session.timeout.ms"
        assert await altered(one, ("1", [(top, SET, "80000")])) == [OK]
        session = "group.consumer.session.timeout.ms"
        ((code, _),) = await altered(one, ("", [(session, SET, "70000")]))
        assert code == ErrorCode.invalid_request  # it fits node 1, and none of the others
        assert await altered(one, ("1", [(session, SET, "70000")])) == [OK]
        ((code, _),) = await altered(one, ("1", [(top, DELETE, None)]))
        assert code == ErrorCode.invalid_request

    run(story())


def test_w41_w43_a_replacement_takes_back_what_it_does_not_name() -> None:
    async def story() -> None:
        _, (one, *_) = brokers()
        await altered(one, ("", [(MESSAGE, SET, "6000"), (RETENTION, SET, "5")]))
        assert await replaced(one, "", {MESSAGE: "7000"}) == 0
        assert one.apis.image.broker_configs == {"": {MESSAGE: "7000"}}
        assert await replaced(one, "", {}) == 0
        assert one.apis.image.broker_configs == {}
        assert one.apis.settings == BrokerSettings()

    run(story())


def test_w43_a_check_alone_changes_nothing() -> None:
    async def story() -> None:
        _, (one, *_) = brokers()
        assert await altered(one, ("", [(MESSAGE, SET, "6000")]), validate_only=True) == [OK]
        assert one.apis.image.broker_configs == {}

    run(story())
