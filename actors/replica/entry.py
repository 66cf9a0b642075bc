"""An entry of the log while it is not committed."""

from __future__ import annotations

from typing import Any

from actors.ground.contract import Key, Reply, Value


class Entry:
    """What is or will be one uncommitted entry: its bytes, what to undo, whom to answer."""

    __slots__ = ("groups", "index", "packed", "replies", "size_bytes", "undo")

    def __init__(self, header: bytes) -> None:
        self.index = 0
        """The entry's index in the log; 0: it is not there yet."""
        self.packed = [header]
        self.size_bytes = len(header)
        self.undo: list[tuple[Key, Value | None]] = []
        self.replies: list[Reply] = []
        self.groups: set[Any] = set()


def array_header_bytes(length: int) -> int:
    """Return how many bytes the header of a msgpack array of this length has."""
    return 1 if length < 16 else 3 if length < 65_536 else 5
