"""Offsets and groups that nobody has used for the time of retention (O5, O8, O14, O15).

Every `offsets.retention.check.interval.ms` the leader walks over all groups, in slices. Checks are at whole
multiples of the interval since the epoch, and what they compare are times in records: a failover neither
delays the next check by more than one interval nor prolongs an offset's life.
"""

from __future__ import annotations

from typing import Any

from actors.coordinator.ground import simple_groups
from actors.coordinator.ground.area import Area
from actors.coordinator.ground.group_offsets import NO_OFFSETS
from actors.coordinator.ground.kind import Retention, kind_of
from actors.coordinator.ground.state import ShardState
from actors.coordinator.offsets.delete import delete_group, tombstones
from actors.coordinator.offsets.pending import has_pending, has_pending_of_group
from actors.coordinator.offsets.walk import next_slice, stops
from actors.coordinator.told.events import GroupDeleted, OffsetsExpired, OffsetsExpiring
from actors.ground.contract import NOTHING, Record, Result
from actors.ground.records import NO_EXPIRY, OffsetCommitValue, Position

CHECK_TIMER = "offsets-retention"
_CHECK_KEY = (CHECK_TIMER, "")
MINUTE_MS = 60_000
AHEAD_MS_MAX = 24 * 60 * MINUTE_MS
"""How long ahead an expiry is told: so long, or half of a retention that is shorter than two days."""


ANY_TIME = Retention(None, ())
"""How long the offsets of a group without members are kept: from each offset's commit."""


def _retention(state: ShardState, group_id: str) -> Retention | None:
    """How long the group's offsets are kept (O14); None: none of them may expire now."""
    kind = kind_of(state, group_id)
    return ANY_TIME if kind is None else kind.retention(state, group_id)


def _expires_ms(committed: OffsetCommitValue, retention: Retention, retention_ms: int) -> int:
    if committed.expire_timestamp_ms != NO_EXPIRY:
        return committed.expire_timestamp_ms  # O5
    began_ms = committed.commit_timestamp_ms if retention.began_ms is None else retention.began_ms
    return began_ms + retention_ms


def _is_told_now(state: ShardState, expires_ms: int, now_ms: int) -> bool:
    """Whether this is the first check, one every interval, that comes so close to an expiry."""
    interval_ms = state.settings.offsets_retention_check_interval_ms
    ahead_ms = min(AHEAD_MS_MAX, state.settings.offsets_retention_minutes * MINUTE_MS // 2)
    return 0 <= now_ms - now_ms % interval_ms + ahead_ms - expires_ms < interval_ms


def _check(state: ShardState, key: tuple[object, ...], now_ms: int) -> Result:
    """Do the next slice of a check, the first one if none is under way."""
    if state.retention_walk is None:
        state.retention_walk = stops(state)
    groups, is_last = next_slice(state.retention_walk)
    records: list[Record] = []
    events: list[Any] = []
    for group_id, positions in groups:
        records += _expired(state, group_id, positions, now_ms, events)
    if is_last:
        state.retention_walk = None
        _schedule(state, now_ms)
    else:
        state.timers.schedule_late(_CHECK_KEY, now_ms)
    return Result(records, events=events)


def _expired(
    state: ShardState, group_id: str, positions: list[Position | None], now_ms: int, events: list[Any]
) -> list[Record]:
    """Tombstones for what is over of these offsets of a group; for all of it if nothing is left."""
    retention = _retention(state, group_id)
    if retention is None:
        return []
    retention_ms = state.settings.offsets_retention_minutes * MINUTE_MS
    offsets = state.offsets.get(group_id, NO_OFFSETS)
    found = offsets.many(position for position in positions if position is not None)
    expired = []
    expiring_ms = []
    for position in positions:
        committed = None if position is None else found.get(position)
        if position is None or committed is None or position[0] in retention.subscribed:
            continue
        expires_ms = _expires_ms(committed, retention, retention_ms)
        if now_ms < expires_ms:
            if _is_told_now(state, expires_ms, now_ms):
                expiring_ms.append(expires_ms)
        elif not has_pending(state, group_id, *position):
            expired.append(position)
    if expiring_ms:
        summed = len(expiring_ms), min(expiring_ms), max(expiring_ms)
        events.append(OffsetsExpiring(now_ms, group_id, "O14", *summed))
    state.offset_counts["expirations"] += len(expired)
    if expired:
        events.append(OffsetsExpired(now_ms, group_id, "O14", len(expired)))
    if positions[-1] is None and len(expired) == len(offsets) and _is_over(state, group_id):
        events.append(GroupDeleted(now_ms, group_id, "nobody used it", "O15"))
        return delete_group(state, group_id, now_ms)
    return [record for position in expired for record in tombstones(state, group_id, *position)]


def _is_over(state: ShardState, group_id: str) -> bool:
    """Whether a group without offsets goes too (O15): nobody is in it, or about to be, and no transaction is
    open (O8)."""
    if has_pending_of_group(state, group_id):
        return False
    kind = kind_of(state, group_id)
    return simple_groups.exists(state, group_id) if kind is None else kind.is_unused(state, group_id)


def _schedule(state: ShardState, now_ms: int) -> None:
    interval_ms = state.settings.offsets_retention_check_interval_ms
    state.timers.schedule(_CHECK_KEY, (now_ms // interval_ms + 1) * interval_ms)


def _on_elected(state: ShardState, now_ms: int) -> Result:
    _schedule(state, now_ms)
    return NOTHING


AREA = Area(timers={CHECK_TIMER: _check}, on_elected=_on_elected)
