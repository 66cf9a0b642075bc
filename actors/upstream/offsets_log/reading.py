"""Batches of `__consumer_offsets` as a follower fetches them, cut into the pieces that a shard takes. PURE.

A piece is what a shard decides in one go: plain batches behind each other, up to a number of records; or one
batch of a transaction; or one marker. The layout of batches and records is that of org.apache.kafka
DefaultRecordBatch and DefaultRecord.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from actors.coordinator.take_over.inside import NO_PRODUCER, EndMarker, LogPiece, LogRecord
from actors.ground.contract import new_tuple
from actors.ground.limits import TAKEN_RECORDS_MAX
from actors.protocol.transaction_messages import NO_PRODUCER_ID
from actors.topics.batch import HEADER_BYTES, BatchHeader, read_varint
from actors.topics.batch_contents import control_type, whole_batches
from actors.topics.errors import LogError
from actors.upstream.offsets_log.errors import LogUnreadable
from actors.upstream.offsets_log.unpacking import Unpackable, unpack

_CONTROL_VALUE: Final = struct.Struct(">hi")
_ABORT: Final = 0
_COMMIT: Final = 1
_FETCH_AGAIN: Final = "fetch it again; if that does not help, the broker's copy of the log is damaged"


def pieces(fetched: bytes, next_offset: int) -> Iterator[LogPiece]:
    """Yield the pieces of what a Fetch from `next_offset` on has brought. A last batch that is cut short is
    left for the next Fetch. Raises LogUnreadable, behind the pieces before what is wrong."""
    plain, is_whole = _Plain(next_offset), False
    try:
        for header, batch in whole_batches(fetched):
            is_whole = True
            end = header.last_offset + 1
            if end <= plain.next_offset:
                continue  # a broker begins with the batch that has the offset, or with one before
            if header.producer_id == NO_PRODUCER_ID:
                records = [] if header.is_control else _records(header, batch, plain.next_offset)
                yield from plain.add(records, end, header.leader_epoch)
                continue
            yield from plain.rest()
            yield _of_producer(header, batch, plain.next_offset)
            plain = _Plain(end)
    except LogError as error:
        yield from plain.rest()
        raise LogUnreadable(f"{error.message}; {_FETCH_AGAIN}") from None
    except LogUnreadable:
        yield from plain.rest()
        raise
    if fetched and not is_whole:
        text = f"no batch behind offset {next_offset} ends within the {len(fetched)} bytes that were fetched"
        raise LogUnreadable(f"{text}: fetch with a larger partition_max_bytes")
    yield from plain.rest()


class _Plain:
    """Records of plain batches that follow each other."""

    def __init__(self, first_offset: int) -> None:
        self._first_offset = first_offset
        self.next_offset = first_offset
        self._leader_epoch = -1
        self._records: list[LogRecord] = []

    def add(self, records: list[LogRecord], end: int, leader_epoch: int) -> Iterator[LogPiece]:
        """Add the records of one batch, which ends at `end`. Yield the pieces that are full with it. A piece
        is of one leader epoch."""
        if leader_epoch != self._leader_epoch:
            yield from self.rest()
        self._records += records
        self._leader_epoch = leader_epoch
        while len(self._records) > TAKEN_RECORDS_MAX:
            self.next_offset = self._records[TAKEN_RECORDS_MAX].offset
            yield self._cut()
        self.next_offset = end

    def rest(self) -> Iterator[LogPiece]:
        """Yield what is left, if the log has gone on: a compacted batch may have no record."""
        if self.next_offset > self._first_offset:
            yield self._cut()

    def _cut(self) -> LogPiece:
        records = tuple(self._records[:TAKEN_RECORDS_MAX])
        piece = LogPiece(self._first_offset, self.next_offset, self._leader_epoch, records)
        self._first_offset = self.next_offset
        del self._records[:TAKEN_RECORDS_MAX]
        return piece


def _of_producer(header: BatchHeader, batch: bytes, next_offset: int) -> LogPiece:
    records = _records(header, batch, next_offset)
    piece = LogPiece(
        next_offset,
        header.last_offset + 1,
        header.leader_epoch,
        producer=header.producer,
    )
    if not header.is_control:
        return piece._replace(records=tuple(records))
    for _, key, value in records:
        kind = control_type(key)
        if kind in (_ABORT, _COMMIT):
            if value is None or len(value) < _CONTROL_VALUE.size:
                raise _wrong(header, "its marker has no coordinator epoch")
            epoch = _CONTROL_VALUE.unpack_from(value)[1]
            return piece._replace(marker=EndMarker(kind == _COMMIT, epoch, header.max_timestamp_ms))
    return piece._replace(producer=NO_PRODUCER)


def _records(header: BatchHeader, batch: bytes, next_offset: int) -> list[LogRecord]:
    """Return the records of a batch from `next_offset` on. Raises LogUnreadable."""
    codec = header.compression
    if header.record_count == 0:
        return []  # compaction has left the batch for its producer's sake
    try:
        body = unpack(batch[HEADER_BYTES:], codec) if codec else batch[HEADER_BYTES:]
        records = _parsed(body, header.record_count, header.base_offset)
    except Unpackable as error:
        raise _wrong(header, f"its records cannot be read: {error}") from None
    except IndexError:
        text = f"it counts {header.record_count} records, which do not stand in it"
        raise _wrong(header, text) from None
    if header.base_offset < next_offset:
        return [record for record in records if record.offset >= next_offset]
    return records


def _wrong(header: BatchHeader, what: str) -> LogUnreadable:
    return LogUnreadable(f"the batch at offset {header.base_offset} is damaged: {what}; {_FETCH_AGAIN}")


def _parsed(body: bytes, count: int, base_offset: int) -> list[LogRecord]:
    """Return the records; nothing else may stand behind them. Raises IndexError if they do not fit.

    They are what `batch_contents.contents` yields, without times and of bytes that may have been unpacked. A
    log of offsets has a million of them, which are read here in 1.1 us of CPU each and not in 1.9 (2 cores of
    an AMD EPYC that were busy, 27 November 2026).
    """
    records: list[LogRecord] = []
    at = 0
    for _ in range(count):
        length, at = read_varint(body, at)
        end = at + length
        _, at = read_varint(body, at + 1)  # behind the attributes comes the time, which nobody needs
        delta, at = read_varint(body, at)
        key_bytes, at = read_varint(body, at)
        value_at = at + key_bytes
        if key_bytes < 0:
            raise IndexError("a record of a compacted topic has a key")
        key = body[at:value_at]
        value_bytes, at = read_varint(body, value_at)
        value = None if value_bytes < 0 else body[at : at + value_bytes]
        if at + max(value_bytes, 0) >= end or end > len(body):
            raise IndexError("a record ends behind its length")
        records.append(new_tuple(LogRecord, (base_offset + delta, key, value)))
        at = end
    if at != len(body):
        raise IndexError("something stands behind the last record")
    return records
