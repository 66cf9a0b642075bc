"""Read the epochs that a record of an assignment has for its partitions (KIP-1251)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, repeat
from struct import pack as struct_pack

from actors.coordinator.ground.partitions import PARTITION_BYTES, unpack
from actors.ground.records import CurrentAssignmentValue

Epochs = tuple[int, ...]


def epochs_of(current: CurrentAssignmentValue) -> Iterator[tuple[bytes, bytes, Epochs]]:
    """Yield (topic id, packed partitions, their epochs) for each topic of `assigned`, then of
    `pending_revocation`."""
    pairs = chain(current.assigned, current.pending_revocation)
    stored: Iterable[bytes] = current.assignment_epochs or repeat(pack_epochs((current.member_epoch,)))
    for (topic_id, packed), epochs in zip(pairs, stored, strict=False):
        yield topic_id, packed, _spread(epochs, packed)


def _spread(epochs: bytes, packed: bytes) -> Epochs:
    numbers = unpack(epochs)
    return numbers * (len(packed) // PARTITION_BYTES) if len(numbers) == 1 else numbers


def pack_epochs(epochs: Epochs) -> bytes:
    """Return epochs as a record of an assignment has them."""
    return struct_pack(f">{len(epochs)}i", *epochs)
