"""Transactional ids of a backup come back at rest: what was decided holds, what was open is aborted."""

from __future__ import annotations

from actors.coordinator.transactions import metadata
from actors.coordinator.transactions.states import ENDING, ONGOING
from actors.ground.records import TransactionValue


def at_rest(transaction: TransactionValue, now_ms: int) -> TransactionValue:
    """Return the transactional id with its transaction ended, as markers would have ended it.

    The producer of an open transaction is fenced, because part of what it wrote is not in the backup.
    """
    if transaction.state == ONGOING:
        transaction = metadata.fenced(transaction)
    if transaction.state in ENDING:
        transaction = metadata.completed(transaction)
    return transaction._replace(last_update_ms=now_ms)
