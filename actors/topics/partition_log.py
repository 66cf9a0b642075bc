"""The log of one partition: whole record batches in memory, of which the oldest is dropped first.

Offsets only rise. Nothing is replicated, nothing is compacted, and what is dropped is gone: this is enough
to run real producers and consumers against the tier, and no message store.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from actors.protocol.transaction_messages import NO_PRODUCER_ID
from actors.topics.batch import (
    BatchHeader,
    check_batch,
    end_marker,
    first_since,
    newest,
    placed,
    read_header,
)
from actors.topics.errors import LogError
from actors.topics.leader_epochs import LeaderEpochs
from actors.topics.producers import Producers
from actors.topics.record_checks import RecordRules, check_records
from actors.topics.transactions import Guard, LogTransactions, Marker

LEADER_EPOCH = 0
"""The leader epoch of every log of the tier's own topics: a log ends with its leader, so none has a second
epoch. What is written for brokers of an upstream cluster has epochs of theirs."""
BATCHES_MAX = 200_000
"""How many batches a log may have, whatever their size: a batch costs about 300 bytes besides its own."""
_COMPACT_AT = 1_024


class LogSettings(NamedTuple):
    """A topic's configs as its logs need them."""

    message_bytes_max: int
    retention_bytes: int
    retention_ms: int | None
    """How long after its append a batch is kept, in ms; None: no limit."""
    records: RecordRules = RecordRules()


class Appended(NamedTuple):
    base_offset: int
    log_append_time_ms: int | None
    size_bytes: int
    """The bytes appended; 0 if the batch had been appended before (an idempotent producer's retry)."""


class FoundOffset(NamedTuple):
    offset: int
    timestamp_ms: int


