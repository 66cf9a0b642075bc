"""The log of one partition of an internal topic, as it is made of what a feed gives.

It begins with the state of the partition, in Kafka's records, and goes on with what is committed; when that
has become long, the whole state is put behind it and everything before is dropped, as if Kafka's cleaner had
compacted the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import msgpack
from kio.schema.errors import ErrorCode

from actors.coordinator.kafka_records.codec import KafkaRecord, RecordBytes, RecordError, encode
from actors.coordinator.kafka_records.committed import CommittedRecords, PlainRecord
from actors.coordinator.kafka_records.loadable import Ended, LoadableRecords, Pended, Written
from actors.coordinator.kafka_records.schemas import Schemas
from actors.coordinator.kafka_records.transactions import CommittedTransactions
from actors.ground.limits import (
    OFFSETS_STATE_BYTES_MAX,
    OFFSETS_TAIL_BATCHES_MAX,
    OFFSETS_TAIL_BYTES_MAX,
)
from actors.ground.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from actors.protocol.offsets_feed import Piece
from actors.topics.batch import end_marker, plain_batch, transactional_batch
from actors.topics.errors import LogError
from actors.topics.partition_log import LogSettings, PartitionLog

log = logging.getLogger("groupd.broker")

BATCH_RECORDS_MAX = 500
"""How many records are made at a time, and put into one batch, before other requests are served: a few
milliseconds of work."""
_KEPT_FROM_SHARE = 0.75
"""The share of a tail's bounds behind which it outlives the next state."""
_SETTINGS = LogSettings(message_bytes_max=2**31 - 1, retention_bytes=2**62, retention_ms=None)


class Place(NamedTuple):
    """A partition of an internal topic."""

    topic: str
    partition: int


Appended = Callable[[Place, int], None]
"""A function that is told of a partition and how many bytes were appended to its log; 0: the log is gone, or
another one."""


class Conversion(Protocol):
    """What makes records of an internal topic of what an offsets partition commits."""

    schemas: Schemas
    """The table by which the records are written."""

    @property
    def leader_epoch(self) -> int:
        """Return the leader epoch that batches have from now on, as far as that is not lower than before."""

    def restart(self) -> None:
        """Forget everything, because the whole state comes anew."""

    def to_kafka(self, records: Iterable[PlainRecord]) -> Iterator[Written]:
        """Yield what Kafka would write for a part of the state or of a change."""

    def held_back(self) -> Iterator[Written]:
        """Yield what can be written only at the end of the state or of one change."""

    @property
    def is_given(self) -> bool:
        """Return whether the log may be read at all. It is known at the end of the state or of a change."""

    @property
    def is_sealed(self) -> bool:
        """Return whether nothing is to come that belongs to the log. It is known as `is_given` is."""


CONVERSIONS: dict[str, Callable[[], Conversion]] = {
    OFFSETS_TOPIC: CommittedRecords,
    TRANSACTIONS_TOPIC: CommittedTransactions,
}
"""Internal topic -> what makes its records, in a tier of its own."""


class Bounds:
    """How long a log may become. `actors.ground.limits` says what each bound is for."""

    def __init__(
        self,
        state_bytes_max: int = OFFSETS_STATE_BYTES_MAX,
        tail_bytes_max: int = OFFSETS_TAIL_BYTES_MAX,
        tail_batches_max: int = OFFSETS_TAIL_BATCHES_MAX,
    ) -> None:
        self.state_bytes_max = state_bytes_max
        self.tail_bytes_max = tail_bytes_max
        self.tail_batches_max = tail_batches_max


