"""The commands of a split of the offsets partitions, as `actors.metadata.commands` has all others."""

from __future__ import annotations

from typing import NamedTuple


class SplitPartitions(NamedTuple):
    """The order to double the number of offsets partitions. It is refused unless `expected` is the number of
    now, or while an earlier split is not over."""

    expected: int


class NoteMoved(NamedTuple):
    """The news that the child of an offsets partition has all of the groups that move to it."""

    parent: int


class NoteDropped(NamedTuple):
    """The news that an offsets partition has removed what has moved to its child."""

    parent: int


SplitCommand = SplitPartitions | NoteMoved | NoteDropped
SPLIT_COMMANDS = (SplitPartitions, NoteMoved, NoteDropped)
