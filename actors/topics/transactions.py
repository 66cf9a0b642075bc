"""Keep track of transactions in one partition's log: what is open, what was aborted, up to where all is
decided.

The rules are org.apache.kafka ProducerStateManager's and ProducerAppendInfo's (KIP-98), with KIP-890's guard:
a transaction's first batch waits until the coordinator has said that the partition is part of it, and a
marker that comes meanwhile makes that word worthless.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from actors.protocol.transaction_messages import ends
from actors.topics.batch import BatchHeader
from actors.topics.errors import LogError

ABORTED_MAX = 100_000
"""How many aborted transactions of one log are remembered; beyond it the log begins behind the oldest of
them."""

MARKERS_MAX = 10_000
"""How many producers of one log there are whose last marker is remembered."""
GUARDS_MAX = 10_000
"""How many producers of one log may have a transaction that is being verified. Beyond it the oldest is given
up: its batch is refused, if it still comes. What the coordinator did not confirm would stay for ever."""


class Marker(NamedTuple):
    """The end of a producer's transaction, as its coordinator says it."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    transaction_version: int = 0
    """The version of transactions (KIP-890). In the second a marker has the epoch of the producer's next
    transaction, not of the one that it ends."""

    def ends(self, producer_epoch: int) -> bool:
        """Return whether the marker ends a transaction that has this epoch of its producer (see `ends`)."""
        return ends(self.producer_epoch, self.transaction_version, producer_epoch)


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of the transaction's marker."""


class _Open(NamedTuple):
    producer_epoch: int
    first_offset: int


class Guard:
    """The verification of a producer's transaction, from the first batch that needs the coordinator's word to
    the first one that is appended, or to a marker. Whoever asked for it shows it with the batch."""

    __slots__ = ("adds_partition", "lowest_sequence", "producer_epoch")

    def __init__(self, header: BatchHeader, *, adds_partition: bool) -> None:
        self.producer_epoch = header.producer_epoch
        self.adds_partition = adds_partition
        """Whether the first of its requests had the partition added, as those of the second generation have
        (KIP-890); later requests do not change that."""
        self.lowest_sequence = header.base_sequence
        """The lowest sequence among its batches. A later batch that was verified sooner waits for it."""

    def meets(self, header: BatchHeader) -> None:
        """Note another batch that needs the coordinator's word."""
        if header.producer_epoch > self.producer_epoch:
            self.producer_epoch, self.lowest_sequence = header.producer_epoch, header.base_sequence
        elif header.producer_epoch == self.producer_epoch:
            self.lowest_sequence = min(self.lowest_sequence, header.base_sequence)


