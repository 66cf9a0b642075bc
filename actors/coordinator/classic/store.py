"""The replicated half of classic groups: appliers, records, and the way back to live groups after a failover.

What is stored is the last generation that was Stable or Empty (C26); a rebalance under way leaves no trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from actors.coordinator.classic.group import EMPTY, STABLE, ClassicGroup, ClassicMember, kept_once
from actors.coordinator.classic.state import StoredClassicGroup, stored_groups
from actors.coordinator.ground.state import ShardState
from actors.ground.contract import Key, Record, Value
from actors.ground.records import (
    CLASSIC_MEMBER,
    GROUP_METADATA,
    ClassicMemberKey,
    GroupMetadataKey,
)
from actors.ground.snapshot_build import live_items


def apply_metadata(state: ShardState, key: Key, value: Any) -> Value | None:
    group_id: str = key[1]
    stored = stored_groups(state).get(group_id)
    if stored is None:
        if value is None:
            return None
        stored = stored_groups(state)[group_id] = StoredClassicGroup()
    replaced = stored.metadata
    stored.metadata = value
    _drop_if_blank(state, group_id, stored)
    return replaced


def apply_member(state: ShardState, key: Key, value: Any) -> Value | None:
    group_id: str = key[1]
    member_id: str = key[2]
    stored = stored_groups(state).get(group_id)
    if value is None:
        if stored is None:
            return None
        replaced = stored.members.pop(member_id, None)
        _drop_if_blank(state, group_id, stored)
        return replaced
    if stored is None:
        stored = stored_groups(state)[group_id] = StoredClassicGroup()
    replaced = stored.members.get(member_id)
    other = stored.members[next(reversed(stored.members))] if stored.members else None
    stored.members[member_id] = kept_once(value, other)
    return replaced


def _drop_if_blank(state: ShardState, group_id: str, stored: StoredClassicGroup) -> None:
    if stored.metadata is None and not stored.members:
        del stored_groups(state)[group_id]


def all_records(state: ShardState) -> Iterator[Record]:
    for group_id, stored in live_items(stored_groups(state), list(stored_groups(state))):
        if stored.metadata is not None:
            yield Record(GroupMetadataKey(GROUP_METADATA, group_id), stored.metadata)
        for member_id, value in live_items(stored.members, list(stored.members)):
            yield Record(ClassicMemberKey(CLASSIC_MEMBER, group_id, member_id), value)


def generation_records(state: ShardState, group: ClassicGroup) -> list[Record]:
    """What makes the stored group equal to the live one; only what differs, and without members that are in
    no generation yet.

    The metadata comes last, for a huge group's records may be split over two Raft entries and only the
    first may survive its leader: then the old generation number stands, no member has it any more, and all
    rejoin. The other way round a member would be told an old assignment in the new generation.
    """
    group_id = group.group_id
    stored = stored_groups(state).get(group_id) or StoredClassicGroup()
    records = [
        Record(ClassicMemberKey(CLASSIC_MEMBER, group_id, member_id), None)
        for member_id in stored.members
        if member_id not in group.members
    ]
    for member_id, member in group.members.items():
        if member.is_new:
            # It waits for the next generation beside a Stable group.
            continue
        value = member.value()
        if stored.members.get(member_id) != value:
            records.append(Record(ClassicMemberKey(CLASSIC_MEMBER, group_id, member_id), value))
    metadata = group.metadata_value()
    if stored.metadata != metadata:
        records.append(Record(GroupMetadataKey(GROUP_METADATA, group_id), metadata))
    return records


def replacement(state: ShardState, group_id: str, shall: list[Record]) -> list[Record]:
    """What makes the stored group equal to these records: only what differs, and the metadata last, as in
    `generation_records`."""
    if not shall:
        return tombstones(state, group_id)
    stored = stored_groups(state).get(group_id) or StoredClassicGroup()
    before: dict[Key, Value | None] = {
        ClassicMemberKey(CLASSIC_MEMBER, group_id, member_id): value
        for member_id, value in stored.members.items()
    }
    before[GroupMetadataKey(GROUP_METADATA, group_id)] = stored.metadata
    after = {record.key: record.value for record in shall}
    records = [Record(key, None) for key in before if key not in after]
    records += [Record(key, value) for key, value in after.items() if before.get(key) != value]
    return sorted(records, key=lambda record: record.key[0] == GROUP_METADATA)


def tombstones(state: ShardState, group_id: str) -> list[Record]:
    """Tombstones for every record of the group."""
    stored = stored_groups(state).get(group_id)
    if stored is None:
        return []
    records = [
        Record(ClassicMemberKey(CLASSIC_MEMBER, group_id, member_id), None) for member_id in stored.members
    ]
    if stored.metadata is not None:
        records.append(Record(GroupMetadataKey(GROUP_METADATA, group_id), None))
    return records


def rebuild(group_id: str, stored: StoredClassicGroup, now_ms: int) -> ClassicGroup:
    """The live group as it was last stored: Stable, or Empty (C26)."""
    group = ClassicGroup(group_id, now_ms)
    metadata = stored.metadata
    if metadata is None:
        return group
    group.protocol_type = metadata.protocol_type or None
    group.generation = metadata.generation
    group.current_state_timestamp_ms = metadata.current_state_timestamp_ms
    if metadata.protocol_name is None:
        # Empty. Members stored beside it are of a generation that was never completed (generation_records);
        # the next one removes them.
        group.learn_subscribed_topics()
        return group
    for member_id, value in stored.members.items():
        group.add(ClassicMember(group_id, member_id, value))
    if group.members:
        group.protocol_name = metadata.protocol_name
        group.state = group.previous_state = STABLE
        if metadata.leader in group.members:
            group.leader = metadata.leader
    assert group.state in (STABLE, EMPTY)
    group.learn_subscribed_topics()
    return group
