"""What administrators see of transactions: DescribeTransactions and ListTransactions (KIP-664, KIP-994)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kio.schema.errors import ErrorCode

from actors.coordinator.ground import regex
from actors.coordinator.ground.area import Area
from actors.coordinator.ground.slices import begun, sliced
from actors.coordinator.ground.state import ShardState
from actors.coordinator.transactions.states import NAMES
from actors.ground.contract import NOTHING, Reply, Request, Result
from actors.protocol import api_keys
from actors.protocol.messages import NO_ERROR
from actors.protocol.transaction_messages import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
)

_STATES: Final = {name: state for state, name in NAMES.items()}
_NEVER_STORED: Final = frozenset({"Dead", "PrepareEpochFence"})
"""States of Kafka's that no id is ever in here; a filter may name them."""


def describe(state: ShardState, request: Request, now_ms: int) -> Result:
    """DescribeTransactions: each transactional id with its producer, and the partitions of what is open."""
    body: DescribeTransactionsRequest = request.body
    described = tuple(_described(state, transactional_id) for transactional_id in body.transactional_ids)
    only = body.transactional_ids[0] if len(body.transactional_ids) == 1 else None
    return Result((), (Reply(request.token, DescribeTransactionsResponse(described), only),))


def _described(state: ShardState, transactional_id: str) -> DescribedTransaction:
    if not transactional_id:
        return DescribedTransaction(ErrorCode.invalid_request, transactional_id)
    transaction = state.transactions.get(transactional_id)
    if transaction is None:
        return DescribedTransaction(ErrorCode.transactional_id_not_found, transactional_id)
    return DescribedTransaction(
        NO_ERROR,
        transactional_id,
        NAMES[transaction.state],
        transaction.txn_timeout_ms,
        transaction.start_ms,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.partitions,
    )


def list_transactions(state: ShardState, request: Request, now_ms: int) -> Result:
    """ListTransactions: all transactional ids that pass every filter. Raises GroupError for a pattern that is
    none."""
    body: ListTransactionsRequest = request.body
    pattern = body.transactional_id_pattern
    matches = regex.compiled(pattern) if pattern else None
    return begun(_listed(state, request, matches, now_ms), len(state.transactions))


def _listed(
    state: ShardState, request: Request, matches: regex.Matches | None, now_ms: int
) -> Iterator[Result]:
    """List the ids that are there as the work begins, each as it is when the work comes to it."""
    body: ListTransactionsRequest = request.body
    known = tuple(_STATES[name] for name in body.state_filters if name in _STATES)
    unknown = tuple(name for name in body.state_filters if name not in _STATES and name not in _NEVER_STORED)
    wanted = frozenset(known) if body.state_filters else frozenset(NAMES)
    listed: list[ListedTransaction] = []
    for transactional_ids in sliced(dict.fromkeys(state.transactions)):
        for transactional_id in transactional_ids:
            transaction = state.transactions.get(transactional_id)
            if (
                transaction is not None
                and not state.is_away(transactional_id)
                and transaction.state in wanted
                and (not body.producer_id_filters or transaction.producer_id in body.producer_id_filters)
                and (body.duration_filter_ms < 0 or now_ms - transaction.start_ms > body.duration_filter_ms)
                and (matches is None or matches(transactional_id))
            ):
                row = ListedTransaction(transactional_id, transaction.producer_id, NAMES[transaction.state])
                listed.append(row)
        yield NOTHING
    answer = ListTransactionsResponse(NO_ERROR, tuple(listed), unknown)
    yield Result((), (Reply(request.token, answer),))


AREA = Area(
    handlers={api_keys.DESCRIBE_TRANSACTIONS: describe, api_keys.LIST_TRANSACTIONS: list_transactions}
)
