"""Groups that are deleted and whose offsets are still going: too many tombstones for one piece (O13).

One record decides the deletion, so that a failover in the middle of it ends it: from then on the group is not
there for anybody, and its offsets go in slices. A client that would make a group of that name meanwhile is
told to come again (COORDINATOR_LOAD_IN_PROGRESS), for it must not see what is left of the old one. A backup
made in those seconds knows what was left as offsets of a group without members.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from kio.schema.errors import ErrorCode

from actors.coordinator.ground.area import Area
from actors.coordinator.ground.kind import kinds_of
from actors.coordinator.ground.slices import SLICE_MAX
from actors.coordinator.ground.state import ShardState
from actors.ground.contract import NOTHING, Key, Record, Request, Result, Value
from actors.ground.records import (
    DYING_GROUP,
    OFFSET_COMMIT,
    DyingGroupKey,
    DyingGroupValue,
    OffsetCommitKey,
)
from actors.protocol import api_keys
from actors.protocol.errors import GroupError

TIMER = "dying-groups"
_KEY = (TIMER, "")
_COMMITS = frozenset({api_keys.OFFSET_COMMIT, api_keys.TXN_OFFSET_COMMIT})


def begin(state: ShardState, group_id: str, now_ms: int) -> Record:
    """The record that decides that the group, which has no member, is dying."""
    state.timers.schedule_late(_KEY, now_ms)
    return Record(DyingGroupKey(DYING_GROUP, group_id), DyingGroupValue(now_ms))


def refuse(state: ShardState, request: Request) -> None:
    """Raise GroupError if the request is for a group that is dying. To be asked while there are any."""
    body: Any = request.body
    if request.api_key == api_keys.OFFSET_FETCH:
        is_dying = any(group.group_id in state.dying for group in body.groups)
    else:
        is_dying = _may_make(state, request.api_key) and body.group_id in state.dying
    if is_dying:
        raise GroupError(ErrorCode.coordinator_load_in_progress)


def _may_make(state: ShardState, api_key: int) -> bool:
    """Whether requests of the API may make a group of the id that they name."""
    return api_key in _COMMITS or any(api_key in kind.makes for kind in kinds_of(state))


def _go_on(state: ShardState, key: tuple[object, ...], now_ms: int) -> Result:
    return Result(work=tombstones(state))


def tombstones(state: ShardState) -> Iterator[Result]:
    """Tombstones, a slice at a time, for what dying groups have left when the slice is made."""
    while state.dying:
        group_id = next(iter(state.dying))
        positions = list(islice(state.offsets.get(group_id, ()), SLICE_MAX))
        records = [
            Record(OffsetCommitKey(OFFSET_COMMIT, group_id, topic, partition), None)
            for topic, partition in positions
        ]
        if len(positions) < SLICE_MAX:
            records.append(Record(DyingGroupKey(DYING_GROUP, group_id), None))
        yield Result(records)


def _apply(state: ShardState, key: Key, value: Value | None) -> Value | None:
    replaced = state.dying.pop(key[1], None)
    if isinstance(value, DyingGroupValue):
        state.dying[key[1]] = value
    return replaced


def _records(state: ShardState) -> Iterator[Record]:
    for group_id, value in list(state.dying.items()):
        yield Record(DyingGroupKey(DYING_GROUP, group_id), value)


def _on_elected(state: ShardState, now_ms: int) -> Result:
    if state.dying:
        state.timers.schedule_late(_KEY, now_ms)
    return NOTHING


AREA = Area(appliers={DYING_GROUP: _apply}, timers={TIMER: _go_on}, records=_records, on_elected=_on_elected)
