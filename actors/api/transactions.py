"""Transactions at the logs: whether a transactional batch may be appended, and the markers that end
transactions.

A transaction's first batch in a partition waits for the word of the transaction's coordinator that the
partition is part of it (KIP-890); `verify` of the context asks it, wherever it is.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from actors.api.context import BrokerContext
from actors.protocol.header import Header
from actors.protocol.messages import NO_ERROR
from actors.protocol.transaction_messages import (
    NO_PRODUCER_ID,
    AddPartitionsToTxnRequest,
    TransactionPartitions,
    TxnMarker,
    TxnMarkerErrors,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
    error_of_each,
)
from actors.topics.batch import BatchHeader, transactional_header
from actors.topics.errors import LogError
from actors.topics.partition_log import PartitionLog
from actors.topics.transactions import Guard, Marker

_NOT_VERIFIED = frozenset(
    {
        ErrorCode.network_exception,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.concurrent_transactions,
    }
)
"""The errors that say that nobody knows yet: producers ask again, as they do when a log has too few
replicas."""
_AS_LOGS_ERROR = {
    ErrorCode.producer_fenced: ErrorCode.invalid_producer_epoch,
    ErrorCode.transaction_abortable: ErrorCode.invalid_txn_state,
    **dict.fromkeys(_NOT_VERIFIED, ErrorCode.not_enough_replicas),
}
_ADDS_PARTITIONS_SINCE = 12
"""The first version of Produce that adds its partitions to the transaction (O18)."""
_ADD_TRIES_MAX = 5
_ADD_RETRY_BACKOFF_S = 0.02
"""The pause before a partition is added again, Kafka's add.partitions.to.txn.retry.backoff.ms."""
_ABORTABLE_SINCE = 11
"""The first version of Produce that knows TRANSACTION_ABORTABLE (KIP-890)."""


class Verdict(NamedTuple):
    """What is known of one partition's batch before it is appended."""

    error_code: ErrorCode = NO_ERROR
    guard: Guard | None = None


_Place = tuple[str, int]
Verdicts = Mapping[tuple[str | None, int], Verdict]


class Piece(NamedTuple):
    """What a Produce request brings for one partition."""

    topic: str | uuid.UUID | None
    """What request and answer call the topic: its name, or in later versions its id."""
    name: str | None
    """The topic's name; None if no topic has that id."""
    partition: int
    records: bytes | None


async def verify_produced(
    context: BrokerContext, header: Header, transactional_id: str | None, pieces: Sequence[Piece]
) -> Verdicts:
    """Return the verdict on each partition of a Produce request whose batch begins a transaction here."""
    transactional = [
        (piece, batch) for piece in pieces if (batch := transactional_header(piece.records)) is not None
    ]
    if transactional and transactional_id is None:
        # Kafka refuses the whole request, for want of an id that could be authorized.
        refused = Verdict(ErrorCode.transactional_id_authorization_failed)
        return {(each.name, each.partition): refused for each in pieces}
    adds = header.api_version >= _ADDS_PARTITIONS_SINCE
    tries = _ADD_TRIES_MAX if adds else 1
    while True:
        begun = _begun(context, transactional, adds=adds)
        errors = dict.fromkeys(begun.guards, ErrorCode.network_exception)
        for producer, topics in begun.producers.items():
            numbers = tuple((topic, tuple(indexes)) for topic, indexes in topics.items())
            asked = TransactionPartitions(transactional_id or "", *producer, numbers, verify_only=not adds)
            errors |= await verified(context, asked)
        tries -= 1
        if not tries or ErrorCode.concurrent_transactions not in errors.values():
            break
        # A producer of the second generation begins its next transaction at once, so the markers of the one
        # before are waited for a little, as Kafka's brokers do. They end what the guards were given for: the
        # next try has new ones.
        await asyncio.sleep(_ADD_RETRY_BACKOFF_S)
    told = {key: _told(error, header.api_version) for key, error in (errors | begun.refused).items()}
    return {key: Verdict(error, begun.guards.get(key)) for key, error in told.items()}


class _Begun(NamedTuple):
    """The verifications that the batches of one Produce request need."""

    guards: dict[_Place, Guard]
    """The guard of each partition whose batch needs the coordinator's word."""
    producers: dict[tuple[int, int], dict[str, list[int]]]
    """These partitions by producer and topic."""
    refused: dict[_Place, ErrorCode]
    """What the logs refuse before the coordinator is asked."""


def _begun(
    context: BrokerContext, transactional: Sequence[tuple[Piece, BatchHeader]], *, adds: bool
) -> _Begun:
    """Begin to verify what needs it. `adds`: the request has its partitions added to the transaction."""
    begun = _Begun({}, {}, {})
    for piece, batch in transactional:
        log = _log_to_verify(context, piece)
        if piece.name is None or log is None or batch.producer_id == NO_PRODUCER_ID:
            continue
        key = (piece.name, piece.partition)
        try:
            guard = log.begin_verification(batch, adds_partition=adds)
        except LogError as error:
            begun.refused[key] = error.error_code
            continue
        if guard is not None:
            begun.guards[key] = guard
            begun.producers.setdefault(batch.producer, {}).setdefault(piece.name, []).append(piece.partition)
    return begun


def _told(error_code: ErrorCode, version: int) -> ErrorCode:
    """Return the coordinator's error as Produce tells it in a version."""
    if error_code == ErrorCode.transaction_abortable and version >= _ABORTABLE_SINCE:
        return error_code
    return _AS_LOGS_ERROR.get(error_code, error_code)


def _log_to_verify(context: BrokerContext, piece: Piece) -> PartitionLog | None:
    """Return the log that a batch is meant for; None if it cannot be appended anyway."""
    if piece.name is None:
        return None
    try:
        topic = context.topic_led_here(piece.name, piece.partition)
    except LogError:
        return None
    if topic.internal:
        return None  # it is refused whatever the coordinator says
    return context.logs.log(topic, piece.partition)


async def verified(
    context: BrokerContext, asked: TransactionPartitions
) -> Mapping[tuple[str, int], ErrorCode]:
    """Return the coordinator's word on each partition."""
    answer = await context.verify(AddPartitionsToTxnRequest((asked,)))
    return error_of_each(result.topics for result in answer.results)


def write_markers(context: BrokerContext, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    """Write markers for topics' partitions that this broker leads."""
    return WriteTxnMarkersResponse(
        tuple(
            TxnMarkerErrors(
                marker.producer_id,
                tuple(
                    (topic, tuple((number, _written(context, marker, topic, number)) for number in numbers))
                    for topic, numbers in marker.topics
                ),
            )
            for marker in request.markers
        )
    )


def _written(context: BrokerContext, marker: TxnMarker, name: str, partition: int) -> ErrorCode:
    try:
        topic = context.topic_led_here(name, partition)
        if topic.internal:
            return NO_ERROR  # Kafka's marker in such a log is nothing that readers see
        end = Marker(
            marker.producer_id,
            marker.producer_epoch,
            marker.committed,
            marker.coordinator_epoch,
            marker.transaction_version,
        )
        context.logs.end_transaction(topic, partition, end, context.clock_ms())
    except LogError as error:
        return error.error_code
    except OSError:
        # The offset could not be reserved on disk, so none was given out.
        return ErrorCode.kafka_storage_error
    return NO_ERROR
