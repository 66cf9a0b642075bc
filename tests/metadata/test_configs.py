"""Topic configs change one by one, a topic's all or none (KIP-339)."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.ground.spec import BrokerSettings
from actors.metadata.commands import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    AlterTopicConfigs,
    CreateTopics,
    NewTopic,
    TopicConfigChange,
)
from actors.metadata.topic_configs import TOPIC_CONFIGS, default_value, problem
from tests.metadata.driver import Host, tier


@pytest.fixture
def host() -> Host:
    host = tier()
    host.submit(CreateTopics((NewTopic("t", configs=(("retention.ms", "1000"),)),)))
    return host


def alter(host: Host, *changes: tuple[str, int, str | None], validate_only: bool = False) -> int:
    command = AlterTopicConfigs((TopicConfigChange("t", changes),), validate_only)
    (outcome,) = host.submit(command).topics
    return int(outcome.error_code)


def replace(host: Host, *configs: tuple[str, str], validate_only: bool = False) -> int:
    """Say all configs that the topic is to have."""
    changes = tuple((name, SET, value) for name, value in configs)
    command = AlterTopicConfigs((TopicConfigChange("t", changes),), validate_only, replace=True)
    (outcome,) = host.submit(command).topics
    return int(outcome.error_code)


def configs(host: Host) -> dict[str, str]:
    return dict(host.shard.image().topics["t"].configs)


def test_set_and_delete(host: Host) -> None:
    assert alter(host, ("retention.ms", DELETE, None), ("retention.bytes", SET, "5")) == 0
    assert configs(host) == {"retention.bytes": "5"}


def test_w31_a_replacement_takes_away_what_it_does_not_name(host: Host) -> None:
    assert replace(host, ("flush.ms", "7"), validate_only=True) == 0
    assert configs(host) == {"retention.ms": "1000"}
    assert replace(host, ("flush.ms", "7")) == 0
    assert configs(host) == {"flush.ms": "7"}
    assert replace(host, ("retention.ms", "5"), ("flush.ms", "x")) == ErrorCode.invalid_config
    assert configs(host) == {"flush.ms": "7"}
    assert replace(host) == 0
    assert configs(host) == {}


def test_append_and_subtract_work_on_lists_from_their_default_on(host: Host) -> None:
    assert alter(host, ("cleanup.policy", APPEND, "compact, delete")) == 0
    assert configs(host)["cleanup.policy"] == "delete,compact"
    assert alter(host, ("cleanup.policy", SUBTRACT, "delete")) == 0
    assert configs(host)["cleanup.policy"] == "compact"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("no.such", SET, "1"), ErrorCode.invalid_config),
        (("retention.ms", SET, "-2"), ErrorCode.invalid_config),
        (("retention.ms", APPEND, "1"), ErrorCode.invalid_config),
        (("retention.ms", SET, None), ErrorCode.invalid_request),
        (("retention.ms", 9, "1"), ErrorCode.invalid_request),
    ],
)
def test_one_bad_change_leaves_all_as_it_was(
    host: Host, change: tuple[str, int, str | None], code: ErrorCode
) -> None:
    assert alter(host, ("segment.ms", SET, "77"), change) == code
    assert configs(host) == {"retention.ms": "1000"}


def test_a_config_that_there_is_not_can_be_deleted(host: Host) -> None:
    """So Kafka takes it; it was refused as unknown."""
    assert alter(host, ("no.such", DELETE, None), ("segment.ms", SET, "77")) == 0
    assert configs(host) == {"retention.ms": "1000", "segment.ms": "77"}


@pytest.mark.parametrize("name", ["retention.ms", "no.such"])
def test_what_only_lists_can_do_is_refused_before_a_topic_without_a_name(host: Host, name: str) -> None:
    """W41."""
    changes = (TopicConfigChange("", ((name, APPEND, "1"),)), TopicConfigChange("", ((name, SET, "1"),)))
    codes = [host.submit(AlterTopicConfigs((change,))).topics[0].error_code for change in changes]
    assert codes == [ErrorCode.invalid_config, ErrorCode.invalid_request]


@pytest.mark.parametrize(
    ("operation", "given", "expected"),
    [
        (APPEND, "", None),
        (APPEND, " ", None),
        (APPEND, ",", "delete"),
        (APPEND, "compact,,", "delete,compact"),
        (APPEND, " compact ", "delete,compact"),
        (APPEND, "compact,compact", "delete,compact"),
        (SUBTRACT, "", "delete"),
        (SUBTRACT, " delete", "delete"),
        (SUBTRACT, "delete,", ""),
    ],
)
def test_what_is_appended_and_subtracted_is_split_as_java_does(
    host: Host, operation: int, given: str, expected: str | None
) -> None:
    """W41: an empty entry beside others is refused, and was taken."""
    code = alter(host, ("cleanup.policy", operation, given))
    assert code == (ErrorCode.invalid_config if expected is None else 0)
    assert configs(host).get("cleanup.policy") == expected


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("retention.ms", " +0100 ", "100"),
        ("preallocate", " TRUE", "true"),
        ("min.cleanable.dirty.ratio", ".50", "0.5"),
        ("cleanup.policy", "compact, delete,compact", "compact,delete"),
        ("message.timestamp.type", "LogAppendTime ", "LogAppendTime"),
    ],
)
def test_a_value_is_kept_as_it_is_read(host: Host, name: str, given: str, expected: str) -> None:
    """W41: blanks around it were refused, and other ways to write it were shown as they came."""
    assert alter(host, (name, SET, given)) == 0
    assert configs(host)[name] == expected


def test_a_list_of_nothing_is_a_cleanup_policy(host: Host) -> None:
    """Nothing is deleted by time, then, nor compacted; it was refused."""
    for change in (("cleanup.policy", SET, ""), ("cleanup.policy", SUBTRACT, "delete")):
        assert alter(host, ("cleanup.policy", DELETE, None)) == 0
        assert alter(host, change) == 0
        assert configs(host)["cleanup.policy"] == ""


def test_the_same_config_or_topic_twice_is_refused(host: Host) -> None:
    assert alter(host, ("segment.ms", SET, "77"), ("segment.ms", SET, "78")) == ErrorCode.invalid_request
    change = TopicConfigChange("t", (("segment.ms", SET, "77"),))
    first, second = host.submit(AlterTopicConfigs((change, change))).topics
    assert [first.error_code, second.error_code] == [ErrorCode.invalid_request] * 2


def test_an_unknown_topic_and_validate_only_change_nothing(host: Host) -> None:
    version = host.shard.image().version
    command = AlterTopicConfigs((TopicConfigChange("none", (("segment.ms", SET, "77"),)),))
    assert host.submit(command).topics[0].error_code == ErrorCode.unknown_topic_or_partition
    assert alter(host, ("segment.ms", SET, "77"), validate_only=True) == 0
    assert host.shard.image().version == version


def test_a_wrong_config_of_a_topic_that_is_not_there_is_told_first(host: Host) -> None:
    """So it is with both ways to change configs (W41); the topic was looked for first."""
    for replace in (False, True):
        for name, code in (
            ("no.such", ErrorCode.invalid_config),
            ("retention.ms", ErrorCode.unknown_topic_or_partition),
        ):
            change = TopicConfigChange("nope", ((name, SET, "1"),))
            (outcome,) = host.submit(AlterTopicConfigs((change,), replace=replace)).topics
            assert outcome.error_code == code


def test_every_default_is_a_value_that_its_config_accepts() -> None:
    settings = BrokerSettings()
    for definition in TOPIC_CONFIGS.values():
        assert problem(definition.name, default_value(definition, settings)) is None
        assert problem(definition.name, definition.default) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", "1_000"),
        ("retention.ms", "1" * 30),
        ("retention.ms", "9223372036854775808"),
        ("max.message.bytes", "2147483648"),
        ("preallocate", "yes"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("min.cleanable.dirty.ratio", ""),
        ("min.cleanable.dirty.ratio", "."),
        ("min.insync.replicas", "0"),
        ("cleanup.policy", "keep"),
        ("cleanup.policy", ","),
        ("cleanup.policy", "delete,"),
        ("cleanup.policy", "compact, ,delete"),
        ("message.timestamp.type", "createtime"),
    ],
)
def test_values_that_kafka_refuses_are_refused(name: str, value: str) -> None:
    assert problem(name, value) is not None