class ActiveProducer(NamedTuple):
    """An idempotent producer of a partition, as DescribeProducers shows it (KIP-664)."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    """It is -1 if no transaction of the producer has ended here."""
    current_txn_start_offset: int
    """It is -1 if no transaction of the producer is open here."""


class _Batch(NamedTuple):
    last_offset: int
    max_timestamp_ms: int
    appended_ms: int
    data: bytes


class PartitionLog:
    """The log of one partition. `reserve(end_offset)` is called before an append gives out offsets below
    `end_offset`."""

    def __init__(self, settings: LogSettings, start_offset: int, reserve: Callable[[int], None]) -> None:
        self.settings = settings
        self.log_start_offset = start_offset
        self.end_offset = start_offset
        """The next record's offset. It is the high watermark too, because there is one copy."""
        self.size_bytes = 0
        self.epochs = LeaderEpochs(LEADER_EPOCH, start_offset)
        self._reserve = reserve
        self._producers = Producers()
        self.transactions = LogTransactions()
        self._batches: list[_Batch] = []
        self._base_offsets: list[int] = []
        self._first = 0
        """The index of the first batch that is not dropped; those before it are removed now and then."""

    def append(self, records: bytes, now_ms: int, *, guard: Guard | None = None) -> Appended:
        """Append one batch (`batch.one_batch`). `guard` is that of the transaction which it begins here.

        Raises LogError, or what `reserve` raises, having changed nothing.
        """
        header = check_batch(records, self.settings.message_bytes_max)
        check_records(records, header, self.settings.records, now_ms)
        idempotent = header.producer_id != NO_PRODUCER_ID
        if idempotent:
            before = self._producers.repeated(header)
            if before is not None:
                return Appended(before.base_offset, before.timestamp_ms, 0)
            self._check_next(header, guard)
        appended = self._placed(records, header, now_ms)
        if idempotent:
            append_ms = appended.log_append_time_ms
            timestamp_ms = header.max_timestamp_ms if append_ms is None else append_ms
            self._producers.appended(header, appended.base_offset, timestamp_ms)
            if header.is_transactional:
                self.transactions.appended(*header.producer, appended.base_offset)
        self.expire(now_ms)
        return appended

    def _check_next(self, header: BatchHeader, guard: Guard | None) -> None:
        """Check that a batch is the producer's next one, in Kafka's order. Raises LogError."""
        self._check_epoch(header)
        self.transactions.check_verified(header, guard)
        self._producers.check_sequence(header, self.transactions.guard(header.producer_id))
        self.transactions.check_plain(header)

    def _check_epoch(self, header: BatchHeader) -> None:
        self._producers.check_epoch(*header.producer)
        self.transactions.check_epoch(*header.producer)

    def begin_verification(self, header: BatchHeader, *, adds_partition: bool) -> Guard | None:
        """Return the guard of a transactional batch that needs the coordinator's word; None if its
        transaction is open here. `adds_partition`: its request has the partition added.

        Raises LogError with INVALID_PRODUCER_EPOCH for an epoch that is over: no coordinator need be asked.
        """
        self._check_epoch(header)
        if self.transactions.is_open(*header.producer):
            return None
        return self.transactions.begin_verification(header, adds_partition=adds_partition)

    def end_transaction(self, marker: Marker, now_ms: int) -> Appended:
        """Append a COMMIT or ABORT marker, whether or not the producer has an open transaction here.

        Raises LogError for a late one, or what `reserve` raises, having changed nothing.
        """
        self.transactions.check_marker(marker)
        producer = (marker.producer_id, marker.producer_epoch)
        batch = end_marker(producer, marker.committed, marker.coordinator_epoch, now_ms)
        appended = self._placed(batch, read_header(batch), now_ms)
        self._producers.fence(*producer)
        self.transactions.ended(marker, appended.base_offset)
        self._start_at(self.transactions.must_drop_before)
        self.expire(now_ms)
        return appended

    def append_own(self, batch: bytes, now_ms: int) -> Appended:
        """Append a batch that is the coordinator's own, which nobody has to check: it may be one of a
        transaction, or a marker."""
        header = read_header(batch)
        appended = self._placed(batch, header, now_ms)
        if header.is_control:
            # What was committed is there in batches of its own: only what is aborted is ended so.
            self.transactions.ended(Marker(*header.producer, False, 0), appended.base_offset)
        elif header.is_transactional:
            self.transactions.appended(*header.producer, appended.base_offset)
        self.expire(now_ms)
        return appended

    def active_producers(self) -> list[ActiveProducer]:
        """Return the producers that are remembered, the one that was idle for longest first."""
        return [
            ActiveProducer(
                producer_id,
                known.epoch,
                known.last_sequence,
                known.last_timestamp_ms,
                self.transactions.coordinator_epoch(producer_id),
                self.transactions.first_offset(producer_id),
            )
            for producer_id, known in self._producers.items()
        ]

    @property
    def stable_offset(self) -> int:
        """Return the offset up to which consumers of committed records read (KIP-98)."""
        return max(self.transactions.stable_offset(self.end_offset), self.log_start_offset)

    def _placed(self, records: bytes, header: BatchHeader, now_ms: int) -> Appended:
        base_offset = self.end_offset
        last_offset = base_offset + header.last_offset_delta
        self._reserve(last_offset + 1)
        append_time_ms = now_ms if self.settings.records.log_append_time else None
        data = placed(records, base_offset, self.epochs.latest, append_time_ms)
        max_timestamp_ms = header.max_timestamp_ms if append_time_ms is None else append_time_ms
        self._batches.append(_Batch(last_offset, max_timestamp_ms, now_ms, data))
        self._base_offsets.append(base_offset)
        self.end_offset = last_offset + 1
        self.size_bytes += len(data)
        return Appended(base_offset, append_time_ms, len(data))

    def read(self, offset: int, bytes_max: int, *, at_least_one: bool = True) -> bytes:
        """Return whole batches from the one that holds `offset` on, b"" at the log's end, as `read_before`
        does."""
        return self.read_before(self.end_offset, offset, bytes_max, at_least_one=at_least_one)[0]

    def read_before(
        self, before_offset: int, offset: int, bytes_max: int, *, at_least_one: bool = True
    ) -> tuple[bytes, int]:
        """Return whole batches from the one that holds `offset` on, none that reaches `before_offset`, and
        the offset behind them.

        With `at_least_one`, the first batch is given even if it is larger than `bytes_max`, so that a
        consumer never stands still before a big record (KIP-74). Raises LogError with OFFSET_OUT_OF_RANGE.
        """
        if not self.log_start_offset <= offset <= self.end_offset:
            raise LogError(ErrorCode.offset_out_of_range)
        index = self._index(offset)
        pieces: list[bytes] = []
        left = bytes_max
        next_offset = offset
        while index < len(self._batches) and self._batches[index].last_offset < before_offset:
            data = self._batches[index].data
            if len(data) > left and (pieces or not at_least_one):
                break
            pieces.append(data)
            left -= len(data)
            next_offset = self._batches[index].last_offset + 1
            index += 1
        return b"".join(pieces), next_offset

    def offset_for_time(self, timestamp_ms: int) -> FoundOffset | None:
        """Return the first record whose timestamp is at least `timestamp_ms`; in a compressed batch, its
        first."""
        for batch in self._batches[self._first :]:
            if batch.max_timestamp_ms >= timestamp_ms:
                found = first_since(batch.data, timestamp_ms, self.log_start_offset)
                if found is not None:
                    return FoundOffset(*found)
        return None

    def offset_of_max_timestamp(self) -> FoundOffset | None:
        """Return the first of the records with the highest timestamp (KIP-734); in a compressed batch, its
        last."""
        live = self._batches[self._first :]
        if not live:
            return None
        youngest = max(live, key=lambda batch: batch.max_timestamp_ms)
        return FoundOffset(*newest(youngest.data, self.log_start_offset))

    def end_of_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """Return the latest epoch that is not above `leader_epoch`, and the offset where its records end;
        (-1, -1) if that is not known (KIP-320, LeaderEpochFileCache).

        Below the first epoch there is nothing any more: then the answer is where this log starts.
        """
        return self.epochs.end_of(leader_epoch, self.end_offset)

    def delete_records(self, before_offset: int) -> int:
        """Drop what is below `before_offset` (-1: everything), and return the log's new start (KIP-107).

        Raises LogError with OFFSET_OUT_OF_RANGE beyond the log's end.
        """
        target = self.end_offset if before_offset == -1 else before_offset
        if target < 0 or target > self.end_offset:
            raise LogError(ErrorCode.offset_out_of_range)
        self._start_at(target)
        return self.log_start_offset

    def expire(self, now_ms: int) -> None:
        """Drop what the topic's retention no longer keeps.

        Time counts from the append, unlike in Kafka, where it counts from a batch's highest timestamp: what
        was produced with an old timestamp would be gone before anybody had read it.
        """
        retention_ms = self.settings.retention_ms
        while self._first < len(self._batches):
            batch = self._batches[self._first]
            expired = retention_ms is not None and batch.appended_ms + retention_ms < now_ms
            too_many = len(self._batches) - self._first > BATCHES_MAX
            if not (expired or too_many):
                break
            self._start_at(batch.last_offset + 1)
        self.shrink_to(self.settings.retention_bytes)

    def shrink_to(self, size_bytes: int) -> None:
        """Drop the oldest batches until the rest fits; the newest batch always stays."""
        while self.size_bytes > size_bytes and self._first < len(self._batches) - 1:
            self._start_at(self._batches[self._first].last_offset + 1)

    def _start_at(self, offset: int) -> None:
        self.log_start_offset = max(self.log_start_offset, offset)
        while self._first < len(self._batches) and self._batches[self._first].last_offset < offset:
            self.size_bytes -= len(self._batches[self._first].data)
            self._batches[self._first] = _DROPPED
            self._first += 1
        self.transactions.truncate(self.log_start_offset)
        self.epochs.start_at(self.log_start_offset)
        # To remove from a list's front moves all that follows, so it waits until half of the list is gone.
        if self._first >= _COMPACT_AT and self._first * 2 >= len(self._batches):
            del self._batches[: self._first], self._base_offsets[: self._first]
            self._first = 0

    def _index(self, offset: int) -> int:
        """Return the index of the batch that holds `offset`, or of the one behind the last."""
        if offset >= self.end_offset:
            return len(self._batches)
        return max(bisect_right(self._base_offsets, offset) - 1, self._first)


_DROPPED = _Batch(-1, -1, -1, b"")
