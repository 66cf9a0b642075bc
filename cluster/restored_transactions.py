"""What a backup holds of transactions, found by a first reading of it.

A transaction that was decided to be committed was acknowledged, though its markers were still being written:
the offsets that it had pending are restored as committed ones. Those of all others are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from actors.coordinator.transactions.states import PREPARE_COMMIT
from actors.ground.contract import Record
from actors.ground.records import (
    NO_EXPIRY,
    OFFSET_COMMIT,
    PENDING_TXN_OFFSET,
    PRODUCER_ID_BLOCK,
    TRANSACTION,
    OffsetCommitKey,
    OffsetCommitValue,
    PendingTxnOffsetKey,
    PendingTxnOffsetValue,
    ProducerIdBlockValue,
    TransactionValue,
)


class BackedUpTransactions:
    """The transactions of one backup."""

    def __init__(self) -> None:
        self._committing: set[int] = set()
        """The ids of producers whose transactions were decided to be committed."""
        self._pending: list[tuple[PendingTxnOffsetKey, PendingTxnOffsetValue]] = []
        self._decided: dict[OffsetCommitKey, list[PendingTxnOffsetValue]] = {}
        self.given_out: dict[int, int] = {}
        """Offsets partition of the backup -> how many producer ids it has given out."""
        self.transactional_ids = 0

    def read(self, records: Iterable[tuple[tuple[Any, ...], tuple[Any, ...]]]) -> None:
        """Take records of the backup; `decide` is to follow when it has been read."""
        for key, value in records:
            if key[0] == TRANSACTION:
                transaction = TransactionValue(*value)
                self.transactional_ids += 1
                if transaction.state == PREPARE_COMMIT:
                    self._committing.add(transaction.producer_id)
            elif key[0] == PENDING_TXN_OFFSET:
                self._pending.append((PendingTxnOffsetKey(*key), PendingTxnOffsetValue(*value)))
            elif key[0] == PRODUCER_ID_BLOCK:
                block = ProducerIdBlockValue(*value)
                self.given_out[block.partition] = block.given_out

    def after_decided(self, record: Record) -> Record:
        """Return the record of a committed offset as the transactions leave it that were decided to be
        committed."""
        key = OffsetCommitKey(*record.key)
        committed = self._after(OffsetCommitValue(*(record.value or ())), self._take(key))
        assert committed is not None
        return Record(key, committed)

    def left(self) -> Iterator[Record]:
        """Yield the offsets of decided transactions where none was committed before."""
        for key in list(self._decided):
            committed = self._after(None, self._take(key))
            if committed is not None:
                yield Record(key, committed)

    def decide(self) -> None:
        """Sort out, once everything is read, which pending offsets belong to decided transactions."""
        for key, value in self._pending:
            if key.producer_id in self._committing:
                position = OffsetCommitKey(OFFSET_COMMIT, key.group_id, key.topic, key.partition)
                self._decided.setdefault(position, []).append(value)
        self._pending.clear()

    def _take(self, key: OffsetCommitKey) -> list[PendingTxnOffsetValue]:
        return sorted(self._decided.pop(key, ()), key=lambda pending: pending.sequence)

    @staticmethod
    def _after(
        committed: OffsetCommitValue | None, pendings: Iterable[PendingTxnOffsetValue]
    ) -> OffsetCommitValue | None:
        """Return what becomes of an offset by pending ones, which are sorted by their sequence: each replaces
        the one that it was newer than, or one that was pending before it."""
        is_decided = False
        for pending in pendings:
            version = None if committed is None else (committed.offset, committed.commit_timestamp_ms)
            if is_decided or pending.replaces == version:
                committed, is_decided = _committed(pending), True
        return committed


def _committed(pending: PendingTxnOffsetValue) -> OffsetCommitValue:
    return OffsetCommitValue(
        pending.offset,
        pending.leader_epoch,
        pending.metadata,
        pending.commit_timestamp_ms,
        NO_EXPIRY,
        pending.topic_id,
    )
