"""Take records in: Produce, in the versions that name topics and in those that have their ids.

What a request brings for one partition twice is taken once, the last of it, and a topic that stands in it
twice is answered once: Kafka reads a request into a map of partitions.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from actors.api.context import BrokerContext
from actors.api.partition_leaders import current_leader, leaders_endpoints
from actors.api.transactions import Piece, Verdict, Verdicts, verify_produced
from actors.catalog import codec
from actors.protocol.api_keys import PRODUCE
from actors.protocol.errors import HangUp
from actors.protocol.header import Header
from actors.topics.batch import one_batch
from actors.topics.errors import LogError, RecordError, UnknownCodec
from actors.topics.logs import Produced
from actors.topics.partition_log import Appended

TOPIC_IDS_SINCE = 13
"""The first version that has topic ids instead of names (KIP-516)."""
_OF_THE_WHOLE_REQUEST = (ErrorCode.transactional_id_authorization_failed, ErrorCode.unknown_server_error)
_APPEND = Verdict()
_FAILS = Verdict(ErrorCode.unknown_server_error)
_NO_SUCH_ACKS = Verdict(ErrorCode.invalid_required_acks)
_NO_OFFSET = -1
_ZSTD_SINCE = 7
_RECORD_ERRORS_SINCE = 8
_CURRENT_LEADER_SINCE = 10
_WITHOUT_LOG_START = (ErrorCode.corrupt_message, ErrorCode.message_too_large)
"""The refusals of a log that do not tell where it starts, as all others do."""
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


async def produce(context: BrokerContext, header: Header, entity: Any) -> Any | None:
    """Append what a Produce request brings. Return None for acks 0: such a request has no answer. Raises
    HangUp if such a request fails, which its client learns in no other way."""
    version = header.api_version
    pieces = _pieces(context, version, entity)
    if version < _ZSTD_SINCE and any(_has_unknown_codec(context, piece) for piece in pieces):
        verdicts: Verdicts = {(piece.name, piece.partition): _FAILS for piece in pieces}
    else:
        verdicts = await verify_produced(context, header, entity.transactional_id, pieces)
    acks_known = entity.acks in (-1, 0, 1)
    answered: dict[Any, list[Any]] = {}
    for piece in pieces:
        verdict = verdicts.get((piece.name, piece.partition), _APPEND)
        if not acks_known and not verdict.error_code:
            verdict = _NO_SUCH_ACKS
        answered.setdefault(piece.topic, []).append(_produced(context, version, piece, verdict))
    if entity.acks == 0:
        if any(each.error_code for parts in answered.values() for each in parts):
            raise HangUp("a Produce request failed that wants no answer")
        return None
    topic_class = codec.nested(PRODUCE, version, "TopicProduceResponse")
    return codec.build(
        codec.response_class(PRODUCE, version),
        responses=tuple(
            codec.build(topic_class, name=topic, topic_id=topic, partition_responses=tuple(parts))
            for topic, parts in answered.items()
        ),
        **leaders_endpoints(context, PRODUCE, version, answered.values()),
    )


def _has_unknown_codec(context: BrokerContext, piece: Piece) -> bool:
    """Whether a batch of an old version has a codec that there is not: such a one fails the whole request,
    if it comes for a partition that is there and nothing else is wrong with it before (W32)."""
    if piece.name is None:
        return False
    try:
        context.known_topic(piece.name, piece.partition)
        one_batch(piece.records, zstd_allowed=False)
    except UnknownCodec:
        return True
    except LogError:
        return False
    return False


def _pieces(context: BrokerContext, version: int, entity: Any) -> Sequence[Piece]:
    pieces: dict[tuple[Any, int], Piece] = {}
    for topic in entity.topic_data:
        by_id = version >= TOPIC_IDS_SINCE
        told = topic.topic_id if by_id else topic.name
        name = context.topic_name(topic.topic_id) if by_id else topic.name
        for partition in topic.partition_data:
            pieces[told, partition.index] = Piece(told, name, partition.index, partition.records)
    return tuple(pieces.values())


def _produced(context: BrokerContext, version: int, piece: Piece, verdict: Verdict) -> Any:
    """Append what comes for one partition and return its part of the answer."""
    error_code, message, log_start_offset = ErrorCode.none, None, _NO_OFFSET
    appended = Appended(_NO_OFFSET, None, 0)
    record_errors: tuple[RecordError, ...] = ()
    try:
        appended, log_start_offset = _appended(context, version, piece, verdict)
    except _Refused as refused:
        error_code, message = refused.error.error_code, refused.error.message
        record_errors, log_start_offset = refused.error.record_errors, refused.log_start_offset
    except LogError as error:
        error_code, message = error.error_code, error.message
    except OSError as error:
        # The offsets could not be reserved on disk, so none were given out.
        error_code, message = ErrorCode.kafka_storage_error, str(error)
    fields: dict[str, Any] = {}
    if version >= _CURRENT_LEADER_SINCE and error_code == ErrorCode.not_leader_or_follower:
        fields = current_leader(context, PRODUCE, version, (piece.name, piece.partition))
    time_ms = appended.log_append_time_ms
    return codec.build(
        codec.nested(PRODUCE, version, "PartitionProduceResponse"),
        index=piece.partition,
        error_code=error_code,
        base_offset=appended.base_offset,
        log_append_time=None if time_ms is None else _EPOCH + datetime.timedelta(milliseconds=time_ms),
        log_start_offset=log_start_offset,
        record_errors=_named(version, record_errors),
        error_message=message,
        **fields,
    )


def _named(version: int, record_errors: tuple[RecordError, ...]) -> tuple[Any, ...]:
    """Return the answer's entries of the records that are wrong (KIP-467)."""
    if version < _RECORD_ERRORS_SINCE:
        return ()
    error_class = codec.nested(PRODUCE, version, "BatchIndexAndErrorMessage")
    return tuple(
        codec.build(error_class, batch_index=error.batch_index, batch_index_error_message=error.message)
        for error in record_errors
    )


class _Refused(Exception):
    """Raised if a log refuses a batch, whose answer may tell where the log starts."""

    def __init__(self, error: LogError, log_start_offset: int) -> None:
        super().__init__(error)
        self.error = error
        self.log_start_offset = log_start_offset


def _appended(context: BrokerContext, version: int, piece: Piece, verdict: Verdict) -> tuple[Appended, int]:
    """Append one piece, with Kafka's checks in Kafka's order. Return also where the log starts. Raises
    LogError, _Refused, OSError."""
    if verdict.error_code in _OF_THE_WHOLE_REQUEST:
        raise LogError(verdict.error_code)
    if piece.name is None:
        raise LogError(ErrorCode.unknown_topic_id)
    known = context.known_topic(piece.name, piece.partition)
    batch = one_batch(piece.records, zstd_allowed=version >= _ZSTD_SINCE)
    if verdict.error_code:
        raise LogError(verdict.error_code)
    if known.internal:
        raise LogError(ErrorCode.invalid_topic_exception, f"Cannot append to internal topic {piece.name}")
    topic = context.topic_led_here(piece.name, piece.partition)
    log = context.logs.log(topic, piece.partition)
    try:
        appended = context.logs.append(
            topic, piece.partition, Produced(batch, verdict.guard), context.clock_ms()
        )
    except LogError as error:
        hides = error.error_code in _WITHOUT_LOG_START
        raise _Refused(error, _NO_OFFSET if hides else log.log_start_offset) from None
    return appended, log.log_start_offset
