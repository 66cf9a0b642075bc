"""The appliers of consumer groups: kinds 3, 5, 6, 7, 8, 16 and two of our own, and the snapshot of the same.

Total: a record may name a group or a member that is not there, in any order and after any prefix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from actors.coordinator.consumer.model import group_settings
from actors.coordinator.consumer.model.group import ConsumerGroup
from actors.coordinator.consumer.model.state import consumer_groups
from actors.coordinator.ground.state import ShardState
from actors.ground.contract import Key, Record, Value
from actors.ground.records import (
    CLIENT_ASSIGNMENT,
    CLIENT_ASSIGNORS,
    CONSUMER_GROUP_METADATA,
    CONSUMER_MEMBER_METADATA,
    CURRENT_MEMBER_ASSIGNMENT,
    RECORD_TYPES,
    REGULAR_EXPRESSION,
    TARGET_ASSIGNMENT_MEMBER,
    TARGET_ASSIGNMENT_METADATA,
    ClientAssignorsValue,
    ConsumerGroupKey,
    ConsumerMemberKey,
    RegularExpressionKey,
    TargetMemberValue,
)
from actors.ground.snapshot_build import live_items

_Setter = Callable[[ConsumerGroup, Key, Any], Value | None]


def _applier(kind: int, setter: _Setter) -> Callable[[ShardState, Key, Value | None], Value | None]:
    cls: Any = RECORD_TYPES[kind][1]

    def apply(state: ShardState, key: Key, value: Value | None) -> Value | None:
        group = consumer_groups(state).get(key[1])
        if group is None:
            if value is None:
                return None
            group = consumer_groups(state)[key[1]] = ConsumerGroup(key[1])
        if value is not None and type(value) is not cls:
            # From the log it may come as a plain tuple.
            value = cls(*value)
        replaced = setter(group, key, value)
        if value is None and group.blank:
            del consumer_groups(state)[key[1]]
        return replaced

    return apply


def _put_metadata(group: ConsumerGroup, key: Key, value: Any) -> Value | None:
    return group.set_metadata(value)


def _put_member(group: ConsumerGroup, key: Key, value: Any) -> Value | None:
    return group.set_member(key[2], value)


def _put_target_metadata(group: ConsumerGroup, key: Key, value: Any) -> Value | None:
    return group.set_target_metadata(value)


def _put_target(group: ConsumerGroup, key: Key, value: Any) -> Value | None:
    return group.set_target(key[2], value)


def _put_current(group: ConsumerGroup, key: Key, value: Any) -> Value | None:
    return group.set_current(key[2], value)


def _put_regex(group: ConsumerGroup, key: Key, value: Any) -> Value | None:
    return group.set_regex(key[2], value)


def _put_client_assignors(group: ConsumerGroup, key: Key, value: Any) -> Value | None:
    return group.set_client_assignors(key[2], value)


def _put_client_assignment(group: ConsumerGroup, key: Key, value: Any) -> Value | None:
    return group.set_client_assignment(key[2], value)


_SETTERS: dict[int, _Setter] = {
    CLIENT_ASSIGNORS: _put_client_assignors,
    CLIENT_ASSIGNMENT: _put_client_assignment,
    CONSUMER_GROUP_METADATA: _put_metadata,
    CONSUMER_MEMBER_METADATA: _put_member,
    TARGET_ASSIGNMENT_METADATA: _put_target_metadata,
    TARGET_ASSIGNMENT_MEMBER: _put_target,
    CURRENT_MEMBER_ASSIGNMENT: _put_current,
    REGULAR_EXPRESSION: _put_regex,
}
_apply_member = _applier(CONSUMER_MEMBER_METADATA, _put_member)


def _apply_and_count_member(state: ShardState, key: Key, value: Value | None) -> Value | None:
    replaced = _apply_member(state, key, value)
    if (replaced is None) is not (value is None):
        group_settings.count_members(state, -1 if value is None else 1)
    return replaced


APPLIERS = {kind: _applier(kind, setter) for kind, setter in _SETTERS.items()}
APPLIERS[CONSUMER_MEMBER_METADATA] = _apply_and_count_member


def put(group: ConsumerGroup, record: Record) -> None:
    """Write one record into a group that is in no state (yet)."""
    _SETTERS[record.key[0]](group, record.key, record.value)


def records(state: ShardState) -> Iterator[Record]:
    """Every live record of every consumer group."""
    for _, group in live_items(consumer_groups(state), list(consumer_groups(state))):
        yield from group_records(group)


def group_records(group: ConsumerGroup) -> Iterator[Record]:
    """Every record of one group. The metadata comes last: it makes a group that is converted whole."""
    group_id = group.group_id
    for regex, resolved in live_items(group.regexes, list(group.regexes)):
        yield Record(RegularExpressionKey(REGULAR_EXPRESSION, group_id, regex), resolved)
    for member_id, member in live_items(group.members, list(group.members)):
        if (metadata := member.metadata) is not None:
            yield Record(ConsumerMemberKey(CONSUMER_MEMBER_METADATA, group_id, member_id), metadata)
        if member.target is not None:
            yield Record(
                ConsumerMemberKey(TARGET_ASSIGNMENT_MEMBER, group_id, member_id),
                TargetMemberValue(member.target),
            )
        if (current := member.current) is not None:
            yield Record(ConsumerMemberKey(CURRENT_MEMBER_ASSIGNMENT, group_id, member_id), current)
    for member_id, brought in live_items(group.client_assignors, list(group.client_assignors)):
        key = ConsumerMemberKey(CLIENT_ASSIGNORS, group_id, member_id)
        yield Record(key, ClientAssignorsValue(brought))
    for member_id, given in live_items(group.client_assignments, list(group.client_assignments)):
        yield Record(ConsumerMemberKey(CLIENT_ASSIGNMENT, group_id, member_id), given)
    if group.target_metadata is not None:
        yield Record(ConsumerGroupKey(TARGET_ASSIGNMENT_METADATA, group_id), group.target_metadata)
    if group.metadata is not None:
        yield Record(ConsumerGroupKey(CONSUMER_GROUP_METADATA, group_id), group.metadata)
