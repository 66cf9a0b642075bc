"""Transactions at the logs: whether a transactional batch may be appended, and the markers that end
transactions.

A transaction's first batch in a partition waits for the word of the transaction's coordinator that the
partition is part of it (KIP-890); `verify` of the context asks it, wherever it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from actors.api.context import BrokerContext
from actors.protocol.messages import NO_ERROR
from actors.protocol.transaction_messages import (
    AddPartitionsToTxnRequest,
    TransactionPartitions,
    TxnMarker,
    TxnMarkerErrors,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
    error_of_each,
)
from actors.topics.batch import transactional_producer
from actors.topics.errors import LogError
from actors.topics.transactions import Marker

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
    # Produce knows this error from version 11 on.
    ErrorCode.transaction_abortable: ErrorCode.invalid_txn_state,
    **dict.fromkeys(_NOT_VERIFIED, ErrorCode.not_enough_replicas),
}


class Verdict(NamedTuple):
    """What is known of one partition's batch before it is appended."""

    error_code: ErrorCode = NO_ERROR
    guard: object = None


Verdicts = Mapping[tuple[str, int], Verdict]


async def verify_produced(context: BrokerContext, entity: Any) -> Verdicts:
    """Return the verdict on each partition of a Produce request whose batch begins a transaction here."""
    guards: dict[tuple[str, int], object] = {}
    producers: dict[tuple[int, int], dict[str, list[int]]] = {}
    for topic in entity.topic_data:
        for partition in topic.partition_data:
            producer = transactional_producer(partition.records)
            if producer is None:
                continue
            if not entity.transactional_id:
                # Kafka refuses the whole request, for want of an id that could be authorized.
                refused = Verdict(ErrorCode.transactional_id_authorization_failed)
                return {(t.name, p.index): refused for t in entity.topic_data for p in t.partition_data}
            guard = _guard(context, topic.name, partition.index, producer)
            if guard is not None:
                guards[topic.name, partition.index] = guard
                producers.setdefault(producer, {}).setdefault(topic.name, []).append(partition.index)
    errors = dict.fromkeys(guards, ErrorCode.network_exception)
    for producer, topics in producers.items():
        numbers = tuple((topic, tuple(indexes)) for topic, indexes in topics.items())
        asked = TransactionPartitions(entity.transactional_id, *producer, numbers, verify_only=True)
        errors |= await verified(context, asked)
    return {
        key: Verdict(_AS_LOGS_ERROR.get(errors[key], errors[key]), guard) for key, guard in guards.items()
    }


def _guard(context: BrokerContext, name: str, partition: int, producer: tuple[int, int]) -> object | None:
    """Return the guard of the producer's transaction; None if the batch needs no word of the coordinator, or
    cannot be appended anyway."""
    try:
        topic = context.topic_led_here(name, partition)
    except LogError:
        return None
    transactions = context.logs.log(topic, partition).transactions
    return None if transactions.is_open(*producer) else transactions.guard(producer[0])


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
        end = Marker(marker.producer_id, marker.producer_epoch, marker.committed, marker.coordinator_epoch)
        context.logs.end_transaction(topic, partition, end, context.clock_ms())
    except LogError as error:
        return error.error_code
    except OSError:
        # The offset could not be reserved on disk, so none was given out.
        return ErrorCode.kafka_storage_error
    return NO_ERROR
