"""Commits of known layouts that come together: decided and applied in one pass over all of them.

Each is a commit of several partitions of one topic that is known (`known`), whose offsets do not go back as
long as its group still has the very offsets that were there when that was found out (`Column`). Its record
comes packed. The law of known commits is this file's, too: group and member are asked each time. What is not
as expected is left, and decided one by one afterwards.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from actors.coordinator.ground.group_offsets import Blocks, ReplacedOffsets
from actors.coordinator.ground.state import ShardState
from actors.coordinator.offsets import tallies as commit_tallies
from actors.coordinator.offsets.checks import check_commit
from actors.coordinator.offsets.known import DecidedBefore, by_name
from actors.ground.contract import Key, Request, Value, new_tuple
from actors.ground.records import NO_EXPIRY, OFFSET_ROWS
from actors.protocol.errors import GroupError
from actors.protocol.messages import OffsetCommitRequest
from actors.protocol.offset_rows import are_of_the_same


class Column:
    """The offsets of some partitions of a group, as they were committed last."""

    __slots__ = ("blocks", "key", "topic_id")

    def __init__(self, key: Key, topic_id: bytes) -> None:
        self.key = key
        self.topic_id = topic_id
        self.blocks: Blocks | None = None
        """The blocks that the group has as long as nobody else has changed them; None: others."""

    def read(self, state: ShardState, rows: bytes) -> bytes | None:
        """Take what the group has now. Return it, if that are just the partitions of `rows` in a block that
        is the only one of the group's first topic; else None."""
        self.blocks = None
        offsets = state.offsets.get(self.key[1])
        if offsets is None or offsets.topic != self.key[2] or len(offsets.blocks) != 1:
            return None
        found = offsets.blocks[0][0]
        if not are_of_the_same(found, rows):
            return None
        self.blocks = offsets.blocks
        return found


class Steady:
    """Commits that differ in their offsets alone."""

    __slots__ = ("column", "count", "decided", "record_bytes", "request", "rows_at", "rows_end")

    def __init__(self, request: Request, decided: DecidedBefore, column: Column) -> None:
        body: OffsetCommitRequest = request.body
        self.request = request if body.topic_ids is None else by_name(request, body, decided)
        """One of them. Who commits and which partitions is the same in all."""
        self.decided = decided
        self.column = column
        self.count = decided.offsets
        self.record_bytes = self.rows_at = self.rows_end = 0
        """How long the record is, and where its rows stand."""


class Together(NamedTuple):
    """What was decided of several commits."""

    records: list[bytes]
    """The packed records of those that were taken, in their order."""
    undo: list[tuple[Key, Value | None]]
    groups: list[str]
    left: list[int]
    """The others."""


def may_be(decided: DecidedBefore | None, state: ShardState) -> bool:
    """Return whether commits of which this was decided may be decided together."""
    return decided is not None and decided.image is state.image and is_one_block(decided)


def is_one_block(decided: DecidedBefore | None) -> bool:
    """Return whether several partitions of one topic were committed, without metadata."""
    return decided is not None and len(decided.topics) == 1 and decided.topics[0][0][0] == OFFSET_ROWS


def commit_together(state: ShardState, commits: Sequence[Steady], packed: bytes, now_ms: int) -> Together:
    """Decide and apply commits whose records stand in `packed`, one behind the other."""
    records: list[bytes] = []
    undo: list[tuple[Key, Value | None]] = []
    groups: list[str] = []
    left: list[int] = []
    before: Any
    image, kept, offsets_count, at = state.image, state.offsets, 0, 0
    for number, steady in enumerate(commits):
        begin, at = at, at + steady.record_bytes
        column = steady.column
        key, before = column.key, column.blocks
        offsets = kept.get(key[1])
        if offsets is None or offsets.blocks is not before or steady.decided.image is not image:
            left.append(number)
            continue
        try:
            check_commit(state, steady.request, now_ms)
        except GroupError:
            left.append(number)
            continue
        commit_tallies.counted(state, key[1], steady.count, now_ms)
        offsets_count += steady.count
        rows = packed[begin + steady.rows_at : begin + steady.rows_end]
        column.blocks = offsets.blocks = ((rows, now_ms, NO_EXPIRY, column.topic_id),)
        undo.append((key, new_tuple(ReplacedOffsets, (before, (), True))))
        groups.append(key[1])
        records.append(packed[begin:at])
    state.offset_counts["commits"] += offsets_count
    return Together(records if left else [packed], undo, groups, left)
