"""Committed offsets: OffsetCommit, OffsetFetch, OffsetDelete (the O rows).

An offset is one OFFSET_COMMIT record. A group that has offsets and is neither a classic nor a consumer
group is a *simple* group (O1): that is derived, nothing else is stored for it. Who may commit or fetch is
decided where the members are known, in `classic` and `consumer`. A fetch answers from the state as it is;
the host holds the answer back until the group's uncommitted commits are committed (O10, R2).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from kio.schema.errors import ErrorCode

from actors.contract import NOTHING, Key, Record, Reply, Request, Result, Value
from actors.coordinator import classic, consumer
from actors.coordinator.area import Area
from actors.coordinator.records import OFFSET_COMMIT, OffsetCommitKey, OffsetCommitValue
from actors.coordinator.refusals import refusal, refused_fetch
from actors.coordinator.state import ShardState
from actors.limits import DELETED_TOPICS_REMEMBERED_MAX
from actors.metadata.image import MetadataImage
from actors.protocol import api_keys
from actors.protocol.errors import GroupError
from actors.protocol.messages import (
    NO_ERROR,
    FetchedGroup,
    FetchedOffset,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from actors.snapshot_build import live_items

GROUP_ID_NOT_FOUND_VERSION = 9
"""The first OffsetCommit version that knows GROUP_ID_NOT_FOUND (O2)."""
NO_EXPIRY = -1
NO_TOPIC_ID = bytes(16)
_new = tuple.__new__
"""Makes a NamedTuple in a third of the time its own constructor takes; a commit makes three a partition."""


def is_simple_group(state: ShardState, group_id: str) -> bool:
    """Whether the group consists of offsets alone (O1)."""
    return group_id in state.offsets and group_id not in state.consumer and group_id not in state.classic


# OffsetCommit.


def commit(state: ShardState, request: Request, now_ms: int) -> Result:
    """OffsetCommit. A topic or partition that does not exist gets error 3, the rest is committed (W12)."""
    body: OffsetCommitRequest = request.body
    topic_images = state.image.topics
    for topic, partitions in body.topics:
        topic_image = topic_images.get(topic)
        count = 0 if topic_image is None else len(topic_image.partition_leaders)
        for partition in partitions:
            if not 0 <= partition[0] < count:
                return _commit_what_exists(state, request, now_ms)
    if not body.topics:
        return _committed(request, ())
    return _commit_all(state, request, now_ms)


def _commit_what_exists(state: ShardState, request: Request, now_ms: int) -> Result:
    # Kafka's request handler sorts out unknown partitions before the coordinator sees the request, so they
    # have their error even if the group refuses the rest.
    body: OffsetCommitRequest = request.body
    topics = []
    for topic, partitions in body.topics:
        count = _partition_count(state.image, topic)
        known = tuple(partition for partition in partitions if 0 <= partition.partition < count)
        if known:
            topics.append((topic, known))
    records: Collection[Record] = ()
    answer = OffsetCommitResponse(())
    if topics:
        known_request = request._replace(body=body._replace(topics=tuple(topics)))
        try:
            result = _commit_all(state, known_request, now_ms)
            records, answer = result.records, result.replies[0].body
        except GroupError as error:
            answer = refusal(known_request, error.error_code)
    errors = {(topic, partition): error for topic, errors in answer.topics for partition, error in errors}
    unknown = ErrorCode.unknown_topic_or_partition
    result = _committed(
        request,
        tuple(
            (topic, tuple((p.partition, errors.get((topic, p.partition), unknown)) for p in partitions))
            for topic, partitions in body.topics
        ),
    )
    return result._replace(records=tuple(records))


def _commit_all(state: ShardState, request: Request, now_ms: int) -> Result:
    """Commit a request whose partitions all exist. Raises GroupError if the group refuses it."""
    body: OffsetCommitRequest = request.body
    group_id = body.group_id
    _validate_commit(state, request, now_ms)
    metadata_max = state.settings.offset_metadata_max_bytes
    # O5: a retention named by the commit itself wins over the tier's.
    retention_ms = body.retention_time_ms
    expire_timestamp_ms = NO_EXPIRY if retention_ms == -1 else now_ms + retention_ms
    records: list[Record] = []
    topics = []
    for topic, partitions in body.topics:
        topic_id = state.image.topics[topic].topic_id
        errors = []
        for partition, offset, leader_epoch, text in partitions:
            metadata = text or ""
            if metadata and _is_longer(metadata, metadata_max):
                errors.append((partition, ErrorCode.offset_metadata_too_large))
                continue
            key = _new(OffsetCommitKey, (OFFSET_COMMIT, group_id, topic, partition))
            value = _new(
                OffsetCommitValue, (offset, leader_epoch, metadata, now_ms, expire_timestamp_ms, topic_id)
            )
            records.append(_new(Record, (key, value)))
            errors.append((partition, NO_ERROR))
        topics.append((topic, tuple(errors)))
    reply = Reply(request.token, OffsetCommitResponse(tuple(topics)), group_id)
    return Result(records, (reply,))


def _validate_commit(state: ShardState, request: Request, now_ms: int) -> None:
    """Raise GroupError unless the group takes commits from this member (O1, O2, O3, O6)."""
    body: OffsetCommitRequest = request.body
    group_id = body.group_id
    if group_id in state.consumer:
        consumer.validate_commit(state, request, now_ms)
    elif group_id in state.classic:
        classic.validate_commit(state, request, now_ms)
    elif body.generation_id_or_member_epoch < 0:
        return
    elif group_id in state.offsets:
        # A simple group is an empty group: it has no generation and no member that could name one.
        raise GroupError(ErrorCode.unknown_member_id)
    elif request.api_version >= GROUP_ID_NOT_FOUND_VERSION:
        raise GroupError(ErrorCode.group_id_not_found, f"Group {group_id} not found.")
    else:
        raise GroupError(ErrorCode.illegal_generation)


def _is_longer(metadata: str, characters_max: int) -> bool:
    """Compared in UTF-16 units, as Java counts a string's length, whatever the setting's name says (O4)."""
    if len(metadata) > characters_max:
        return True
    if len(metadata) * 2 <= characters_max or metadata.isascii():
        return False
    return len(metadata.encode("utf-16-le", "surrogatepass")) // 2 > characters_max


def _committed(request: Request, topics: tuple[tuple[str, tuple[tuple[int, ErrorCode], ...]], ...]) -> Result:
    return Result((), (Reply(request.token, OffsetCommitResponse(topics), request.body.group_id),))


def _partition_count(image: MetadataImage, topic: str) -> int:
    topic_image = image.topics.get(topic)
    return 0 if topic_image is None else topic_image.partition_count


# OffsetFetch.


def fetch(state: ShardState, request: Request, now_ms: int) -> Result:
    """OffsetFetch of one or more groups; each group has its own error."""
    body: OffsetFetchRequest = request.body
    groups = tuple(_fetch_group(state, group, request.api_version) for group in body.groups)
    group_id = body.groups[0].group_id if len(body.groups) == 1 else None
    return Result((), (Reply(request.token, OffsetFetchResponse(groups), group_id),))


def _fetch_group(state: ShardState, group: OffsetFetchGroup, api_version: int) -> FetchedGroup:
    group_id = group.group_id
    if group_id in state.consumer:
        # Section 11, O11: on a classic group nobody looks at the member id or the epoch.
        try:
            consumer.validate_fetch(state, group_id, group.member_id, group.member_epoch)
        except GroupError as error:
            return refused_fetch(group, error.error_code, api_version)
    offsets = state.offsets.get(group_id, {})
    if group.topics is None:
        return FetchedGroup(group_id, _all_topics(offsets))
    topics = tuple(
        (topic, tuple(_fetched(offsets.get((topic, partition)), partition) for partition in partitions))
        for topic, partitions in group.topics
    )
    return FetchedGroup(group_id, topics)


def _all_topics(
    offsets: Mapping[tuple[str, int], OffsetCommitValue],
) -> tuple[tuple[str, tuple[FetchedOffset, ...]], ...]:
    """Every committed offset, sorted, so that equal states give equal answers."""
    topics: dict[str, list[FetchedOffset]] = {}
    for topic, partition in sorted(offsets):
        topics.setdefault(topic, []).append(_fetched(offsets[topic, partition], partition))
    return tuple((topic, tuple(fetched)) for topic, fetched in topics.items())


def _fetched(committed: OffsetCommitValue | None, partition: int) -> FetchedOffset:
    """O9: what was never committed is offset -1, epoch -1, "" and no error."""
    if committed is None:
        return FetchedOffset(partition)
    return FetchedOffset(partition, committed.offset, committed.leader_epoch, committed.metadata)


# OffsetDelete.


def delete(state: ShardState, request: Request, now_ms: int) -> Result:
    """OffsetDelete: tombstones for the named offsets of topics that the group does not use (O12)."""
    body: OffsetDeleteRequest = request.body
    counts = {topic: _partition_count(state.image, topic) for topic, _ in body.topics}
    subscribed: Collection[str] = ()
    if any(0 <= partition < counts[topic] for topic, partitions in body.topics for partition in partitions):
        # As with a commit: the coordinator is asked only if a partition exists.
        subscribed = _topics_in_use(state, body.group_id, counts)
    offsets = state.offsets.get(body.group_id, {})
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
            elif (topic, partition) in offsets:
                records.append(_tombstone(body.group_id, topic, partition))
            errors.append((partition, error))
        topics.append((topic, tuple(errors)))
    answer = OffsetDeleteResponse(NO_ERROR, tuple(topics))
    return Result(records, (Reply(request.token, answer, body.group_id),))


def _topics_in_use(state: ShardState, group_id: str, topics: Collection[str]) -> Collection[str]:
    """Those of `topics` that the group is subscribed to. Raises GroupError if it takes no deletion at all."""
    if not group_id:
        raise GroupError(ErrorCode.invalid_group_id)
    subscribed: Collection[str] | None
    if group_id in state.consumer:
        subscribed = consumer.subscribed_topics(state, group_id)
    elif group_id in state.classic:
        if classic.is_empty(state, group_id):
            return ()
        if classic.describe(state, group_id).protocol_type != "consumer":
            raise GroupError(ErrorCode.non_empty_group)
        subscribed = classic.subscribed_topics(state, group_id)
    elif group_id in state.offsets:
        return ()
    else:
        raise GroupError(ErrorCode.group_id_not_found, f"Group {group_id} not found.")
    return topics if subscribed is None else subscribed


def _tombstone(group_id: str, topic: str, partition: int) -> Record:
    return Record(OffsetCommitKey(OFFSET_COMMIT, group_id, topic, partition), None)


def delete_all(state: ShardState, group_id: str) -> list[Record]:
    """Tombstones for every offset of a group that is being deleted (O13)."""
    return [_tombstone(group_id, topic, partition) for topic, partition in state.offsets.get(group_id, ())]


# Deleted topics.


def forget_deleted_topics(
    state: ShardState, old_image: MetadataImage, new_image: MetadataImage
) -> list[Record]:
    """Tombstones for the offsets of topics that were deleted between two images, in all groups (O16).

    Called on leaders and followers; only a leader may write the records. What was seen deleted is kept, so
    that a follower makes up for a leader that fell before its tombstones were committed. Topic ids never
    come back, so an id that was here and is not is deleted for good, whatever has its name by then.
    """
    deleted = old_image.topics_by_id.keys() - new_image.topics_by_id.keys()
    if not deleted:
        return []
    names = {topic_id: old_image.topics_by_id[topic_id].name for topic_id in sorted(deleted)}
    seen = state.topics_seen_deleted
    seen.update(names)
    for topic_id in list(seen)[: max(len(seen) - DELETED_TOPICS_REMEMBERED_MAX, 0)]:
        del seen[topic_id]
    return _forget(state, names, names.values())


def _forget(state: ShardState, deleted: Mapping[bytes, str], gone: Collection[str]) -> list[Record]:
    """Tombstones by topic id; by name alone if a commit's topic id was not known and the name is `gone`."""
    names = frozenset(deleted.values())
    without_id = frozenset(gone)
    return [
        _tombstone(group_id, topic, partition)
        for group_id, offsets in state.offsets.items()
        for (topic, partition), committed in offsets.items()
        if topic in names
        and (committed.topic_id in deleted or (committed.topic_id == NO_TOPIC_ID and topic in without_id))
    ]


