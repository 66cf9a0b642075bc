"""Committed offsets: OffsetCommit and OffsetFetch (the O rows).

Who may commit or fetch is decided where the members are known, in `classic` and `consumer`; a group without
any is one of `simple_groups`. A fetch answers from the state as it is; the host holds the answer back until
the group's uncommitted commits are committed (O10, R2). How offsets are kept is in `offsets_store`, how they
go in `offsets_delete` and `offsets_expiry`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple, TypeVar

from kio.schema.errors import ErrorCode

from actors.catalog import group_refusals
from actors.coordinator.ground.area import Area
from actors.coordinator.ground.group_offsets import NO_OFFSETS, GroupOffsets
from actors.coordinator.ground.kind import kind_of
from actors.coordinator.ground.refusals import coordinator_error
from actors.coordinator.ground.state import ShardState
from actors.coordinator.offsets import delete as offsets_delete
from actors.coordinator.offsets import known as offsets_known
from actors.coordinator.offsets import known_fetches
from actors.coordinator.offsets import store as offsets_store
from actors.coordinator.offsets import tallies as commit_tallies
from actors.coordinator.offsets.checks import check_commit
from actors.coordinator.offsets.delete import NO_TOPIC_ID, partition_count
from actors.coordinator.offsets.pending import pending_of
from actors.coordinator.offsets.reading import (
    FETCHED_AT_ONCE_MAX,
    Committed,
    in_slices,
    offsets_asked,
)
from actors.coordinator.offsets.written import written
from actors.coordinator.told.events import CommitRegressed
from actors.ground.contract import Record, Reply, Request, Result, new_tuple
from actors.ground.image import MetadataImage
from actors.ground.records import OffsetCommitValue, Position
from actors.protocol import api_keys
from actors.protocol.errors import GroupError
from actors.protocol.messages import (
    NO_ERROR,
    FetchedGroup,
    FetchedOffset,
    FetchedRow,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from actors.protocol.offset_refusals import refused_fetch
from actors.protocol.offset_rows import FetchedRows
from actors.protocol.requests import TOPIC_IDS_SINCE

MANY = 2
"""The number of partitions of a topic from which they are looked for among packed rows first."""
_Topic = TypeVar("_Topic", str, bytes)
_Error = tuple[int, ErrorCode]
"""(partition, its error)"""
_Answered = tuple[tuple[_Topic, Sequence[_Error]], ...]


# OffsetCommit.


def commit(state: ShardState, request: Request, now_ms: int) -> Result:
    """OffsetCommit. A topic or partition that does not exist gets error 3 (or 100), the rest is committed
    (W12)."""
    known = request[5][7]
    if known is None:
        return _decided(state, request, now_ms)
    found = offsets_known.again(state, request, now_ms)
    if found is None:
        found = _decided(state, request, now_ms)
        offsets_known.remember(state, request, found)
    return found


def _decided(state: ShardState, request: Request, now_ms: int) -> Result:
    body: OffsetCommitRequest = request.body
    if body.topic_ids is not None:
        return _commit_by_id(state, request, now_ms)
    if not body.topics:
        return _committed(request, ())
    found = written(state, body, now_ms)
    if found is None:
        return _commit_what_exists(state, request, now_ms)
    check_commit(state, request, now_ms)
    records, topics, count = found
    state.offset_counts["commits"] += count
    back = commit_tallies.count(state, body, records, count, now_ms)
    answer = new_tuple(OffsetCommitResponse, (topics, None))
    return Result(records, (new_tuple(Reply, (request.token, answer, body.group_id)),), back)


def _commit_by_id(state: ShardState, request: Request, now_ms: int) -> Result:
    """Version 10 names topics by id: the same by name, and error 100 for ids that stand for no topic."""
    body: OffsetCommitRequest = request.body
    image = state.image
    wrong: dict[bytes, list[_Error]] = {}
    named = []
    for topic_id, (_, partitions) in zip(body.topic_ids or (), body.topics, strict=True):
        topic_image = image.topics_by_id.get(topic_id)
        if topic_image is not None:
            named.append((topic_image.name, partitions))
        else:
            unknown = ((row[0], ErrorCode.unknown_topic_id) for row in partitions)
            wrong.setdefault(topic_id, []).extend(unknown)
    by_name = request._replace(body=body._replace(topics=tuple(named), topic_ids=None))
    records, answered, events = _attempt(state, by_name, now_ms)
    topics = _merged(wrong, tuple((image.topics[name].topic_id, errors) for name, errors in answered))
    answer = OffsetCommitResponse(
        tuple(("", errors) for _, errors in topics), tuple(topic_id for topic_id, _ in topics)
    )
    return Result(tuple(records), (Reply(request.token, answer, body.group_id),), events)


def _commit_what_exists(state: ShardState, request: Request, now_ms: int) -> Result:
    """Commit what exists of a request; the rest gets error 3. A topic of which nothing is asked is left out,
    unless it is unknown."""
    body: OffsetCommitRequest = request.body
    wrong: dict[str, list[_Error]] = {}
    topics = []
    for topic, rows in body.topics:
        count = partition_count(state.image, topic)
        known = tuple(row for row in rows if 0 <= row[0] < count)
        if known:
            topics.append((topic, known))
        if not count or len(known) < len(rows):
            wrong.setdefault(topic, []).extend(
                (row[0], ErrorCode.unknown_topic_or_partition) for row in rows if not 0 <= row[0] < count
            )
    records: Collection[Record] = ()
    events: list[CommitRegressed] = []
    answered: _Answered[str] = ()
    if topics:
        known_request = request._replace(body=body._replace(topics=tuple(topics)))
        records, answered, events = _attempt(state, known_request, now_ms)
    told = _committed(request, _merged(wrong, answered))
    return told._replace(records=tuple(records), events=events)


def _attempt(
    state: ShardState, request: Request, now_ms: int
) -> tuple[Collection[Record], _Answered[str], list[CommitRegressed]]:
    """Commit what exists of a request. If the group refuses it, the rest still has its own errors: Kafka
    sorts that out before the coordinator sees the request."""
    try:
        result = _decided(state, request, now_ms)
        records, answer, events = result.records, result.replies[0].body, list(result.events)
    except GroupError as error:
        records, answer, events = (
            (),
            group_refusals.offset_commit(request, coordinator_error(error.error_code), None),
            [],
        )
    return records, answer.topics, events


def _merged(wrong: dict[_Topic, list[_Error]], answered: _Answered[_Topic]) -> _Answered[_Topic]:
    """Merge the two into one entry a topic, errors first."""
    if not wrong:
        return answered
    for topic, errors in answered:
        wrong.setdefault(topic, []).extend(errors)
    return tuple((topic, tuple(errors)) for topic, errors in wrong.items())


def _committed(request: Request, topics: _Answered[str]) -> Result:
    return Result((), (Reply(request.token, OffsetCommitResponse(topics), request.body.group_id),))


# OffsetFetch.


def fetch(state: ShardState, request: Request, now_ms: int) -> Result:
    """OffsetFetch of one or more groups; each group has its own error."""
    body: OffsetFetchRequest = request[5]
    known = body[2]
    answer = None if known is None else known_fetches.again(state, body)
    if answer is not None and _refused(state, body[0][0], request[2]) is None:
        return _fetched(request, answer, body[0][0][0])
    if offsets_asked(state, body) > FETCHED_AT_ONCE_MAX:
        return Result(work=in_slices(state, request, _refused, _fetch_named))
    groups = []
    for group in body.groups:
        groups.append(_fetch_group(state, group, request.api_version, body.require_stable))
    answer = new_tuple(OffsetFetchResponse, (tuple(groups),))
    if known is not None:
        known_fetches.remember(state, body, answer)
    return _fetched(request, answer, groups[0][0] if len(groups) == 1 else None)


def _fetched(request: Request, answer: OffsetFetchResponse, group_id: str | None) -> Result:
    reply = new_tuple(Reply, (request[0], answer, group_id))
    result: Result = new_tuple(Result, ((), (reply,), (), None))
    return result


def _fetch_group(
    state: ShardState, group: OffsetFetchGroup, api_version: int, require_stable: bool
) -> FetchedGroup:
    refused = _refused(state, group, api_version)
    if refused is not None:
        return refused
    group_id = group.group_id
    committed = state.offsets.get(group_id, NO_OFFSETS)
    unstable = pending_of(state, group_id) if require_stable else ()
    if group.topics is None:
        group = _all_named(state.image, group_id, committed, api_version)
    return _fetch_named(state.image, group, committed, unstable)


def _refused(state: ShardState, group: OffsetFetchGroup, api_version: int) -> FetchedGroup | None:
    """The group's answer if its kind does not let the member fetch (O11)."""
    kind = kind_of(state, group.group_id)
    if kind is not None:
        try:
            kind.validate_fetch(state, group.group_id, group.member_id, group.member_epoch)
        except GroupError as error:
            return refused_fetch(group, error.error_code, api_version)
    return None


