"""What groups commit, counted for history: a row for each group and interval, and one for each offset that
goes back.

A commit pays less than a microsecond here: it adds to its group's tally, which the host takes away now and
then (`taken`). To see whether it goes back it must look up what was there; the apply that follows needs the
same, and is left it (`offsets.store.leave_for_apply`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter, lt
from typing import Any

from actors.coordinator.ground.state import ShardState
from actors.coordinator.offsets import store as offsets_store
from actors.coordinator.told.events import CommitRegressed, Commits
from actors.ground.contract import Record
from actors.ground.records import OFFSET_COMMIT, OffsetCommitValue, Position
from actors.protocol.messages import OffsetCommitRequest

TOLD_MAX = 100
"""How many of the offsets that go back in one commit are told; all are counted."""

_NONE: list[CommitRegressed] = []
"""The empty list for a commit in which no offset goes back, as nearly all are; nobody may change it."""
_Committed = Mapping[Position, OffsetCommitValue]
_offset_of: Any = itemgetter(OffsetCommitValue._fields.index("offset"))


def count(
    state: ShardState, body: OffsetCommitRequest, records: Sequence[Record], offsets: int, now_ms: int
) -> list[CommitRegressed]:
    """Count a commit before its records are applied. Returns what it takes back."""
    group_id = body.group_id
    tally = state.commit_tallies.get(group_id)
    if tally is None:
        tally = state.commit_tallies[group_id] = [now_ms, now_ms, 0, 0, 0]
    tally[1] = now_ms
    tally[2] += 1
    tally[3] += offsets
    committed: Any = state.offsets.get(group_id)
    if committed is None:
        return _NONE
    goes_back = False
    value: Any
    for key, value in records:
        if key[0] == OFFSET_COMMIT:
            before = committed.get((key[2], key[3]))
            goes_back |= before is not None and value[0] < before[0]
        else:
            replaced = offsets_store.found_before(committed, key[2], value[0])
            if len(records) == 1:  # else an earlier one may change what this one finds
                offsets_store.leave_for_apply(state, value, replaced)
            goes_back |= _goes_back(value[1], replaced[1])
    if not goes_back:
        return _NONE
    back = list(_regressed(committed, body, records, now_ms))
    tally[4] += len(back)
    return back[:TOLD_MAX]


def _goes_back(offsets: Sequence[int], before: Sequence[OffsetCommitValue | None]) -> bool:
    try:
        return any(map(lt, offsets, map(_offset_of, before)))
    except TypeError:  # there was none yet
        both = zip(offsets, before, strict=True)
        return any(value is not None and offset < value.offset for offset, value in both)


def _regressed(
    committed: _Committed, body: OffsetCommitRequest, records: Iterable[Record], now_ms: int
) -> Iterator[CommitRegressed]:
    """Yield each offset that goes back. The offsets of a topic that was made anew begin anew."""
    member_id = body.member_id or None
    value: Any
    for key, value in records:
        topic, topic_id = key[2], value.topic_id
        is_one = key[0] == OFFSET_COMMIT
        partitions, offsets = ((key[3],), (value.offset,)) if is_one else value[:2]
        for partition, offset in zip(partitions, offsets, strict=True):
            before = committed.get((topic, partition))
            if before is not None and offset < before.offset and before.topic_id == topic_id:
                named = now_ms, body.group_id, member_id, topic, partition
                yield CommitRegressed(*named, offset, before.offset)


def taken(state: ShardState, now_ms: int) -> Iterator[Commits]:
    """The tallies as events, made as they are asked for; counting begins anew at once."""
    tallies, state.commit_tallies = state.commit_tallies, {}
    return (Commits(now_ms, group_id, *tally) for group_id, tally in tallies.items())
