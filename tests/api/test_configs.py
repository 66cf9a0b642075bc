"""Configs over the wire: they are described with their sources, and changed one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.metadata.commands import CreateTopics, NewTopic
from actors.metadata.topic_configs import TOPIC_CONFIGS
from actors.protocol.api_keys import DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from tests.api.brokers import brokers, describe_configs, part, versions

TOPIC = 2
BROKER = 4
CLIENT_METRICS = 16
GROUP = 32


def run(story: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(story, 20))


@pytest.mark.parametrize("version", versions(DESCRIBE_CONFIGS))
def test_a_topics_configs_show_value_source_and_what_lies_beneath(version: int) -> None:
    async def story() -> None:
        controller, (one, *_) = brokers()
        controller.decide(CreateTopics((NewTopic("t", configs=(("retention.ms", "9"),)),)))
        everything = await describe_configs(one, version, TOPIC, "t")
        assert {config.name for config in everything.configs} == set(TOPIC_CONFIGS)
        assert (await describe_configs(one, version, TOPIC, "t", ())).configs == everything.configs
        (config,) = (await describe_configs(one, version, TOPIC, "t", ("retention.ms", "nope"))).configs
        assert (config.value, config.config_source, config.read_only) == ("9", 1, False)
        assert [(s.name, s.value, s.source) for s in config.synonyms] == [
            ("retention.ms", "9", 1),
            ("log.retention.ms", "3600000", 4),
        ]
        if version >= 3:
            assert config.config_type == 5
            assert config.documentation

    run(story())


def test_the_default_of_a_topics_config_has_the_name_that_brokers_give_it() -> None:
    """Each was shown under the topic's name; some have no default that brokers name."""

    async def story() -> None:
        controller, (one, *_) = brokers()
        controller.decide(CreateTopics((NewTopic("t"),)))
        asked = ("delete.retention.ms", "flush.ms", "compression.type")
        configs = (await describe_configs(one, 4, TOPIC, "t", asked)).configs
        assert {each.name: [synonym.name for synonym in each.synonyms] for each in configs} == {
            "delete.retention.ms": ["log.cleaner.delete.retention.ms"],
            "flush.ms": [],
            "compression.type": ["compression.type"],
        }

    run(story())


@pytest.mark.parametrize("version", versions(DESCRIBE_CONFIGS))
def test_a_brokers_settings_are_shown_by_that_broker(version: int) -> None:
    async def story() -> None:
        _, (one, *_) = brokers()
        result = await describe_configs(one, version, BROKER, "1")
        shown = {config.name: config.value for config in result.configs}
        assert (shown["num.partitions"], shown["auto.create.topics.enable"]) == ("3", "true")
        assert shown["broker.id"] == "1"
        assert {config.name for config in result.configs} >= {"node.id", "group.max.size", "max.connections"}
        assert (await describe_configs(one, version, BROKER, "")).configs == ()

    run(story())


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "none", ErrorCode.unknown_topic_or_partition),
        (TOPIC, "no good", ErrorCode.invalid_topic_exception),
        (BROKER, "2", ErrorCode.invalid_request),
        (BROKER, "x", ErrorCode.invalid_request),
        (GROUP, "", ErrorCode.invalid_request),
        (CLIENT_METRICS, "m", ErrorCode.invalid_request),
    ],
)
def test_what_has_no_configs_here_is_refused_in_words(kind: int, name: str, code: ErrorCode) -> None:
    async def story() -> None:
        _, (one, *_) = brokers()
        result = await describe_configs(one, 4, kind, name)
        assert (result.error_code, result.configs) == (code, ())
        assert result.error_message

    run(story())


@pytest.mark.parametrize("version", versions(INCREMENTAL_ALTER_CONFIGS))
def test_topic_configs_change_and_other_resources_are_refused_in_their_place(version: int) -> None:
    async def story() -> None:
        controller, (one, *_) = brokers()
        controller.decide(CreateTopics((NewTopic("t"), NewTopic("u"))))

        def resource(kind: int, name: str, value: str) -> Any:
            config = part(
                INCREMENTAL_ALTER_CONFIGS,
                version,
                "AlterableConfig",
                name="retention.ms",
                config_operation=0,
                value=value,
            )
            return part(
                INCREMENTAL_ALTER_CONFIGS,
                version,
                "AlterConfigsResource",
                resource_type=kind,
                resource_name=name,
                configs=(config,),
            )

        answer = await one.ask(
            INCREMENTAL_ALTER_CONFIGS,
            version,
            resources=(
                resource(BROKER, "1", "5"),
                resource(TOPIC, "t", "5"),
                resource(CLIENT_METRICS, "g", "5"),
                resource(TOPIC, "u", "x"),
            ),
            validate_only=False,
        )
        assert [(r.resource_name, r.error_code) for r in answer.responses] == [
            ("1", ErrorCode.invalid_request),
            ("t", ErrorCode.none),
            ("g", ErrorCode.invalid_request),
            ("u", ErrorCode.invalid_config),
        ]
        assert dict(one.apis.image.topics["t"].configs) == {"retention.ms": "5"}
        assert one.apis.image.topics["u"].configs == ()

    run(story())
