"""What groups commit, counted for history: a row for each group and interval, and one for each offset that
goes back.

A commit pays less than a microsecond here: it adds to its group's tally, which the host takes away now and
then (`taken`). To see whether it goes back it must look up what was there; the apply that follows needs the
same, and is left it (`FoundBefore`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any

from actors.coordinator.ground.alone_offsets import offset_of
from actors.coordinator.ground.group_offsets import GroupOffsets
from actors.coordinator.ground.state import ShardState
from actors.coordinator.ground.volatile import FoundBefore, Tally
from actors.coordinator.told.events import CommitRegressed, Commits
from actors.ground.contract import Record, new_tuple
from actors.ground.records import OFFSET_COMMIT, OFFSET_ROWS, OffsetCommitValue, OffsetRows
from actors.protocol.messages import OffsetCommitRequest
from actors.protocol.offset_rows import goes_back, offsets_of, partitions_of

TOLD_MAX = 100
"""How many of the offsets that go back in one commit are told; all are counted."""

_NONE: list[CommitRegressed] = []
"""The empty list for a commit in which no offset goes back, as nearly all are; nobody may change it."""


def counted(state: ShardState, group_id: str, offsets: int, now_ms: int) -> Tally:
    """Count a commit of so many offsets. Return its group's tally."""
    tally = state.commit_tallies.get(group_id)
    if tally is None:
        tally = state.commit_tallies[group_id] = [now_ms, now_ms, 0, 0, 0]
    tally[1] = now_ms
    tally[2] += 1
    tally[3] += offsets
    return tally


def count(
    state: ShardState, body: OffsetCommitRequest, records: Sequence[Record], offsets: int, now_ms: int
) -> list[CommitRegressed]:
    """Count a commit before its records are applied. Returns what it takes back."""
    group_id = body.group_id
    tally = counted(state, group_id, offsets, now_ms)
    committed = state.offsets.get(group_id)
    if committed is None:
        return _NONE
    is_back = False
    value: Any
    for key, value in records:
        if key[0] == OFFSET_ROWS:
            is_back |= _go_back(state, committed, key[2], value[0][0])
        elif key[0] == OFFSET_COMMIT:
            _, _, topic, partition = key
            is_row = topic == committed.topic and committed.alone
            before = offset_of(committed.alone, partition) if is_row else None
            if before is None:
                found = committed.get((topic, partition))
                before = None if found is None else found[0]
            is_back |= before is not None and value[0] < before
        else:
            is_back |= any(_back(committed, key[2], value[0], value[1]))
    if not is_back:
        return _NONE
    back = list(_regressed(committed, body, records, now_ms))
    tally[4] += len(back)
    return back[:TOLD_MAX]


def _go_back(state: ShardState, committed: GroupOffsets, topic: str, block: OffsetRows) -> bool:
    """Whether an offset of a block goes back. What it replaces is left for its apply."""
    rows = block[0]
    blocks = committed.blocks if topic == committed.topic else committed.more.get(topic, ())
    first = rows[:4]
    for place, before in enumerate(blocks):
        if before[0][:4] == first:  # no other block has this partition
            is_back = goes_back(rows, before[0])
            if is_back is None:
                break
            state.found_before = new_tuple(FoundBefore, (block, blocks, place))
            return is_back
    return any(_back(committed, topic, partitions_of(rows), offsets_of(rows)))


def _back(
    committed: GroupOffsets, topic: str, partitions: Sequence[int], offsets: Sequence[int]
) -> Iterator[tuple[int, int, OffsetCommitValue]]:
    """Yield partition, offset and what there was of those that go back."""
    found = committed.many(zip(repeat(topic), partitions))
    for partition, offset in zip(partitions, offsets, strict=True):
        before = found.get((topic, partition))
        if before is not None and offset < before.offset:
            yield partition, offset, before


def _regressed(
    committed: GroupOffsets, body: OffsetCommitRequest, records: Iterable[Record], now_ms: int
) -> Iterator[CommitRegressed]:
    """Yield each offset that goes back. The offsets of a topic that was made anew begin anew."""
    member_id = body.member_id or None
    value: Any
    for key, value in records:
        if key[0] == OFFSET_ROWS:
            rows, _, _, topic_id = value[0][0]
            partitions, offsets = partitions_of(rows), offsets_of(rows)
        else:
            topic_id = value.topic_id
            partitions, offsets = ((key[3],), value[:1]) if key[0] == OFFSET_COMMIT else value[:2]
        for partition, offset, before in _back(committed, key[2], partitions, offsets):
            if before.topic_id == topic_id:
                named = now_ms, body.group_id, member_id, key[2], partition
                yield CommitRegressed(*named, offset, before.offset)


def taken(state: ShardState, now_ms: int) -> Iterator[Commits]:
    """The tallies as events, made as they are asked for; counting begins anew at once."""
    tallies, state.commit_tallies = state.commit_tallies, {}
    return (Commits(now_ms, group_id, *tally) for group_id, tally in tallies.items())
