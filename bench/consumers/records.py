"""The records that a Fetch brings, as a person wants to see them. PURE."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from actors.topics.batch_contents import contents, whole_batches

COMPRESSED: Final = b"(compressed)"


def values(records: bytes | None, since: int) -> Iterator[tuple[int, bytes | None]]:
    """Yield offset and value of each record from the offset `since` on. Those of a compressed batch are not
    unpacked; a batch that is cut short is left out."""
    for header, batch in whole_batches(records or b""):
        if header.compression:
            offsets = range(header.base_offset, header.last_offset + 1)
            found: Iterator[tuple[int, bytes | None]] = ((offset, COMPRESSED) for offset in offsets)
        else:
            found = ((record.offset, record.value) for record in contents(batch, header))
        yield from (each for each in found if each[0] >= since)
