"""Configs of groups over the wire: they are described, changed and listed (A19)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.metadata.commands import SET, AlterGroupConfigs, CreateTopics, GroupConfigChange, NewTopic
from actors.metadata.group_config_names import GROUP_CONFIGS
from actors.protocol.api_keys import (
    ALTER_CONFIGS,
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_CONFIG_RESOURCES,
)
from tests.api.brokers import Broker, brokers, describe_configs, part, versions

GROUP = 32
SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"


def run(story: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(story, 20))


async def described(broker: Broker, version: int, group_id: str) -> dict[str, Any]:
    result = await describe_configs(broker, version, GROUP, group_id)
    assert result.error_code == ErrorCode.none
    return {config.name: config for config in result.configs}


async def altered(broker: Broker, version: int, *resources: tuple[str, str, int, str | None]) -> list[Any]:
    """Change configs; each of `resources` is (group id, config, operation, value). Returns the answer's
    results."""
    asked = []
    for group_id, name, operation, value in resources:
        config = part(
            INCREMENTAL_ALTER_CONFIGS,
            version,
            "AlterableConfig",
            name=name,
            config_operation=operation,
            value=value,
        )
        asked.append(
            part(
                INCREMENTAL_ALTER_CONFIGS,
                version,
                "AlterConfigsResource",
                resource_type=GROUP,
                resource_name=group_id,
                configs=(config,),
            )
        )
    answer = await broker.ask(INCREMENTAL_ALTER_CONFIGS, version, resources=tuple(asked), validate_only=False)
    return [each.error_code for each in answer.responses]


async def listed(broker: Broker, version: int, *types: int) -> tuple[int, list[tuple[str, int]]]:
    answer = await broker.ask(LIST_CONFIG_RESOURCES, version, resource_types=types)
    resources = [(each.resource_name, getattr(each, "resource_type", 16)) for each in answer.config_resources]
    return answer.error_code, resources


@pytest.mark.parametrize("version", versions(DESCRIBE_CONFIGS))
def test_any_group_shows_every_config_and_what_lies_beneath(version: int) -> None:
    async def story() -> None:
        controller, (one, *_) = brokers()
        change = GroupConfigChange("g", ((SESSION, SET, " 50000 "),))
        controller.decide(AlterGroupConfigs((change,)))
        shown = await described(one, version, "g")
        assert set(shown) == set(GROUP_CONFIGS)
        own = shown[SESSION]
        assert (own.value, own.config_source, own.read_only) == ("50000", 8, False)
        assert [(s.name, s.value, s.source) for s in own.synonyms] == [
            (SESSION, "50000", 8),
            ("group.consumer.session.timeout.ms", "45000", 5),
        ]
        plain = (await described(one, version, "nobody"))[SESSION]
        assert (plain.value, plain.config_source) == ("45000", 5)
        if version >= 3:
            assert (own.config_type, bool(own.documentation)) == (3, True)

    run(story())


@pytest.mark.parametrize("version", versions(INCREMENTAL_ALTER_CONFIGS))
def test_each_group_has_its_own_answer_and_this_broker_shows_the_change_at_once(version: int) -> None:
    async def story() -> None:
        _, (one, *_) = brokers()
        codes = await altered(
            one, version, ("a", SESSION, 0, "50000"), ("b", SESSION, 0, "1"), ("c", SESSION, 0, None)
        )
        assert codes == [ErrorCode.none, ErrorCode.invalid_config, ErrorCode.invalid_request]
        assert one.apis.image.group_configs == {"a": {SESSION: "50000"}}
        assert await altered(one, version, ("a", SESSION, 1, None)) == [ErrorCode.none]
        assert one.apis.image.group_configs == {}

    run(story())


@pytest.mark.parametrize("version", versions(ALTER_CONFIGS))
def test_w31_a_replacement_is_shown_at_once_by_this_broker(version: int) -> None:
    async def story() -> None:
        _, (one, *_) = brokers()
        await altered(one, 1, ("a", SESSION, 0, "50000"), ("b", SESSION, 0, "50000"))
        asked = [
            part(
                ALTER_CONFIGS,
                version,
                "AlterConfigsResource",
                resource_type=GROUP,
                resource_name=group_id,
                configs=tuple(
                    part(ALTER_CONFIGS, version, "AlterableConfig", name=name, value=value)
                    for name, value in configs
                ),
            )
            for group_id, configs in (("a", [(HEARTBEAT, "6000")]), ("b", []), ("c", [(HEARTBEAT, "1")]))
        ]
        answer = await one.ask(ALTER_CONFIGS, version, resources=tuple(asked), validate_only=False)
        assert [each.error_code for each in answer.responses] == [0, 0, ErrorCode.invalid_config]
        assert one.apis.image.group_configs == {"a": {HEARTBEAT: "6000"}}

    run(story())


def test_groups_that_have_configs_are_listed_with_topics_and_brokers() -> None:
    async def story() -> None:
        controller, (one, *_) = brokers()
        controller.decide(CreateTopics((NewTopic("t"),)))
        await altered(one, 1, ("g", HEARTBEAT, 0, "6000"))
        assert await listed(one, 1, GROUP) == (ErrorCode.none, [("g", GROUP)])
        _, everything = await listed(one, 1)
        assert {("g", GROUP), ("t", 2), ("1", 4), ("1", 8)} <= set(everything)
        assert await listed(one, 1, GROUP, 64) == (ErrorCode.unsupported_version, [])
        assert await listed(one, 0) == (ErrorCode.none, [])

    run(story())
