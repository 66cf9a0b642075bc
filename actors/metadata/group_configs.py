"""Change the configs of groups (A19, KIP-848). The changes to one group are made all or none.

A group's configs are the controller's, not the coordinator's: they may be set before the group exists, and
outlive it.
"""

from __future__ import annotations

from collections import Counter

from kio.schema.errors import ErrorCode

from actors.ground.contract import Record
from actors.ground.limits import CONFIG_VALUE_BYTES_MAX, CONFIGURED_GROUPS_MAX
from actors.metadata.commands import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    AlterGroupConfigs,
    AlterGroupConfigsResult,
    GroupConfigChange,
    GroupOutcome,
)
from actors.metadata.config_form import check_form, check_once
from actors.metadata.group_config_names import problem
from actors.metadata.records import GROUP_CONFIG, GroupConfigKey, GroupConfigValue
from actors.metadata.state import MetadataState
from actors.protocol.errors import GroupError

Configs = tuple[tuple[str, str], ...]


def alter_group_configs(
    state: MetadataState, command: AlterGroupConfigs
) -> tuple[list[Record], AlterGroupConfigsResult]:
    records: list[Record] = []
    outcomes: list[GroupOutcome] = []
    times = Counter(change.group_id for change in command.groups)
    room = CONFIGURED_GROUPS_MAX - len(state.group_configs)
    for change in command.groups:
        before = state.group_configs.get(change.group_id)
        try:
            check_once(times[change.group_id])
            after = _altered(state, change, command.replace)
            if before is None and after:
                room -= 1
                _check_room(room)
        except GroupError as error:
            outcomes.append(GroupOutcome(change.group_id, error.error_code, error.message))
            continue
        outcomes.append(GroupOutcome(change.group_id))
        if not command.validate_only and after != (() if before is None else before.configs):
            key = GroupConfigKey(GROUP_CONFIG, "", change.group_id)
            records.append(Record(key, GroupConfigValue(after) if after else None))
    return records, AlterGroupConfigsResult(tuple(outcomes))


def _check_room(room: int) -> None:
    if room < 0:
        message = f"The tier keeps the configs of at most {CONFIGURED_GROUPS_MAX} groups: delete some first."
        raise GroupError(ErrorCode.policy_violation, message)


def _altered(state: MetadataState, change: GroupConfigChange, replace: bool) -> Configs:
    """Return the group's own configs after the change, sorted. Raises GroupError: 42 for what no controller
    would look at, 40 for a name, an operation or a value that is not possible."""
    check_form(change.changes)
    before = state.group_configs.get(change.group_id)
    configs = {} if before is None or replace else dict(before.configs)
    for name, operation, value in change.changes:
        _change(configs, name, operation, value)
    if not change.group_id:
        raise GroupError(ErrorCode.invalid_request, "Default group resources are not allowed.")
    wrong = problem(configs, state.group_settings)
    if wrong is not None:
        raise GroupError(ErrorCode.invalid_config, wrong)
    return tuple(sorted(configs.items()))


def _change(configs: dict[str, str], name: str, operation: int, value: str | None) -> None:
    if operation in (APPEND, SUBTRACT):
        word = "APPEND" if operation == APPEND else "SUBTRACT"
        message = f"Can't {word} to key {name} because its type is not LIST."
        raise GroupError(ErrorCode.invalid_config, message)
    if operation not in (SET, DELETE):
        raise GroupError(ErrorCode.invalid_request, f"Unknown operations type {operation}")
    if operation == DELETE or value is None:
        configs.pop(name, None)
        return
    if len(value.encode("utf-8", "surrogatepass")) > CONFIG_VALUE_BYTES_MAX:
        message = (
            "The configuration value cannot be added because it exceeds the maximum value size of "
            f"{CONFIG_VALUE_BYTES_MAX} bytes."
        )
        raise GroupError(ErrorCode.invalid_config, message)
    configs[name] = value
