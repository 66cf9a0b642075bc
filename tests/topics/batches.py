"""Record batches as real producers make them: by kafka-python's and aiokafka's own builders."""

from __future__ import annotations

import importlib
import struct
import warnings
from collections.abc import Sequence
from typing import Any

from aiokafka.record.memory_records import MemoryRecords
from crc32c import crc32c

with warnings.catch_warnings():
    # kafka-python reads its schemas by a function that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    MemoryRecordsBuilder: Any = importlib.import_module("kafka.record.memory_records").MemoryRecordsBuilder

GZIP = 1


def batch(
    *values: bytes,
    timestamps: Sequence[int] | None = None,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    compression: int = 0,
    keys: Sequence[bytes | None] | None = None,
) -> bytes:
    """Return a batch of records; record i has timestamp 1000 + i and no key, unless `timestamps` and
    `keys` say otherwise."""
    builder = MemoryRecordsBuilder(
        magic=2,
        compression_type=compression,
        batch_size=2**24,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    for number, value in enumerate(values):
        timestamp = 1_000 + number if timestamps is None else timestamps[number]
        key = None if keys is None else keys[number]
        builder.append(timestamp=timestamp, key=key, value=value, headers=[])
    builder.close()
    return bytes(builder.buffer())


def with_field(records: bytes, at: int, layout: str, value: int) -> bytes:
    """The batch with one header field changed and its CRC made right again."""
    changed = bytearray(records)
    struct.pack_into(layout, changed, at, value)
    struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
    return bytes(changed)


def contents(records: bytes) -> list[tuple[int, int, bytes]]:
    """(offset, timestamp, value) of every record, read and CRC-checked by aiokafka as a consumer does."""
    found: list[tuple[int, int, bytes]] = []
    stored = MemoryRecords(records)
    while stored.has_next():
        each: Any = stored.next_batch()
        assert each.validate_crc()
        found += [(record.offset, record.timestamp, bytes(record.value)) for record in each]
    return found
