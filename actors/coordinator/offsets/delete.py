"""Offsets that go: OffsetDelete (O12), those of deleted groups (O13) and of deleted topics (O16).

The tombstone of an offset takes the pending offsets of open transactions along (O8).
"""

from __future__ import annotations

from collections.abc import Collection

from kio.schema.errors import ErrorCode

from actors.coordinator.ground import simple_groups
from actors.coordinator.ground.group_offsets import NO_OFFSETS
from actors.coordinator.ground.kind import kind_of
from actors.coordinator.ground.slices import AT_ONCE_MAX
from actors.coordinator.ground.state import ShardState
from actors.coordinator.ground.volatile import Sweep
from actors.coordinator.offsets import dying as dying_groups
from actors.coordinator.offsets.pending import drop_pending, drop_pending_of_group
from actors.coordinator.offsets.walk import next_slice, stops
from actors.coordinator.told.events import OffsetsDeleted
from actors.ground.contract import NOTHING, Record, Reply, Request, Result
from actors.ground.image import MetadataImage
from actors.ground.limits import DELETED_TOPICS_REMEMBERED_MAX
from actors.ground.records import OFFSET_COMMIT, OffsetCommitKey, Position
from actors.protocol.errors import GroupError
from actors.protocol.messages import NO_ERROR, OffsetDeleteRequest, OffsetDeleteResponse

NO_TOPIC_ID = bytes(16)
SWEEP_TIMER = "offsets-of-deleted-topics"
_SWEEP_KEY = (SWEEP_TIMER, "")


def partition_count(image: MetadataImage, topic: str) -> int:
    topic_image = image.topics.get(topic)
    return 0 if topic_image is None else topic_image.partition_count


# OffsetDelete.


def delete(state: ShardState, request: Request, now_ms: int) -> Result:
    """OffsetDelete: tombstones for the named offsets of topics that the group does not use (O12)."""
    body: OffsetDeleteRequest = request.body
    group_id = body.group_id
    counts = {topic: partition_count(state.image, topic) for topic, _ in body.topics}
    subscribed = _topics_in_use(state, group_id, counts)
    records: list[Record] = []
    topics = []
    for topic, partitions in body.topics:
        errors = []
        for partition in partitions:
            error = NO_ERROR
            if not 0 <= partition < counts[topic]:
                error = ErrorCode.unknown_topic_or_partition
            elif topic in subscribed:
                error = ErrorCode.group_subscribed_to_topic
            else:
                records += tombstones(state, group_id, topic, partition)
            errors.append((partition, error))
        topics.append((topic, tuple(errors)))
    if records:
        simple_groups.keep(state, group_id)
    state.offset_counts["deletions"] += len(records)
    answer = OffsetDeleteResponse(NO_ERROR, tuple(topics))
    event = OffsetsDeleted(now_ms, group_id, "deleted on request", len(records))
    return Result(records, (Reply(request.token, answer, group_id),), (event,) if records else ())


def _topics_in_use(state: ShardState, group_id: str, topics: Collection[str]) -> Collection[str]:
    """Return those of `topics` that the group is subscribed to. Raises GroupError if it takes no deletion."""
    if not group_id:
        raise GroupError(ErrorCode.invalid_group_id)
    kind = kind_of(state, group_id)
    if kind is None:
        if simple_groups.exists(state, group_id):
            return ()
        raise GroupError(ErrorCode.group_id_not_found, f"Group {group_id} not found.")
    subscribed = kind.subscribed_topics(state, group_id)
    return topics if subscribed is None else subscribed


def tombstones(state: ShardState, group_id: str, topic: str, partition: int) -> list[Record]:
    """Tombstones for a partition's offset and what is pending of it, as far as they are there (O8)."""
    records = drop_pending(state, group_id, topic, partition)
    if (topic, partition) in state.offsets.get(group_id, ()):
        records.append(Record(OffsetCommitKey(OFFSET_COMMIT, group_id, topic, partition), None))
    return records


def delete_all(state: ShardState, group_id: str, now_ms: int) -> list[Record]:
    """Tombstones for every offset of a group that is being deleted, pending ones too; or, if they are many,
    what has them go by and by (O13)."""
    records = drop_pending_of_group(state, group_id)
    offsets = state.offsets.get(group_id, ())
    if len(offsets) > AT_ONCE_MAX:
        return [*records, dying_groups.begin(state, group_id, now_ms)]
    records += [
        Record(OffsetCommitKey(OFFSET_COMMIT, group_id, topic, partition), None)
        for topic, partition in offsets
    ]
    return records