def _fetch_named(
    image: MetadataImage, group: OffsetFetchGroup, committed: Committed, unstable: Collection[Position]
) -> FetchedGroup:
    """The offsets of a group whose topics are named, by name or id."""
    offsets: _Offsets = new_tuple(_Offsets, (committed, unstable))
    if group.topic_ids is not None:
        return _fetch_by_id(image, group, offsets)
    topics = []
    for topic, partitions in group.topics or ():
        topics.append((topic, offsets.rows(topic, partitions)))
    fetched: FetchedGroup = new_tuple(FetchedGroup, (group.group_id, tuple(topics), NO_ERROR, None))
    return fetched


def _fetch_by_id(image: MetadataImage, group: OffsetFetchGroup, offsets: _Offsets) -> FetchedGroup:
    """The same for version 10, which names topics by id. An offset of an earlier topic of that name is none
    of this topic's (O9)."""
    topics = []
    for topic_id, (_, partitions) in zip(group.topic_ids or (), group.topics or (), strict=True):
        topic_image = image.topics_by_id.get(topic_id)
        if topic_image is None:
            unknown = ErrorCode.unknown_topic_id
            rows: Sequence[FetchedRow] = tuple(
                FetchedOffset(partition, error_code=unknown) for partition in partitions
            )
        else:
            rows = offsets.rows(topic_image.name, partitions, topic_id)
        topics.append(("", rows))
    return FetchedGroup(group.group_id, tuple(topics), topic_ids=group.topic_ids)