class LogTransactions:
    """The transactions of one log. Offsets of a log rise, so both lists are in the order of their offsets."""

    def __init__(self) -> None:
        self._open: dict[int, _Open] = {}
        self._markers: OrderedDict[int, tuple[int, int]] = OrderedDict()
        """Producer id -> producer epoch and coordinator epoch of its last marker; oldest first."""
        self._guards: dict[int, Guard] = {}
        """Producer id -> the guard of its transaction that is being verified; oldest first."""
        self._aborted: list[AbortedTransaction] = []

    def is_open(self, producer_id: int, producer_epoch: int) -> bool:
        opened = self._open.get(producer_id)
        return opened is not None and opened.producer_epoch == producer_epoch

    def first_offset(self, producer_id: int) -> int:
        """Return the first offset of the producer's open transaction; -1 if it has none."""
        opened = self._open.get(producer_id)
        return -1 if opened is None else opened.first_offset

    def coordinator_epoch(self, producer_id: int) -> int:
        """Return the epoch of the coordinator that wrote the producer's last marker; -1 if it has none."""
        return self._markers.get(producer_id, (-1, -1))[1]

    def guard(self, producer_id: int) -> Guard | None:
        """Return the guard of the producer's transaction that is being verified, if there is one."""
        return self._guards.get(producer_id)

    def begin_verification(self, header: BatchHeader, *, adds_partition: bool) -> Guard:
        """Return the guard that is to be had before the coordinator is asked, and given with the batch that
        its word allows."""
        guard = self._guards.get(header.producer_id)
        if guard is not None:
            guard.meets(header)
            return guard
        if len(self._guards) >= GUARDS_MAX:
            del self._guards[next(iter(self._guards))]
        guard = self._guards[header.producer_id] = Guard(header, adds_partition=adds_partition)
        return guard

    def check_epoch(self, producer_id: int, producer_epoch: int) -> None:
        """Raise LogError with INVALID_PRODUCER_EPOCH if the producer's last marker has a newer epoch."""
        if producer_epoch < self._markers.get(producer_id, (-1, -1))[0]:
            raise LogError(
                ErrorCode.invalid_producer_epoch,
                f"Epoch {producer_epoch} of producer {producer_id} is older than that of its last marker.",
            )

    def check_verified(self, header: BatchHeader, guard: Guard | None) -> None:
        """Check that a transactional batch is one of the open transaction, or that `guard` stands for the
        coordinator's word on it. Raises LogError with INVALID_TXN_STATE."""
        if not header.is_transactional or self.is_open(*header.producer):
            return
        if guard is None or self._guards.get(header.producer_id) is not guard:
            raise LogError(ErrorCode.invalid_txn_state, "Record was not part of an ongoing transaction")

    def check_plain(self, header: BatchHeader) -> None:
        """Check that a batch in no transaction does not come while one is open. Raises LogError with
        INVALID_TXN_STATE."""
        if not header.is_transactional and self.is_open(*header.producer):
            raise LogError(
                ErrorCode.invalid_txn_state,
                f"Expected transactional write from producer {header.producer_id}",
            )

    def appended(self, producer_id: int, producer_epoch: int, first_offset: int) -> None:
        """Note that a transactional batch is in the log."""
        self._guards.pop(producer_id, None)
        opened = self._open.get(producer_id)
        if opened is None:
            self._open[producer_id] = _Open(producer_epoch, first_offset)
        elif opened.producer_epoch != producer_epoch:
            self._open[producer_id] = opened._replace(producer_epoch=producer_epoch)

    def check_marker(self, marker: Marker) -> None:
        """Check a marker that is to be appended. Raises LogError with INVALID_PRODUCER_EPOCH or
        TRANSACTION_COORDINATOR_FENCED for a late one."""
        if marker.producer_epoch < 0:
            raise LogError(ErrorCode.unknown_server_error)
        known_epoch, known_coordinator = self._markers.get(marker.producer_id, (-1, -1))
        opened = self._open.get(marker.producer_id)
        if marker.producer_epoch < max(known_epoch, -1 if opened is None else opened.producer_epoch):
            raise LogError(ErrorCode.invalid_producer_epoch)
        if opened is not None and not marker.ends(opened.producer_epoch):
            raise LogError(ErrorCode.invalid_producer_epoch)
        if marker.coordinator_epoch < known_coordinator:
            raise LogError(ErrorCode.transaction_coordinator_fenced)

    def ended(self, marker: Marker, offset: int) -> None:
        """Note that the marker is in the log, at `offset`. It makes the coordinator's word on a batch
        worthless, unless that batch is of a later transaction than the marker: the coordinator may have been
        asked when markers were still being written, and have answered when they all were."""
        guard = self._guards.get(marker.producer_id)
        if guard is not None and marker.ends(guard.producer_epoch):
            del self._guards[marker.producer_id]
        self._markers[marker.producer_id] = (marker.producer_epoch, marker.coordinator_epoch)
        self._markers.move_to_end(marker.producer_id)
        if len(self._markers) > MARKERS_MAX:
            self._markers.popitem(last=False)
        opened = self._open.pop(marker.producer_id, None)
        if opened is not None and not marker.committed:
            self._aborted.append(AbortedTransaction(marker.producer_id, opened.first_offset, offset))

    def stable_offset(self, end_offset: int) -> int:
        """Return the last stable offset: everything below it is decided."""
        return min((opened.first_offset for opened in self._open.values()), default=end_offset)

    def aborted(self, from_offset: int, before_offset: int) -> tuple[AbortedTransaction, ...]:
        """Return the aborted transactions that have records from `from_offset` on and below
        `before_offset`."""
        first = bisect_left(self._aborted, from_offset, key=_last_offset)
        return tuple(each for each in self._aborted[first:] if each.first_offset < before_offset)

    def truncate(self, start_offset: int) -> None:
        """Note that the log begins at `start_offset` now."""
        del self._aborted[: bisect_left(self._aborted, start_offset, key=_last_offset)]

    @property
    def must_drop_before(self) -> int:
        """Return where the log is to begin so that not more than ABORTED_MAX are remembered; -1: where it
        does."""
        return -1 if len(self._aborted) <= ABORTED_MAX else self._aborted[0].last_offset + 1


def _last_offset(aborted: AbortedTransaction) -> int:
    return aborted.last_offset
