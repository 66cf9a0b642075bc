"""The appliers of consumer groups: kinds 3, 5, 6, 7, 8 and 16, and the snapshot of the same.

Total: a record may name a group or a member that is not there, in any order and after any prefix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from actors.contract import Key, Record, Value
from actors.coordinator.consumer_state import ConsumerGroup
from actors.coordinator.records import (
    CONSUMER_GROUP_METADATA,
    CONSUMER_MEMBER_METADATA,
    CURRENT_MEMBER_ASSIGNMENT,
    REGULAR_EXPRESSION,
    TARGET_ASSIGNMENT_MEMBER,
    TARGET_ASSIGNMENT_METADATA,
    ConsumerGroupKey,
    ConsumerGroupValue,
    ConsumerMemberKey,
    ConsumerMemberValue,
    CurrentAssignmentValue,
    RegularExpressionKey,
    RegularExpressionValue,
    TargetMemberValue,
    TargetMetadataValue,
)
from actors.coordinator.state import ShardState
from actors.snapshot_build import live_items

_Setter = Callable[[ConsumerGroup, Key, Any], Value | None]


def _applier(cls: Any, put: _Setter) -> Callable[[ShardState, Key, Value | None], Value | None]:
    def apply(state: ShardState, key: Key, value: Value | None) -> Value | None:
        group = state.consumer.get(key[1])
        if group is None:
            if value is None:
                return None
            group = state.consumer[key[1]] = ConsumerGroup(key[1])
        if value is not None and type(value) is not cls:
            # From the log it may come as a plain tuple.
            value = cls(*value)
        replaced = put(group, key, value)
        if value is None and group.blank:
            del state.consumer[key[1]]
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


APPLIERS = {
    CONSUMER_GROUP_METADATA: _applier(ConsumerGroupValue, _put_metadata),
    CONSUMER_MEMBER_METADATA: _applier(ConsumerMemberValue, _put_member),
    TARGET_ASSIGNMENT_METADATA: _applier(TargetMetadataValue, _put_target_metadata),
    TARGET_ASSIGNMENT_MEMBER: _applier(TargetMemberValue, _put_target),
    CURRENT_MEMBER_ASSIGNMENT: _applier(CurrentAssignmentValue, _put_current),
    REGULAR_EXPRESSION: _applier(RegularExpressionValue, _put_regex),
}


def records(state: ShardState) -> Iterator[Record]:
    """Every live record of every consumer group."""
    for _, group in live_items(state.consumer, list(state.consumer)):
        yield from _group_records(group)


def _group_records(group: ConsumerGroup) -> Iterator[Record]:
    group_id = group.group_id
    if group.metadata is not None:
        yield Record(ConsumerGroupKey(CONSUMER_GROUP_METADATA, group_id), group.metadata)
    for regex, resolved in live_items(group.regexes, list(group.regexes)):
        yield Record(RegularExpressionKey(REGULAR_EXPRESSION, group_id, regex), resolved)
    for member_id, member in live_items(group.members, list(group.members)):
        if member.metadata is not None:
            yield Record(ConsumerMemberKey(CONSUMER_MEMBER_METADATA, group_id, member_id), member.metadata)
        if member.target is not None:
            yield Record(
                ConsumerMemberKey(TARGET_ASSIGNMENT_MEMBER, group_id, member_id),
                TargetMemberValue(member.target),
            )
        if member.current is not None:
            yield Record(ConsumerMemberKey(CURRENT_MEMBER_ASSIGNMENT, group_id, member_id), member.current)
    if group.target_metadata is not None:
        yield Record(ConsumerGroupKey(TARGET_ASSIGNMENT_METADATA, group_id), group.target_metadata)