def _all_named(
    image: MetadataImage, group_id: str, committed: GroupOffsets, api_version: int
) -> OffsetFetchGroup:
    """Every committed offset, sorted, so that equal states give equal answers."""
    partitions = committed.partitions()
    if api_version >= TOPIC_IDS_SINCE:
        # There is no way to name a topic that is gone.
        ids = {
            image.topics[topic].topic_id: partitions[topic] for topic in partitions if topic in image.topics
        }
        named = tuple(("", tuple(of_topic)) for of_topic in ids.values())
        return OffsetFetchGroup(group_id, named, topic_ids=tuple(ids))
    return OffsetFetchGroup(group_id, tuple((topic, tuple(each)) for topic, each in partitions.items()))


class _Offsets(NamedTuple):
    """What a fetch may see of one group."""

    committed: Committed
    unstable: Collection[Position]
    """O10: offsets of open transactions, if the fetch wants to know of them."""

    def rows(
        self, topic: str, partitions: Sequence[int], topic_id: bytes = NO_TOPIC_ID
    ) -> Sequence[FetchedRow]:
        """The answer's rows of one topic: as they are kept, if none is unstable or missing or has
        metadata."""
        if not self.unstable and len(partitions) >= MANY:
            data = self.committed.packed(topic, partitions, None if topic_id == NO_TOPIC_ID else topic_id)
            if data is not None:
                return FetchedRows(data)
        committed = self.committed.many(zip(repeat(topic), partitions))
        return tuple(self._fetched(committed, topic, partition, topic_id) for partition in partitions)

    def _fetched(
        self, found: Mapping[Position, OffsetCommitValue], topic: str, partition: int, topic_id: bytes
    ) -> FetchedOffset:
        """O9: what was never committed is offset -1, epoch -1, "" and no error."""
        position = (topic, partition)
        if self.unstable and position in self.unstable:
            return FetchedOffset(partition, error_code=ErrorCode.unstable_offset_commit)
        committed = found.get(position)
        if committed is None or _differ(committed.topic_id, topic_id):
            return FetchedOffset(partition)
        return FetchedOffset(partition, committed.offset, committed.leader_epoch, committed.metadata)


def _differ(topic_id: bytes, other: bytes) -> bool:
    """Whether these are ids of two topics, both known."""
    return topic_id != other and topic_id != NO_TOPIC_ID and other != NO_TOPIC_ID


AREA = Area(
    handlers={
        api_keys.OFFSET_COMMIT: commit,
        api_keys.OFFSET_FETCH: fetch,
        api_keys.OFFSET_DELETE: offsets_delete.delete,
    },
    appliers=offsets_store.APPLIERS,
    timers=offsets_delete.TIMERS,
    records=offsets_store.records,
    on_elected=offsets_delete.on_elected,
    on_metadata=offsets_delete.note_deleted_topics,
)