def _on_elected(state: ShardState, now_ms: int) -> Result:
    seen = state.topics_seen_deleted
    if not seen:
        return NOTHING
    return Result(_forget(state, seen, set(seen.values()) - state.image.topics.keys()))


# State.


def _apply(state: ShardState, key: Key, value: Value | None) -> Value | None:
    _, group_id, topic, partition = key
    offsets = state.offsets.get(group_id)
    if value is None:
        if offsets is None:
            return None
        replaced = offsets.pop((topic, partition), None)
        if not offsets:
            del state.offsets[group_id]
        return replaced
    assert isinstance(value, OffsetCommitValue)
    if offsets is None:
        offsets = state.offsets[group_id] = {}
    position = (topic, partition)
    replaced = offsets.get(position)
    offsets[position] = value
    return replaced


def _records(state: ShardState) -> Iterator[Record]:
    for group_id, offsets in live_items(state.offsets, list(state.offsets)):
        for (topic, partition), committed in live_items(offsets, list(offsets)):
            yield Record(OffsetCommitKey(OFFSET_COMMIT, group_id, topic, partition), committed)


AREA = Area(
    handlers={
        api_keys.OFFSET_COMMIT: commit,
        api_keys.OFFSET_FETCH: fetch,
        api_keys.OFFSET_DELETE: delete,
    },
    appliers={OFFSET_COMMIT: _apply},
    records=_records,
    on_elected=_on_elected,
)
