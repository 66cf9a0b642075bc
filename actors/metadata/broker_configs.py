"""Change the settings of nodes while the tier runs (W43, KIP-226).

The changes to one node, or to all nodes, are made all or none.
"""

from __future__ import annotations

from collections import Counter

from kio.schema.errors import ErrorCode

from actors.ground.changeable import ALL_NODES, CHANGEABLE, conflict, in_force, parsed
from actors.ground.contract import Record
from actors.metadata.commands import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    AlterBrokerConfigs,
    AlterBrokerConfigsResult,
    BrokerConfigChange,
    BrokerOutcome,
)
from actors.metadata.config_form import check_form, check_once
from actors.metadata.records import BROKER_CONFIG, BrokerConfigKey, BrokerConfigValue
from actors.metadata.state import MetadataState
from actors.protocol.errors import GroupError

Overrides = dict[str, dict[str, str]]


def alter_broker_configs(
    state: MetadataState, command: AlterBrokerConfigs
) -> tuple[list[Record], AlterBrokerConfigsResult]:
    records: list[Record] = []
    outcomes: list[BrokerOutcome] = []
    times = Counter(change.broker for change in command.brokers)
    overrides = state.broker_overrides()
    for change in command.brokers:
        before = overrides.get(change.broker, {})
        try:
            check_once(times[change.broker])
            after = _altered({} if command.replace else before, change)
            _check_together(state, {**overrides, change.broker: after})
        except GroupError as error:
            outcomes.append(BrokerOutcome(change.broker, error.error_code, error.message))
            continue
        outcomes.append(BrokerOutcome(change.broker))
        if not command.validate_only and after != before:
            overrides[change.broker] = after
            value = BrokerConfigValue(tuple(sorted(after.items()))) if after else None
            records.append(Record(BrokerConfigKey(BROKER_CONFIG, "", change.broker), value))
    return records, AlterBrokerConfigsResult(tuple(outcomes))


def _altered(before: dict[str, str], change: BrokerConfigChange) -> dict[str, str]:
    """Return what is changed at run time after the change. Raises GroupError: 40 for what only a list can
    do, 42 for all else, as Kafka does and in its order."""
    check_form(change.changes)
    _check_operations(change)
    fixed = [name for name, operation, _ in change.changes if operation == SET and name not in CHANGEABLE]
    if fixed:
        message = f"Cannot update these configs dynamically: [{', '.join(fixed)}]"
        raise GroupError(ErrorCode.invalid_request, message)
    configs = dict(before)
    for name, operation, value in change.changes:
        if operation == DELETE or value is None:
            configs.pop(name, None)
        else:
            configs[name] = _parsed(name, value)
    return configs


def _check_operations(change: BrokerConfigChange) -> None:
    for name, operation, _ in change.changes:
        if operation in (APPEND, SUBTRACT):
            word = "append" if operation == APPEND else "subtract"
            message = f"Config value {word} is not allowed for config key: {name}"
            raise GroupError(ErrorCode.invalid_config, message)
        if operation not in (SET, DELETE):
            raise GroupError(ErrorCode.invalid_request, f"Unknown operations type {operation}")


def _parsed(name: str, value: str) -> str:
    try:
        return parsed(CHANGEABLE[name], value)
    except ValueError as error:
        message = f"Invalid value {value} for configuration {name}: {error}"
        raise GroupError(ErrorCode.invalid_request, message) from None


def _check_together(state: MetadataState, overrides: Overrides) -> None:
    """Check that on every node the settings go together. Raises GroupError."""
    for broker in {ALL_NODES, *overrides}:
        node = {ALL_NODES: overrides.get(ALL_NODES, {}), "-1": overrides[broker] if broker else {}}
        wrong = conflict(in_force(state.started_group_settings, node))
        if wrong is not None:
            raise GroupError(ErrorCode.invalid_request, wrong)
