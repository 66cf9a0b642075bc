"""TxnOffsetCommit and the markers that settle it: the group coordinator's half of a transaction (O7).

The first commit of a transaction in an offsets partition waits until the transaction's coordinator has said
that the partition is part of it (KIP-890): else a zombie could leave an offset pending that no marker ever
settles. A marker that comes while a commit waits refuses it. Later commits of the same transaction need no
such word. Rules: org.apache.kafka OffsetMetadataManager, CoordinatorRuntime, ProducerAppendInfo.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from actors.coordinator.classic import area as classic
from actors.coordinator.consumer import area as consumer
from actors.coordinator.consumer.views import MEMBER_EPOCH_VERSION
from actors.coordinator.ground.area import Area
from actors.coordinator.ground.refusals import refusal
from actors.coordinator.ground.state import ShardState
from actors.coordinator.offsets import pending as offsets
from actors.coordinator.offsets import simple as simple_groups
from actors.coordinator.offsets.commits import is_longer
from actors.coordinator.transactions import markers
from actors.coordinator.transactions.coordinator import OFFSETS_TOPIC
from actors.coordinator.transactions.events import TransactionUnverified
from actors.coordinator.transactions.inside import TXN_VERIFIED, InsideResponse, TxnVerifiedRequest
from actors.ground.contract import Record, Reply, Request, Result
from actors.ground.records import (
    NO_EXPIRY,
    PENDING_TXN_OFFSET,
    PRODUCER_MARKER,
    OffsetCommitValue,
    PendingTxnOffsetKey,
)
from actors.protocol import api_keys
from actors.protocol.errors import GroupError
from actors.protocol.messages import NO_ERROR, CommittedPartition, OffsetCommitRequest
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
"""From here on TxnOffsetCommit adds the group's partition to the transaction itself."""
ABORTABLE_VERSION = 4
"""The first version that knows TRANSACTION_ABORTABLE."""

Errors = Mapping[tuple[str, int], ErrorCode]


class UnverifiedCommit(NamedTuple):
    """A commit that waits for its transaction's coordinator."""

    request: Request
    is_overtaken: bool = False
    """A marker of its producer came while it waited."""


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
    """The coordinator's word on a commit that waits for it."""
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
    try:
        markers.check_producer(state, body.producer_id, body.producer_epoch)
        _validate(state, request, now_ms)
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
    """Raise GroupError unless the group takes the commit. Who names no member is not asked who he is, and the
    group's state does not matter (O7)."""
    body: TxnOffsetCommitRequest = request.body
    group_id, generation = body.group_id, body.generation_id
    if group_id in state.dying:
        raise GroupError(ErrorCode.coordinator_load_in_progress)
    names_nobody = body.member_id == "" and body.group_instance_id is None
    if group_id in state.consumer:
        if generation == -1 and names_nobody:
            return
        as_commit = OffsetCommitRequest(
            group_id, generation, body.member_id, body.group_instance_id, -1, body.topics
        )
        # Every version of TxnOffsetCommit may name a member epoch.
        asked = request._replace(body=as_commit, api_version=MEMBER_EPOCH_VERSION)
        try:
            consumer.validate_commit(state, asked, now_ms)
        except GroupError as error:
            is_stale = error.error_code == ErrorCode.stale_member_epoch
            raise GroupError(ErrorCode.illegal_generation if is_stale else error.error_code) from error
    elif group_id in state.classic:
        group = state.classic[group_id]
        if generation < 0 and (names_nobody or classic.is_empty(state, group_id)):
            return
        group.find(body.member_id, body.group_instance_id)
        if generation != group.generation:
            raise GroupError(ErrorCode.illegal_generation)
    elif generation >= 0:
        exists = simple_groups.exists(state, group_id)
        raise GroupError(ErrorCode.unknown_member_id if exists else ErrorCode.illegal_generation)


def _known(state: ShardState, body: TxnOffsetCommitRequest) -> Iterator[tuple[str, CommittedPartition]]:
    """The partitions that exist."""
    topics = state.image.topics
    for topic, partitions in body.topics:
        image = topics.get(topic)
        count = 0 if image is None else image.partition_count
        for partition in partitions:
            if 0 <= partition.partition < count:
                yield topic, partition


def _refused(state: ShardState, request: Request, error: ErrorCode) -> Result:
    answer = refusal(request, error)
    known = {(topic, partition.partition) for topic, partition in _known(state, request.body)}
    errors = error_of_each((answer.topics,))
    return _answered(state, request, {place: errors[place] for place in known})


def _answered(state: ShardState, request: Request, errors: Errors) -> Result:
    body: TxnOffsetCommitRequest = request.body
    unknown = ErrorCode.unknown_topic_or_partition
    topics = tuple(
        (topic, tuple((p.partition, errors.get((topic, p.partition), unknown)) for p in partitions))
        for topic, partitions in body.topics
        if partitions or topic not in state.image.topics  # as Kafka
    )
    return Result((), (Reply(request.token, TxnOffsetCommitResponse(topics), body.group_id),))


# WriteTxnMarkers.


def write_markers(state: ShardState, request: Request, now_ms: int) -> Result:
    """WriteTxnMarkers to this offsets partition: what producers had pending becomes committed, or goes."""
    body: WriteTxnMarkersRequest = request.body
    records: list[Record] = []
    results = []
    for marker in body.markers:
        error = NO_ERROR
        try:
            records += _settled(state, marker, now_ms)
        except GroupError as refused:
            error = refused.error_code
        results.append(TxnMarkerErrors(marker.producer_id, _marked(marker, error)))
    answer = WriteTxnMarkersResponse(tuple(results))
    return Result(records, (Reply(request.token, answer, None),))


def _settled(state: ShardState, marker: TxnMarker, now_ms: int) -> list[Record]:
    markers.check_marker(state, marker)
    for token, waiting in state.unverified.items():
        if waiting.request.body.producer_id == marker.producer_id:
            state.unverified[token] = waiting._replace(is_overtaken=True)
    for group_id, _, _ in state.open_producers.get(marker.producer_id, ()):
        simple_groups.keep(state, group_id)
    settled = offsets.settle(state, marker.producer_id, committed=marker.committed)
    return [*settled, markers.written(state, marker, now_ms)]


def _marked(marker: TxnMarker, error: ErrorCode) -> TopicErrors:
    return same_error(tuple(each for each in marker.topics if each[0] == OFFSETS_TOPIC), error)


def _records(state: ShardState) -> Iterator[Record]:
    yield from offsets.records(state)
    yield from markers.records(state)


AREA = Area(
    handlers={
        api_keys.TXN_OFFSET_COMMIT: commit,
        api_keys.WRITE_TXN_MARKERS: write_markers,
        TXN_VERIFIED: verified,
    },
    appliers={PENDING_TXN_OFFSET: offsets.apply, PRODUCER_MARKER: markers.apply},
    timers={markers.TIMER: markers.expire},
    records=_records,
    on_elected=markers.schedule_all,
)
