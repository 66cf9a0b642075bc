"""What a piece of Kafka's log means here: records of ours, decided from the state before it.

Kafka's coordinators read their log with the same rules when they are elected (org.apache.kafka
CoordinatorLoaderImpl, GroupCoordinatorShard.replay): the later record of a key counts, offsets of a
transaction wait for its marker, and what a release does not know is passed over. Passed over is not enough
here, because the brokers may want their log back: what has no meaning for this tier is kept as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from kio.schema.errors import ErrorCode

from actors.coordinator.ground.kind import WholeRecord, kinds_of
from actors.coordinator.ground.state import ShardState
from actors.coordinator.kafka_records.codec import RecordError, decode, kind_of
from actors.coordinator.kafka_records.convert import deleted_by, from_kafka
from actors.coordinator.kafka_records.schemas import SCHEMAS
from actors.coordinator.offsets import pending
from actors.coordinator.take_over.inside import NO_PRODUCER, EndMarker, LogPiece, LogRecord
from actors.coordinator.take_over.offset_records import take_commits
from actors.ground.contract import Record
from actors.ground.limits import FOREIGN_BYTES_MAX
from actors.ground.records import (
    FOREIGN_RECORD,
    PENDING_TXN_OFFSET,
    PRODUCER_MARKER,
    ForeignRecordKey,
    ForeignRecordValue,
    OffsetCommitKey,
    OffsetCommitValue,
    PendingTxnOffsetKey,
    ProducerMarkerKey,
    ProducerMarkerValue,
)
from actors.protocol.errors import GroupError

_TYPES_NAMED_MAX: Final = 8


def fold(state: ShardState, piece: LogPiece) -> list[Record]:
    """Return what a piece changes. Raises GroupError with INVALID_RECORD for what cannot be taken."""
    if piece.marker is not None:
        return _ended(state, piece.producer, piece.marker)
    return _Piece(state, piece).records()


def _ended(state: ShardState, producer: tuple[int, int], marker: EndMarker) -> list[Record]:
    """A marker ends what its producer has pending, whatever the epoch of that (KIP-890: a marker of the
    second generation has the next epoch). Later ones are compared with it."""
    producer_id, producer_epoch = producer
    key = ProducerMarkerKey(PRODUCER_MARKER, "", producer_id)
    value = ProducerMarkerValue(producer_epoch, marker.coordinator_epoch, marker.timestamp_ms)
    ended = pending.end_transaction(state, producer_id, committed=marker.committed)
    return [Record(key, value), *ended]


class _Piece:
    """The records of one piece on their way to ours."""

    def __init__(self, state: ShardState, piece: LogPiece) -> None:
        self._state = state
        self._piece = piece
        self._out: list[Record] = []
        self._whole_records = _whole_records(state)
        self._wholes: dict[tuple[int, str], list[Record]] = {}
        """Groups that are one record at Kafka -> their records here, as the last record has them."""
        self._foreign_bytes = 0

    def records(self) -> list[Record]:
        """Return what the piece changes, as `fold` does."""
        records, at = self._piece.records, 0
        is_plain = self._piece.producer == NO_PRODUCER
        try:
            while at < len(records):
                if is_plain:
                    at = take_commits(records, at, self._out)
                if at < len(records):
                    self._take(records[at])
                    at += 1
        except RecordError as error:
            text = f"the record at offset {records[at].offset} of Kafka's log cannot be taken over: {error}"
            raise GroupError(ErrorCode.invalid_record, text) from None
        for (kind, group_id), shall in self._wholes.items():
            self._out += self._whole_records[kind](self._state, group_id, shall)
        return self._out

    def _take(self, record: LogRecord) -> None:
        kind = kind_of(record.key)
        if kind not in SCHEMAS:
            self._keep(record)
            return
        decoded = decode(record.key, record.value)
        if decoded.value is None:
            self._delete(deleted_by(decoded))
            return
        taken = from_kafka(decoded)
        if kind in self._whole_records:
            self._wholes[kind, taken[0].key[1]] = taken
        elif self._piece.producer != NO_PRODUCER:
            self._out += map(self._pended, taken)
        else:
            self._out += taken

    def _pended(self, record: Record) -> Record:
        """Offsets that come with a producer's id become the committed ones with its marker."""
        committed = record.value
        if not isinstance(committed, OffsetCommitValue):
            return record
        producer_id, producer_epoch = self._piece.producer
        _, group_id, topic, partition = record.key
        key = PendingTxnOffsetKey(PENDING_TXN_OFFSET, group_id, topic, partition, producer_id)
        return pending.pend(self._state, key, producer_epoch, committed)

    def _delete(self, key: tuple[object, ...] | None) -> None:
        if key is None:
            return
        if key[0] in self._whole_records:
            assert isinstance(key[0], int)
            self._wholes[key[0], str(key[1])] = []
            return
        self._out.append(Record(key, None))
        if isinstance(key, OffsetCommitKey):
            # What is pending goes with it (O8), as in OffsetMetadataManager.replay.
            self._out += pending.drop_pending(self._state, *key[1:])

    def _keep(self, record: LogRecord) -> None:
        key = ForeignRecordKey(FOREIGN_RECORD, "", record.key)
        if record.value is None:
            self._out.append(Record(key, None))
            return
        self._foreign_bytes += len(record.key) + len(record.value)
        if self._state.from_kafka.foreign_bytes + self._foreign_bytes > FOREIGN_BYTES_MAX:
            raise RecordError(
                f"{_told(self._state.from_kafka.foreign)} are kept already, and no more than "
                f"{FOREIGN_BYTES_MAX} bytes of records are that this tier does not know; delete groups of "
                "those types at Kafka"
            )
        self._out.append(Record(key, ForeignRecordValue(record.value)))


def _whole_records(state: ShardState) -> Mapping[int, WholeRecord]:
    return {record: each for kind in kinds_of(state) for record, each in kind.whole_records.items()}


def foreign_types(keys: Iterable[bytes]) -> Counter[int]:
    """Return how many records are kept that mean nothing here, by Kafka's type."""
    return Counter(map(kind_of, keys))


def _told(keys: Iterable[bytes]) -> str:
    most = foreign_types(keys).most_common(_TYPES_NAMED_MAX)
    return ", ".join(f"{count} records of type {kind}" for kind, count in most)
