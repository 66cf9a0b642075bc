"""What a leader keeps of work on offsets that is under way: none of it is in a record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from actors.ground.contract import Request
from actors.ground.records import OffsetCommitValue, OffsetRows, Position

Tally = list[int]
"""[first_ms, last_ms, commits, offsets, regressed]: a list, for its numbers change in place."""
Stop = tuple[str, Position | None]
"""The place where a walk over all offsets stopped: a group's offset or, with None, the end of a group."""


class Sweep:
    """A walk for the offsets of topics that were deleted."""

    __slots__ = ("gone", "walk")

    def __init__(self, walk: Iterator[Stop], gone: frozenset[str]) -> None:
        self.walk = walk
        self.gone = gone
        """Names whose offsets go even if the commit did not know the topic's id."""


class FoundBefore(NamedTuple):
    """What one block of offsets will replace, looked up when the commit was decided. It is true for this very
    block and as long as the topic's blocks are these very ones."""

    block: OffsetRows
    blocks: tuple[OffsetRows, ...]
    place: int
    """Which of the blocks is replaced."""


class Reading(Protocol):
    """A large OffsetFetch under way, which must be told of every offset that changes meanwhile."""

    def note(
        self, group_id: str, position: Position, replaced: OffsetCommitValue | None, is_steady: bool
    ) -> None: ...


class UnverifiedCommit(NamedTuple):
    """A TxnOffsetCommit that waits for the word of its transaction's coordinator (KIP-890)."""

    request: Request
    is_overtaken: bool = False
    """A marker of its producer came while it waited."""
