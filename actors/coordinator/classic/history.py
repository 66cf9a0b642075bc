"""The events that tell what a classic group decided, and what is kept of a rebalance until it ends."""

from __future__ import annotations

from actors.coordinator.classic.cause import Cause
from actors.coordinator.classic.group import ClassicGroup, ClassicMember, Step
from actors.coordinator.classic.outcome import Outcome
from actors.coordinator.classic.protocols import CONSUMER_PROTOCOL_TYPE
from actors.coordinator.told import rebalances
from actors.coordinator.told.events import (
    CLASSIC,
    MemberExpired,
    MemberFenced,
    MemberLeft,
    RebalanceBegan,
    RebalanceDelayed,
    StateChanged,
)
from actors.coordinator.told.moves import classic_moves

Gone = MemberLeft | MemberExpired | MemberFenced
_Text = str | None
_Because = tuple[int, str, str, int, str, _Text, _Text, _Text, _Text, _Text]
"""The first fields of an event of a rebalance: when, which group, why and whose doing."""

REASON_CHARS_MAX = 255
"""The length to which Kafka cuts a client's reason (C24)."""


def cut(reason: str | None) -> str | None:
    return reason if reason is None else reason[:REASON_CHARS_MAX]


def tell_began(outcome: Outcome, group: ClassicGroup, cause: Cause) -> None:
    """Tell that a rebalance begins, before the group moves. However often it begins anew, it is one
    rebalance, and the first cause is its cause."""
    rebalance = rebalances.of(outcome.state, group.group_id, CLASSIC)
    event = RebalanceBegan(*_because(outcome, group, cause), len(group.members))
    if rebalance.began is None:
        rebalance.began = event
        rebalance.before |= {each.member_id: each.assignment for each in group.members.values()}
    outcome.events.append(event)


def tell_delayed(outcome: Outcome, group: ClassicGroup, cause: Cause, delay_ms: int) -> None:
    """Tell that a rebalance is due and waits for more joins and leaves."""
    delayed = RebalanceDelayed(*_because(outcome, group, cause), delay_ms, len(group.members))
    rebalances.of(outcome.state, group.group_id, CLASSIC).delayed = delayed
    outcome.events.append(delayed)


def _because(outcome: Outcome, group: ClassicGroup, cause: Cause) -> _Because:
    named = outcome.now_ms, group.group_id, CLASSIC, group.generation
    client = _client(outcome, group, cause.member_id)
    return *named, cause.what, cause.rule, cause.member_id, *client, cut(cause.reason)


def _client(outcome: Outcome, group: ClassicGroup, member_id: str | None) -> tuple[_Text, _Text]:
    """Client id and host of a member, even if it is gone by now."""
    member = group.members.get(member_id or "")
    if member is not None:
        return member.client_id, member.client_host
    rebalance = rebalances.of(outcome.state, group.group_id, CLASSIC)
    if rebalance.gone is not None and rebalance.gone[0] == member_id:
        return rebalance.gone[1:]
    delayed = rebalance.delayed
    if delayed is not None and delayed.member_id == member_id:
        return delayed.client_id, delayed.client_host
    return None, None


def move(outcome: Outcome, group: ClassicGroup, step: Step) -> None:
    """Move the group, and tell of it."""
    group.move(step, outcome.now_ms)
    outcome.events.append(
        StateChanged(
            outcome.now_ms,
            group.group_id,
            CLASSIC,
            group.generation,
            group.previous_state.value,
            group.state.value,
            len(group.members),
        )
    )


def note_joined(outcome: Outcome, group: ClassicGroup) -> None:
    """Note who completed the join phase. Tokens rise, so the highest one is of the join that was waited for,
    unless the phase was an initial delay (C10)."""
    rebalance = rebalances.of(outcome.state, group.group_id, CLASSIC)
    rebalance.assigned_ms = outcome.now_ms
    if group.initial_delay_ms > 0:
        return
    joins = ((m.join_token, m.member_id) for m in group.members.values() if m.join_token is not None)
    rebalance.last_joined = max(joins)[1]


def tell_ended(outcome: Outcome, group: ClassicGroup) -> None:
    """Tell that the rebalance is over: the group is Stable or Empty."""
    rebalance = rebalances.of(outcome.state, group.group_id, CLASSIC)
    if group.protocol_type == CONSUMER_PROTOCOL_TYPE:
        after = {member.member_id: member.assignment for member in group.members.values()}
        rebalance.take_moves(classic_moves(rebalance.before, after))
    rebalance.assignor = group.protocol_name
    last = () if rebalance.last_joined is None or not group.members else (rebalance.last_joined,)
    outcome.events.append(
        rebalance.ended(outcome.now_ms, group.generation, group.state.value, len(group.members), last)
    )
    rebalances.drop(outcome.state, group.group_id, CLASSIC)


def tell_gone(
    outcome: Outcome, group: ClassicGroup, gone: type[Gone], cause: Cause, member: ClassicMember | None = None
) -> None:
    """Tell that the one whom `cause` names is in the group no more; without `member` it never was."""
    outcome.events.append(
        gone(
            outcome.now_ms,
            group.group_id,
            CLASSIC,
            group.generation,
            cause.member_id or "",
            None if member is None else member.group_instance_id,
            None if member is None else member.client_id,
            None if member is None else member.client_host,
            None,
            cause.what,
            cause.rule,
            cut(cause.reason),
            len(group.members),
        )
    )
