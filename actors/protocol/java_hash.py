"""Compute which offsets partition a group belongs to, exactly as Kafka does (W1)."""

from __future__ import annotations

from array import array
from functools import lru_cache
from sys import byteorder
from typing import Final

GROUPS_CACHED_MAX: Final = 65_536
LONG: Final = 256
"""The length from which a group id is long, in characters. It may have 32,767: to cache many such ids would
take gigabytes."""
LONG_CACHED_CHARACTERS_MAX: Final = 4 * 1024 * 1024
"""How many characters all long group ids in the cache may have together. Beyond it everything is forgotten:
looking at each id's length before the cache does would cost every request a call."""
_NATIVE_UTF16: Final = "utf-16-le" if byteorder == "little" else "utf-16-be"


def java_hash(text: str) -> int:
    """Return Java's `String.hashCode`: over UTF-16 code units, wrapping as a signed 32-bit int."""
    total = 0
    for unit in array("H", text.encode(_NATIVE_UTF16, "surrogatepass")):
        total = (31 * total + unit) & 0xFFFFFFFF
    return total - 0x1_0000_0000 if total >= 0x8000_0000 else total


class _LongGroupIds:
    """How many characters the long group ids have that are in the cache."""

    characters = 0


_long_cached = _LongGroupIds()


@lru_cache(maxsize=GROUPS_CACHED_MAX)
def partition_for(group_id: str, partitions: int) -> int:
    """Return the offsets partition of a group: `Utils.abs(groupId.hashCode()) % partitions` (W1).

    `Utils.abs` is the true absolute value, except that Integer.MIN_VALUE, which has none, becomes 0.
    """
    if len(group_id) > LONG:
        _make_room(len(group_id))
    assert partitions > 0
    code = java_hash(group_id)
    return 0 if code == -0x8000_0000 else abs(code) % partitions


def _make_room(characters: int) -> None:
    """Make room in the cache for a long group id."""
    if _long_cached.characters + characters > LONG_CACHED_CHARACTERS_MAX:
        partition_for.cache_clear()
        _long_cached.characters = 0
    _long_cached.characters += characters
