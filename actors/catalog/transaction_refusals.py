"""What each API of transactions answers when a request as a whole is refused, for the rows of the catalog."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.ground.contract import Request
from actors.protocol import api_keys
from actors.protocol.offset_refusals import refused_commit
from actors.protocol.transaction_messages import (
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnResponse,
    InitProducerIdResponse,
    ListTransactionsResponse,
    TransactionPartitionErrors,
    TxnMarkerErrors,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
    same_error,
)

_FENCED_SINCE = {api_keys.INIT_PRODUCER_ID: 4}
"""The first version that knows PRODUCER_FENCED; 2 for the others."""
_LOADING_SINCE = 2
_NO_LEADER = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)


def for_version(request: Request, error: ErrorCode) -> ErrorCode:
    """PRODUCER_FENCED under the name that older versions have for it."""
    if error == ErrorCode.producer_fenced and request.api_version < _FENCED_SINCE.get(request.api_key, 2):
        return ErrorCode.invalid_producer_epoch
    return error


def init_producer_id(request: Request, error: ErrorCode, message: str | None) -> InitProducerIdResponse:
    return InitProducerIdResponse(for_version(request, error))


def add_partitions(request: Request, error: ErrorCode, message: str | None) -> AddPartitionsToTxnResponse:
    body: AddPartitionsToTxnRequest = request.body
    error = for_version(request, error)
    return AddPartitionsToTxnResponse(
        tuple(
            TransactionPartitionErrors(each.transactional_id, same_error(each.topics, error))
            for each in body.transactions
        )
    )


def add_offsets(request: Request, error: ErrorCode, message: str | None) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(for_version(request, error))


def end(request: Request, error: ErrorCode, message: str | None) -> EndTxnResponse:
    return EndTxnResponse(for_version(request, error))


def offset_commit(request: Request, error: ErrorCode, message: str | None) -> TxnOffsetCommitResponse:
    body: TxnOffsetCommitRequest = request.body
    if error == ErrorCode.coordinator_load_in_progress and request.api_version < _LOADING_SINCE:
        error = ErrorCode.coordinator_not_available  # W8: old clients know no other retriable code
    return TxnOffsetCommitResponse(refused_commit(body.topics, error), body.topic_ids)


def write_markers(request: Request, error: ErrorCode, message: str | None) -> WriteTxnMarkersResponse:
    # Coordinators that ask for markers know logs, which have leaders and no coordinators.
    body: WriteTxnMarkersRequest = request.body
    error = ErrorCode.not_leader_or_follower if error in _NO_LEADER else error
    return WriteTxnMarkersResponse(
        tuple(
            TxnMarkerErrors(marker.producer_id, same_error(marker.topics, error)) for marker in body.markers
        )
    )


def describe(request: Request, error: ErrorCode, message: str | None) -> DescribeTransactionsResponse:
    body: DescribeTransactionsRequest = request.body
    return DescribeTransactionsResponse(
        tuple(DescribedTransaction(error, transactional_id) for transactional_id in body.transactional_ids)
    )


def list_transactions(request: Request, error: ErrorCode, message: str | None) -> ListTransactionsResponse:
    return ListTransactionsResponse(error)
