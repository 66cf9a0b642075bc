"""Remember what idempotent producers have appended to one partition: duplicates are recognized, gaps are
refused.

The rules are org.apache.kafka ProducerAppendInfo's and ProducerStateEntry's (W33); `transactions` has the
rest. The state is lost with the broker, as the log is. An unknown producer may then begin with any sequence,
save in a transaction of the second generation: what the log had of that transaction is lost too.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import ItemsView
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from actors.topics.batch import BatchHeader
from actors.topics.errors import LogError
from actors.topics.transactions import Guard

PRODUCERS_MAX = 10_000
"""How many producers of a partition are remembered; the one that was idle for longest is forgotten."""
BATCHES_REMEMBERED = 5
"""How many batches of a producer are remembered: an idempotent producer of Kafka has at most five requests in
flight."""
SEQUENCE_MAX = 2**31 - 1


class AppendedBatch(NamedTuple):
    """A batch that a producer may send again."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    timestamp_ms: int
    """The batch's latest: who sends it again is told it as the time of the append."""


class _Producer:
    __slots__ = ("batches", "epoch", "last_timestamp_ms")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.last_timestamp_ms = -1
        self.batches: deque[AppendedBatch] = deque(maxlen=BATCHES_REMEMBERED)

    @property
    def last_sequence(self) -> int:
        """Return the last record's sequence number; -1 if nothing of this epoch is remembered."""
        return self.batches[-1].last_sequence if self.batches else -1


class Producers:
    """The idempotent producers of one partition."""

    def __init__(self) -> None:
        self._producers: OrderedDict[int, _Producer] = OrderedDict()

    def __len__(self) -> int:
        return len(self._producers)

    def items(self) -> ItemsView[int, _Producer]:
        """Return the producers by their ids, the one that was idle for longest first."""
        return self._producers.items()

    def repeated(self, header: BatchHeader) -> AppendedBatch | None:
        """Return the earlier append that `header` repeats; None if there is none."""
        producer = self._producers.get(header.producer_id)
        if producer is None or header.producer_epoch != producer.epoch:
            return None
        sequences = (header.base_sequence, _add(header.base_sequence, header.last_offset_delta))
        for batch in producer.batches:
            if (batch.first_sequence, batch.last_sequence) == sequences:
                return batch
        return None

    def check_epoch(self, producer_id: int, producer_epoch: int) -> None:
        """Raise LogError with INVALID_PRODUCER_EPOCH if the producer is known with a newer epoch."""
        producer = self._producers.get(producer_id)
        if producer is not None and producer_epoch < producer.epoch:
            raise LogError(
                ErrorCode.invalid_producer_epoch,
                f"Epoch of producer {producer_id} is {producer_epoch}, "
                f"which is smaller than the last seen epoch {producer.epoch}",
            )

    def check_sequence(self, header: BatchHeader, guard: Guard | None) -> None:
        """Check that `header` is the producer's next batch; `guard` is that of its transaction that is being
        verified, if there is one. Raises LogError with OUT_OF_ORDER_SEQUENCE_NUMBER."""
        first = header.base_sequence
        expected = self._next_sequence(header.producer_id, header.producer_epoch)
        if guard is not None and expected is None and guard.adds_partition:
            expected = 0
        if guard is not None and first > guard.lowest_sequence:
            expected = guard.lowest_sequence
        if expected not in (None, first):
            raise LogError(
                ErrorCode.out_of_order_sequence_number,
                f"Out of order sequence number for producer {header.producer_id}: "
                f"{first} (incoming seq. number), {expected} (expected)",
            )

    def _next_sequence(self, producer_id: int, producer_epoch: int) -> int | None:
        """Return the sequence with which the producer's next batch begins; None if that may be any."""
        producer = self._producers.get(producer_id)
        if producer is None:
            return None
        if producer_epoch > producer.epoch or not producer.batches:
            return 0
        return _add(producer.batches[-1].last_sequence, 1)

    def appended(self, header: BatchHeader, base_offset: int, timestamp_ms: int) -> None:
        producer = self._producers.get(header.producer_id)
        if producer is None or producer.epoch != header.producer_epoch:
            producer = self._known_from_now(header.producer_id, header.producer_epoch)
        last = _add(header.base_sequence, header.last_offset_delta)
        producer.last_timestamp_ms = header.max_timestamp_ms
        producer.batches.append(AppendedBatch(header.base_sequence, last, base_offset, timestamp_ms))
        self._producers.move_to_end(header.producer_id)

    def fence(self, producer_id: int, producer_epoch: int) -> None:
        """Refuse the producer's older epochs from now on: a marker of this epoch was written."""
        producer = self._producers.get(producer_id)
        if producer is None or producer.epoch < producer_epoch:
            self._known_from_now(producer_id, producer_epoch)

    def _known_from_now(self, producer_id: int, epoch: int) -> _Producer:
        """Begin with an epoch of a producer. If there are too many producers, the one that was silent for the
        longest time is forgotten."""
        producer = self._producers[producer_id] = _Producer(epoch)
        if len(self._producers) > PRODUCERS_MAX:
            self._producers.popitem(last=False)
        return producer


def _add(sequence: int, increment: int) -> int:
    """Return the sequence number so far ahead. Sequences wrap from 2**31 - 1 to 0."""
    return (sequence + increment) & SEQUENCE_MAX
