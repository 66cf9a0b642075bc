"""Heartbeats of classic members whose answers may wait for news."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

from kio.schema.errors import ErrorCode

from actors.coordinator.classic.group import SESSION_TIMER, STABLE
from actors.coordinator.classic.state import classic_groups
from actors.coordinator.ground.held import (
    HOLD_SHARE,
    Beats,
    HeldApi,
    Settled,
    Stamp,
    hold_ms_max,
)
from actors.coordinator.ground.state import ShardState
from actors.ground.contract import Request
from actors.ground.records import TopicPartitions
from actors.protocol.messages import HeartbeatRequest

CLASSIC_HOLD_MS_MAX: Final = 2_400
"""The longest hold of a classic member: its client counts from its own sending, and takes a longer silence
for a failure or spins."""

SESSION_PARTS: Final = 4
"""A classic member is held for one of so many parts of its session at most: how long its client waits is only
guessed."""


def settled(
    state: ShardState, request: Request, owned: TopicPartitions | None, now_ms: int
) -> Settled | None:
    """A member is settled if its group is Stable in the member's generation and it has its assignment."""
    body: HeartbeatRequest = request.body
    group = classic_groups(state).get(body.group_id)
    if group is None or group.state is not STABLE or body.generation_id != group.generation:
        return None
    member = group.members.get(body.member_id)
    if member is None or body.member_id in group.pending_syncs:
        return None
    instance_id = body.group_instance_id
    if instance_id is not None and group.static_members.get(instance_id) != body.member_id:
        return None
    return Settled(member.session_timeout_ms, False)


def stamp(state: ShardState, group_id: str, now_ms: int) -> Stamp:
    """State and generation: nothing else unsettles all members of a classic group."""
    group = classic_groups(state)[group_id]
    return Stamp((group.state, group.generation), False)


def owned(request: Request) -> TopicPartitions | None:
    """A classic heartbeat does not say what its member owns."""
    return None


def says_nothing(request: Request, response: Any, beats: Beats) -> bool:
    return bool(response.error_code == ErrorCode.none)


def hold_ms(request: Request, found: Settled, beats: Beats) -> int:
    """The answer is held for a share of the time that the last two heartbeats are apart."""
    session_timeout_ms, spacing_ms = found.session_timeout_ms, beats.spacing_ms
    if spacing_ms < beats.spacing_ms_min:
        return 0
    by_session_ms = min(session_timeout_ms // SESSION_PARTS, hold_ms_max(session_timeout_ms, spacing_ms))
    return min(int(spacing_ms * HOLD_SHARE), CLASSIC_HOLD_MS_MAX, by_session_ms)


def session_key(request: Request) -> Hashable:
    body: HeartbeatRequest = request.body
    return SESSION_TIMER, body.group_id, body.member_id


def repeats(state: ShardState, request: Request, now_ms: int) -> int | None:
    """A settled member's heartbeats are answered alike."""
    found = settled(state, request, None, now_ms)
    return None if found is None else found.session_timeout_ms


HELD = HeldApi(
    settled=settled,
    owned=owned,
    says_nothing=says_nothing,
    hold_ms=hold_ms,
    session_key=session_key,
    repeats=repeats,
)