def delete_group(state: ShardState, group_id: str, now_ms: int) -> list[Record]:
    """Tombstones for all of a group, or the record that has its many offsets go by and by; its volatile half
    is gone already. Raises GroupError if it is not there or not empty (O13)."""
    kind = kind_of(state, group_id)
    group_records: list[Record] = []
    if kind is not None:
        group_records = kind.delete_records(state, group_id)
        kind.forget(state, group_id)
    elif not simple_groups.exists(state, group_id):
        raise GroupError(ErrorCode.group_id_not_found)
    state.simple_groups.pop(group_id, None)
    return delete_all(state, group_id, now_ms) + group_records


# Deleted topics.


def note_deleted_topics(state: ShardState, before: MetadataImage, now_ms: int) -> None:
    """Have the offsets of topics that a new image names no longer swept out of all groups, in slices (O16).

    Called on leaders and followers; only a leader's timers fire. What was seen deleted is kept, so that a
    follower makes up for a leader that fell before its tombstones were committed. Topic ids never come back,
    so an id that was here and is not is deleted for good, whatever has its name by then. Internal topics are
    never deleted: they have another id once the image is that of a Kafka cluster.
    """
    gone = before.topics_by_id.keys() - state.image.topics_by_id.keys()
    deleted = {topic_id for topic_id in gone if not before.topics_by_id[topic_id].internal}
    if not deleted:
        return
    names = {topic_id: before.topics_by_id[topic_id].name for topic_id in sorted(deleted)}
    seen = state.topics_seen_deleted
    seen.update(names)
    for topic_id in list(seen)[: max(len(seen) - DELETED_TOPICS_REMEMBERED_MAX, 0)]:
        del seen[topic_id]
    _begin_sweep(state, frozenset(names.values()), now_ms)


def _begin_sweep(state: ShardState, gone: frozenset[str], now_ms: int) -> None:
    """Begin a sweep at the first group: what an unfinished one has passed may hold offsets of the topics
    deleted since."""
    unfinished = frozenset() if state.sweep is None else state.sweep.gone
    state.sweep = Sweep(stops(state), gone | unfinished)
    state.timers.schedule_late(_SWEEP_KEY, now_ms)


def _sweep(state: ShardState, key: tuple[object, ...], now_ms: int) -> Result:
    sweep = state.sweep
    if sweep is None:
        return NOTHING
    groups, is_last = next_slice(sweep.walk)
    names = frozenset(state.topics_seen_deleted.values())
    records: list[Record] = []
    events = []
    for group_id, positions in groups:
        swept = [
            record
            for position in positions
            if position is not None and position[0] in names and _is_deleted(state, group_id, position, sweep)
            for record in tombstones(state, group_id, *position)
        ]
        if swept:
            records += swept
            events.append(OffsetsDeleted(now_ms, group_id, "their topic was deleted", len(swept)))
            simple_groups.keep(state, group_id)
    if is_last:
        state.sweep = None
    else:
        state.timers.schedule_late(_SWEEP_KEY, now_ms)
    return Result(records, events=events)


def _is_deleted(state: ShardState, group_id: str, position: Position, sweep: Sweep) -> bool:
    """Whether the offset's topic is gone: by topic id, or by name if the commit did not know the id."""
    committed = state.offsets.get(group_id, NO_OFFSETS).get(position)
    topic_ids = [] if committed is None else [committed.topic_id]
    topic_ids += [
        value.topic_id for value in state.pending_offsets.get(group_id, {}).get(position, {}).values()
    ]
    return any(
        topic_id in state.topics_seen_deleted or (topic_id == NO_TOPIC_ID and position[0] in sweep.gone)
        for topic_id in topic_ids
    )


def on_elected(state: ShardState, now_ms: int) -> Result:
    seen = state.topics_seen_deleted
    if seen:
        _begin_sweep(state, frozenset(seen.values()) - state.image.topics.keys(), now_ms)
    return NOTHING


TIMERS = {SWEEP_TIMER: _sweep}
