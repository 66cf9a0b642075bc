"""Offsets that are committed alone are rows in one piece of bytes, which takes no more memory than they are.

That rows and objects say the same whatever is written is in `test_group_offsets`.
"""

from __future__ import annotations

import random
import sys

import pytest

from actors.coordinator.ground import alone_offsets
from actors.coordinator.ground.group_offsets import GroupOffsets
from actors.ground.records import NO_EXPIRY, OffsetCommitValue

ID = b"orders".rjust(16, b"-")
PARTITIONS = 200


def committed(
    offset: int, text: str = "", expire_ms: int = NO_EXPIRY, topic_id: bytes = ID
) -> OffsetCommitValue:
    return OffsetCommitValue(offset, -1, text, 1_000 + offset, expire_ms, topic_id)


def test_partitions_that_are_committed_alone_take_a_row_each() -> None:
    offsets = GroupOffsets()
    partitions = list(range(PARTITIONS))
    random.Random(0).shuffle(partitions)
    for partition in partitions:
        assert offsets.put_one(("t", partition), committed(partition)) is None
    assert not offsets.loose
    assert sys.getsizeof(offsets.alone) < 30 * PARTITIONS
    assert list(offsets) == [("t", partition) for partition in range(PARTITIONS)]
    for partition in partitions:
        assert offsets.put_one(("t", partition), committed(9)) == committed(partition)


@pytest.mark.parametrize(
    "other",
    [
        committed(2, "with metadata"),
        committed(2, expire_ms=77),
        committed(2, expire_ms=2**63),
        committed(2, topic_id=bytes(16)),
        committed(2, topic_id=b""),
    ],
    ids=["metadata", "expires", "expires too late for a row", "other topic", "no topic id"],
)
def test_what_does_not_fit_is_an_object_beside_the_rows_until_it_fits(other: OffsetCommitValue) -> None:
    offsets = GroupOffsets()
    offsets.put_one(("t", 0), committed(1))
    offsets.put_one(("t", 1), committed(1))
    assert offsets.put_one(("t", 1), other) == committed(1)
    assert (offsets["t", 1], list(offsets.loose)) == (other, [("t", 1)])
    assert offsets.put_one(("t", 1), committed(3)) == other
    assert (dict(offsets.items()), offsets.loose) == ({("t", 0): committed(1), ("t", 1): committed(3)}, {})


def test_rows_of_many_partitions_are_written_in_place() -> None:
    offsets = GroupOffsets()
    for partition in range(alone_offsets.IN_PLACE_FROM + 1):
        offsets.put_one(("t", partition), committed(1))
    kept = offsets.alone
    offsets.put_one(("t", 7), committed(2))
    assert offsets.alone is kept
    assert offsets["t", 7] == committed(2)
    for partition in range(alone_offsets.IN_PLACE_FROM + 1):
        offsets.remove(("t", partition))
    assert not offsets
    assert offsets.topic is None


def test_they_are_fetched_as_rows_also_beside_blocks() -> None:
    offsets = GroupOffsets()
    for partition in (0, 2, 5):
        offsets.put_one(("t", partition), committed(partition))
    offsets.put_one(("u", 0), committed(1))
    rows = offsets.packed("t", (5, 0), ID)
    assert rows == b"".join(p.to_bytes(4) + p.to_bytes(8) + b"\xff" * 4 for p in (5, 0))
    assert offsets.packed("t", (5, 0), bytes(16)) is None
    assert offsets.packed("t", (5, 1), None) is None
    assert offsets.partitions() == {"t": [0, 2, 5], "u": [0]}
    assert alone_offsets.offset_of(offsets.alone_of("u"), 0) == 1
    assert alone_offsets.offset_of(offsets.alone_of("u"), 1) is None