class MadeLog:
    """The log of one partition as it is made of what a feed gives. With `is_for_brokers` it is one that
    brokers of an upstream cluster can load."""

    def __init__(
        self,
        place: Place,
        appended: Appended,
        clock_ms: Callable[[], int],
        bounds: Bounds,
        *,
        is_for_brokers: bool = False,
    ) -> None:
        self._place = place
        self._tell = appended
        self._clock_ms = clock_ms
        self._bounds = bounds
        is_loaded = is_for_brokers and place.topic == OFFSETS_TOPIC
        self._records: Conversion = LoadableRecords() if is_loaded else CONVERSIONS[place.topic]()
        self._log = PartitionLog(_SETTINGS, 0, lambda _: None)
        self._kept_from = 0
        """What stands from this offset on outlives the next state, so that a reader that is a little behind
        keeps its place: what it has yet to read, deletions among it, comes before that state."""
        self._is_in_state = False
        self._size_bytes = self._batches = 0
        """What was appended of the state under way, or behind the last one."""
        self.is_whole = False
        """Whether a state is there, so that the log can be read."""
        self.is_sealed = False
        """Whether the log has ended: what stands in it is all that there is to be."""

    @property
    def log(self) -> PartitionLog:
        return self._log

    @property
    def is_over(self) -> bool:
        """Return whether this is no log that may be read, whatever comes now."""
        return self.is_whole and not self._is_in_state and not self._records.is_given

    @property
    def is_long(self) -> bool:
        """Return whether the log should go on with a new state."""
        return not self._is_in_state and self._tail_share > 1

    @property
    def _tail_share(self) -> float:
        """Return how much of its bounds the tail has used."""
        return max(
            self._size_bytes / self._bounds.tail_bytes_max, self._batches / self._bounds.tail_batches_max
        )

    def begin_at(self, offset: int) -> None:
        """Begin with nothing, at this offset."""
        self._log = PartitionLog(_SETTINGS, offset, lambda _: None)
        self._records.restart()
        self.is_whole, self._is_in_state, self.is_sealed = False, False, False
        self._size_bytes = self._batches = 0
        self._appended(0)

    async def take(self, kind: int, content: bytes) -> None:
        """Take one piece. Raises LogError if the state is too large to be read."""
        if kind == Piece.COMMITTED:
            await self._append(self._records.to_kafka(_unpacked(content)))
            await self._append(self._records.held_back())
            self.is_sealed = self._records.is_sealed
            return
        if not self._is_in_state:
            self._is_in_state = True
            if self._tail_share < _KEPT_FROM_SHARE:
                self._kept_from = self._log.end_offset
            self._size_bytes = self._batches = 0
            self._records.restart()
        await self._append(self._records.to_kafka(_unpacked(content)))
        if kind == Piece.STATE_END:
            await self._append(self._records.held_back())
            self._log.delete_records(self._kept_from)
            self.is_whole, self._is_in_state = True, False
            self.is_sealed = self._records.is_sealed
            self._size_bytes = self._batches = 0
            self._appended(0)
        elif self._size_bytes > self._bounds.state_bytes_max:
            raise LogError(ErrorCode.kafka_storage_error)

    async def _append(self, records: Iterator[Written]) -> None:
        packed: list[tuple[bytes, bytes | None]] = []
        packed_of: tuple[int, int] | None = None
        for record in records:
            producer = None if type(record) is RecordBytes else _producer_of(record)
            if packed and (producer != packed_of or len(packed) >= BATCH_RECORDS_MAX):
                self._append_batch(packed, packed_of)
                packed.clear()
                await asyncio.sleep(0)
            packed_of = producer
            if type(record) is RecordBytes:
                packed.append(record)
            elif isinstance(record, Ended):
                self._append_marker(record)
            else:
                packed += self._encoded(record)
        if packed:
            self._append_batch(packed, packed_of)

    def _encoded(self, record: KafkaRecord | RecordBytes | Pended) -> Iterator[tuple[bytes, bytes | None]]:
        """Yield key and value of a record; nothing if it cannot be written."""
        try:
            yield encode(record.record if isinstance(record, Pended) else record, self._records.schemas)
        except RecordError as error:
            log.warning("a record is left out of %s: %s", self._place.topic, error)

    def _append_batch(
        self, packed: list[tuple[bytes, bytes | None]], producer: tuple[int, int] | None
    ) -> None:
        now_ms = self._clock_ms()
        if producer is None:
            self._append_own(plain_batch(packed, now_ms), now_ms)
        else:
            self._append_own(transactional_batch(packed, now_ms, producer), now_ms)

    def _append_marker(self, ended: Ended) -> None:
        marker = end_marker(
            ended.producer,
            committed=False,
            coordinator_epoch=ended.coordinator_epoch,
            timestamp_ms=ended.timestamp_ms,
        )
        self._append_own(marker, self._clock_ms())

    def _append_own(self, batch: bytes, now_ms: int) -> None:
        if not self._is_in_state and self._tail_share < _KEPT_FROM_SHARE:
            self._kept_from = self._log.end_offset
        self._log.epochs.assign(self._records.leader_epoch, self._log.end_offset)
        size_bytes = self._log.append_own(batch, now_ms).size_bytes
        self._size_bytes += size_bytes
        self._batches += 1
        self._appended(size_bytes)

    def _appended(self, size_bytes: int) -> None:
        self._tell(self._place, size_bytes)


def _producer_of(record: Written) -> tuple[int, int] | None:
    return record.producer if isinstance(record, Pended | Ended) else None


def _unpacked(content: bytes) -> Iterable[PlainRecord]:
    """Yield the records of an entry or of a part of a state, without the header in front of them."""
    unpacker: Any = msgpack.Unpacker(use_list=False, max_buffer_size=0)
    unpacker.feed(content)
    for key, value in unpacker:
        if not isinstance(key, int):
            yield key, value
