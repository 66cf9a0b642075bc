"""Which offsets partition a group belongs to, exactly as Kafka computes it (W1)."""

from __future__ import annotations

from array import array
from functools import lru_cache
from sys import byteorder
from typing import Final

GROUPS_CACHED_MAX: Final = 65_536
_NATIVE_UTF16: Final = "utf-16-le" if byteorder == "little" else "utf-16-be"


def java_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 code units, wrapping as a signed 32-bit int."""
    total = 0
    for unit in array("H", text.encode(_NATIVE_UTF16, "surrogatepass")):
        total = (31 * total + unit) & 0xFFFFFFFF
    return total - 0x1_0000_0000 if total >= 0x8000_0000 else total


@lru_cache(maxsize=GROUPS_CACHED_MAX)
def partition_for(group_id: str, partitions: int) -> int:
    """The offsets partition of a group: `Utils.abs(groupId.hashCode()) % partitions` (W1).

    `Utils.abs` is the true absolute value, except that Integer.MIN_VALUE, which has none, becomes 0.
    """
    assert partitions > 0
    code = java_hash(group_id)
    return 0 if code == -0x8000_0000 else abs(code) % partitions
