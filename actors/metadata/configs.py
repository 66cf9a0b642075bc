"""Change topic configs one by one (KIP-339), or all that a topic has at once (KIP-133, W41).

The changes to one topic are made all or none.
"""

from __future__ import annotations

from collections import Counter

from kio.schema.errors import ErrorCode

from actors.ground.contract import Record
from actors.ground.topic_names import name_problem
from actors.metadata.commands import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    AlterTopicConfigs,
    AlterTopicConfigsResult,
    TopicConfigChange,
    TopicOutcome,
)
from actors.metadata.config_form import check_form, check_once
from actors.metadata.records import TOPIC, TopicKey, TopicValue
from actors.metadata.state import MetadataState
from actors.metadata.topic_configs import LIST, TOPIC_CONFIGS, default_value, entries, problem, shown
from actors.protocol.errors import GroupError


def alter_topic_configs(
    state: MetadataState, command: AlterTopicConfigs
) -> tuple[list[Record], AlterTopicConfigsResult]:
    records: list[Record] = []
    outcomes: list[TopicOutcome] = []
    times = Counter(change.topic for change in command.topics)
    for change in command.topics:
        try:
            check_once(times[change.topic])
            value = _altered(state, change, command.replace)
        except GroupError as error:
            outcomes.append(TopicOutcome(change.topic, error.error_code, error.message))
            continue
        outcomes.append(TopicOutcome(change.topic))
        if not command.validate_only and value != state.topics[change.topic]:
            records.append(Record(TopicKey(TOPIC, change.topic), value))
    return records, AlterTopicConfigsResult(tuple(outcomes))


def _altered(state: MetadataState, change: TopicConfigChange, replace: bool) -> TopicValue:
    """Return the topic with its configs changed. Raises GroupError if one of the changes is not possible."""
    check_form(change.changes)
    _check_lists(change)
    if not change.topic:
        raise GroupError(ErrorCode.invalid_request, "Default topic resources are not allowed.")
    wrong = name_problem(change.topic)
    if wrong is not None:
        raise GroupError(ErrorCode.invalid_topic_exception, wrong)
    value = state.topics.get(change.topic)
    configs = {} if replace or value is None else dict(value.configs)
    for name, operation, given in change.changes:
        if operation == DELETE or given is None:
            configs.pop(name, None)  # an unknown one, too: it is not there, and that is what was asked for
            continue
        if name not in TOPIC_CONFIGS:
            raise GroupError(ErrorCode.invalid_config, f"Unknown topic config name: {name}")
        if operation not in (SET, APPEND, SUBTRACT):
            raise GroupError(ErrorCode.invalid_request, f"Unknown operation type {operation}.")
        configs[name] = given if operation == SET else _list_changed(state, configs, name, operation, given)
        wrong = problem(name, configs[name])
        if wrong is not None:
            raise GroupError(ErrorCode.invalid_config, wrong)
        configs[name] = shown(name, configs[name])
    if value is None:  # a wrong config of a topic that is not there is told first (W41)
        message = f"The topic '{change.topic}' does not exist."
        raise GroupError(ErrorCode.unknown_topic_or_partition, message)
    return value._replace(configs=tuple(sorted(configs.items())))


def _check_lists(change: TopicConfigChange) -> None:
    """Check that only lists are appended to and subtracted from, which Kafka does before it looks at the
    topic."""
    for name, operation, _ in change.changes:
        definition = TOPIC_CONFIGS.get(name)
        is_list = definition is not None and definition.config_type == LIST
        if operation in (APPEND, SUBTRACT) and not is_list:
            word = "APPEND" if operation == APPEND else "SUBTRACT"
            message = f"Can't {word} to key {name} because its type is not LIST."
            raise GroupError(ErrorCode.invalid_config, message)


def _list_changed(
    state: MetadataState, configs: dict[str, str], name: str, operation: int, given: str
) -> str:
    before = entries(configs.get(name, default_value(TOPIC_CONFIGS[name], state.settings)))
    asked = _parts(given)
    if operation == APPEND:
        return ",".join(before + [entry for entry in asked if entry not in before])
    return ",".join(entry for entry in before if entry not in asked)


def _parts(given: str) -> list[str]:
    """Return what is to be appended or subtracted. As Java splits it, it keeps its blanks, "" is an empty
    entry, and empty entries at the end of several are none."""
    parts = given.split(",")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts if parts != [""] or not given else []
