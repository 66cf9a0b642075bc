"""Batches of records as they are compared: without what a server puts into them, with names for producers."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from crc32c import crc32c

_HEADER = struct.Struct(">qiibIhiqqqhii")
CONTROL = 0x20
_CRC_FROM = 21
_MARKER_TYPE = slice(7, 9)
"""Where a marker's payload says which: behind the record's length, attributes, deltas and the key's length
and version."""


def batches(records: bytes, name: Callable[[int], Any]) -> list[Any]:
    """Every whole batch. Kafka fills up what a client takes with the beginning of the next one, which a
    client throws away; ours sends whole batches alone."""
    found: list[Any] = []
    at = 0
    while len(records) - at >= _HEADER.size and len(records) - at >= 12 + _length(records, at):
        end = at + 12 + _length(records, at)
        found.append(_batch(records[at:end], name))
        at = end
    return found


def _length(records: bytes, at: int) -> int:
    return int.from_bytes(records[at + 8 : at + 12], "big")


def _batch(data: bytes, name: Callable[[int], Any]) -> dict[str, Any]:
    (
        base,
        _,
        epoch,
        magic,
        crc,
        attributes,
        last,
        first_ms,
        last_ms,
        producer,
        producer_epoch,
        sequence,
        count,
    ) = _HEADER.unpack_from(data)
    told = {
        "base_offset": base,
        "leader_epoch": epoch,
        "magic": magic,
        "attributes": attributes,
        "producer": [name(producer), producer_epoch, sequence],
        "last_offset_delta": last,
        "count": count,
        "crc_is_right": crc == crc32c(data[_CRC_FROM:]),
    }
    payload = data[_HEADER.size :]
    if attributes & CONTROL:
        return told | {"marker": int.from_bytes(payload[_MARKER_TYPE], "big")}
    return told | {"times": [first_ms, last_ms], "payload": payload.hex()}
