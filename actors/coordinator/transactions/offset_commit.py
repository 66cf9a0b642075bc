"""TxnOffsetCommit and the markers that end it: the group coordinator's half of a transaction (O7).

The first commit of a transaction in an offsets partition waits until the transaction's coordinator has said
that the partition is part of it (KIP-890): else a zombie could leave an offset pending that no marker ever
ends. A marker that comes while a commit waits refuses it. Later commits of the same transaction need no
such word. Rules: org.apache.kafka OffsetMetadataManager, CoordinatorRuntime, ProducerAppendInfo.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kio.schema.errors import ErrorCode

from actors.catalog import transaction_refusals
from actors.coordinator.ground import simple_groups
from actors.coordinator.ground.area import Area
from actors.coordinator.ground.kind import kind_of
from actors.coordinator.ground.refusals import coordinator_error
from actors.coordinator.ground.state import ShardState
from actors.coordinator.ground.volatile import UnverifiedCommit
from actors.coordinator.offsets import pending as offsets
from actors.coordinator.offsets.checks import no_group_of
from actors.coordinator.offsets.written import is_longer
from actors.coordinator.transactions import markers
from actors.coordinator.transactions.events import TransactionUnverified
from actors.coordinator.transactions.inside import (
    TXN_VERIFIED,
    InsideResponse,
    TxnVerifiedRequest,
    inside_refused,
)
from actors.ground.contract import Record, Reply, Request, Result
from actors.ground.records import (
    NO_EXPIRY,
    PENDING_TXN_OFFSET,
    PRODUCER_MARKER,
    OffsetCommitValue,
    PendingTxnOffsetKey,
)
from actors.ground.topic_names import OFFSETS_TOPIC
from actors.protocol import api_keys
from actors.protocol.errors import GroupError
from actors.protocol.messages import NO_ERROR, CommittedPartition
from actors.protocol.transaction_messages import (
    TopicErrors,
    TxnMarker,
    TxnMarkerErrors,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
    error_of_each,
    same_error,
)

ADDS_PARTITION_VERSION = 5
"""The first version whose TxnOffsetCommit adds the group's partition to the transaction itself."""
ABORTABLE_VERSION = 4
"""The first version that knows TRANSACTION_ABORTABLE."""
GROUP_ID_NOT_FOUND_VERSION = 6
"""The first version that knows GROUP_ID_NOT_FOUND (O7)."""

Errors = Mapping[tuple[str, int], ErrorCode]
_Committed = tuple[str, tuple[CommittedPartition, ...]]


def commit(state: ShardState, request: Request, now_ms: int) -> Result:
    """TxnOffsetCommit. A partition that does not exist gets error 3 whatever becomes of the rest (W12)."""
    body: TxnOffsetCommitRequest = request.body
    if not any(True for _ in _known(state, body)):
        return _answered(state, request, {})
    if not body.group_id:
        return _refused(state, request, ErrorCode.invalid_group_id)
    if offsets.has_open_transaction(state, body.producer_id, body.producer_epoch):
        return _decided(state, request, now_ms)
    state.unverified[request.token] = UnverifiedCommit(request)
    event = TransactionUnverified(
        request.token,
        body.transactional_id,
        body.producer_id,
        body.producer_epoch,
        body.group_id,
        verify_only=request.api_version < ADDS_PARTITION_VERSION,
    )
    return Result(events=(event,))


def verified(state: ShardState, request: Request, now_ms: int) -> Result:
    """Take the coordinator's word on a commit that waits for it."""
    body: TxnVerifiedRequest = request.body
    reply = Reply(request.token, InsideResponse(NO_ERROR), "")
    waiting = state.unverified.pop(body.waiting, None)
    if waiting is None:
        return Result((), (reply,))
    if body.error_code != NO_ERROR:
        error = _for_version(waiting.request, body.error_code)
        result = _refused(state, waiting.request, error)
    elif waiting.is_overtaken:
        result = _refused(state, waiting.request, ErrorCode.invalid_txn_state)
    else:
        result = _decided(state, waiting.request, now_ms)
    return result._replace(replies=(*result.replies, reply))


def _for_version(request: Request, error: ErrorCode) -> ErrorCode:
    if error == ErrorCode.producer_fenced:
        # The coordinator's word for it; a group's coordinator says what its log would.
        return ErrorCode.invalid_producer_epoch
    if error == ErrorCode.transaction_abortable and request.api_version < ABORTABLE_VERSION:
        return ErrorCode.invalid_txn_state
    return error


def _decided(state: ShardState, request: Request, now_ms: int) -> Result:
    body: TxnOffsetCommitRequest = request.body
    by_name = request._replace(body=body._replace(topics=_named(state, body), topic_ids=None))
    try:
        markers.check_producer(state, body.producer_id, body.producer_epoch)
        _validate(state, by_name, now_ms)
    except GroupError as error:
        return _refused(state, request, error.error_code)
    records: list[Record] = []
    errors: dict[tuple[str, int], ErrorCode] = {}
    for topic, partition in _known(state, body):
        text = partition.metadata or ""
        if is_longer(text, state.settings.offset_metadata_max_bytes):
            errors[topic, partition.partition] = ErrorCode.offset_metadata_too_large
            continue
        committed = OffsetCommitValue(
            partition.offset,
            partition.leader_epoch,
            text,
            now_ms,
            NO_EXPIRY,
            state.image.topics[topic].topic_id,
        )
        key = PendingTxnOffsetKey(
            PENDING_TXN_OFFSET, body.group_id, topic, partition.partition, body.producer_id
        )
        records.append(offsets.pend(state, key, body.producer_epoch, committed))
        errors[topic, partition.partition] = NO_ERROR
    return _answered(state, request, errors)._replace(records=records)


def _validate(state: ShardState, request: Request, now_ms: int) -> None:
    """Raise GroupError unless the group takes the commit (O7)."""
    body: TxnOffsetCommitRequest = request.body
    group_id = body.group_id
    if group_id in state.dying:
        raise GroupError(ErrorCode.coordinator_load_in_progress)
    kind = kind_of(state, group_id)
    if kind is not None:
        kind.validate_txn_commit(state, request, now_ms)
    elif body.generation_id >= 0:
        raise no_group_of(state, group_id, is_known=request.api_version >= GROUP_ID_NOT_FOUND_VERSION)


def _named(state: ShardState, body: TxnOffsetCommitRequest) -> tuple[_Committed, ...]:
    """The topics by name, also if the request has their ids; one of an unknown id is called ""."""
    if body.topic_ids is None:
        return body.topics
    known = state.image.topics_by_id
    names = (known[topic_id].name if topic_id in known else "" for topic_id in body.topic_ids)
    return tuple((name, partitions) for name, (_, partitions) in zip(names, body.topics, strict=True))


def _known(state: ShardState, body: TxnOffsetCommitRequest) -> Iterator[tuple[str, CommittedPartition]]:
    """The partitions that exist."""
    topics = state.image.topics
    for topic, partitions in _named(state, body):
        image = topics.get(topic)
        count = 0 if image is None else image.partition_count
        for partition in partitions:
            if 0 <= partition.partition < count:
                yield topic, partition


def _refused(state: ShardState, request: Request, error: ErrorCode) -> Result:
    body: TxnOffsetCommitRequest = request.body
    by_name = request._replace(body=body._replace(topics=_named(state, body)))
    answer = transaction_refusals.offset_commit(by_name, coordinator_error(error), None)
    known = {(topic, partition.partition) for topic, partition in _known(state, body)}
    errors = error_of_each((answer.topics,))
    return _answered(state, request, {place: errors[place] for place in known})


def _answered(state: ShardState, request: Request, errors: Errors) -> Result:
    body: TxnOffsetCommitRequest = request.body
    by_id = body.topic_ids is not None
    topics = []
    ids = body.topic_ids or (b"",) * len(body.topics)
    for topic_id, (topic, partitions) in zip(ids, _named(state, body), strict=True):
        is_known = topic in state.image.topics
        missing = (
            ErrorCode.unknown_topic_or_partition if is_known or not by_id else ErrorCode.unknown_topic_id
        )
        each = tuple((p.partition, errors.get((topic, p.partition), missing)) for p in partitions)
        if partitions or not is_known:  # as Kafka
            topics.append((topic_id, ("" if by_id else topic, each)))
    answer = TxnOffsetCommitResponse(
        tuple(each for _, each in topics), tuple(topic_id for topic_id, _ in topics) if by_id else None
    )
    return Result((), (Reply(request.token, answer, body.group_id),))


# WriteTxnMarkers.


def write_markers(state: ShardState, request: Request, now_ms: int) -> Result:
    """WriteTxnMarkers to this offsets partition: what producers had pending becomes committed, or goes."""
    body: WriteTxnMarkersRequest = request.body
    records: list[Record] = []
    results = []
    for marker in body.markers:
        error = NO_ERROR
        try:
            records += _ended(state, marker, now_ms)
        except GroupError as refused:
            error = refused.error_code
        results.append(TxnMarkerErrors(marker.producer_id, marked(marker, error)))
    answer = WriteTxnMarkersResponse(tuple(results))
    return Result(records, (Reply(request.token, answer, None),))


def _ended(state: ShardState, marker: TxnMarker, now_ms: int) -> list[Record]:
    markers.check_marker(state, marker)
    for token, waiting in state.unverified.items():
        waits: TxnOffsetCommitRequest = waiting.request.body
        if waits.producer_id == marker.producer_id and marker.ends(waits.producer_epoch):
            state.unverified[token] = waiting._replace(is_overtaken=True)
    for group_id, _, _ in state.open_producers.get(marker.producer_id, ()):
        simple_groups.keep(state, group_id)
    ended = offsets.end_transaction(state, marker.producer_id, committed=marker.committed)
    # The marker stands before what it ends: who reads the log knows by it why that goes.
    return [markers.written(state, marker, now_ms), *ended]


def marked(marker: TxnMarker, error: ErrorCode) -> TopicErrors:
    """The same error for each offsets partition of a marker."""
    return same_error(tuple(each for each in marker.topics if each[0] == OFFSETS_TOPIC), error)


def _records(state: ShardState) -> Iterator[Record]:
    yield from offsets.records(state)
    yield from markers.records(state)


AREA = Area(
    handlers={
        api_keys.TXN_OFFSET_COMMIT: commit,
        TXN_VERIFIED: verified,
    },
    appliers={PENDING_TXN_OFFSET: offsets.apply, PRODUCER_MARKER: markers.apply},
    refusals={TXN_VERIFIED: inside_refused},
    timers={markers.TIMER: markers.expire},
    records=_records,
    on_elected=markers.schedule_all,
)
