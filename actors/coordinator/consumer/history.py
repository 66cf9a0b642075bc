"""The events that tell what a consumer group decided: made once the decision stands, never on the path of a
steady heartbeat.

A rebalance is what follows a bump of the group epoch until every member has what the target gives it; the
next bump ends it too, for members go on to the next target from wherever they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actors.coordinator.consumer.decision import NEW_MEMBER, Decision
from actors.coordinator.consumer.model import group_settings
from actors.coordinator.consumer.model.group import ConsumerGroup
from actors.coordinator.consumer.model.member import NO_STANDING, STABLE, UNREVOKED_PARTITIONS
from actors.coordinator.ground.partitions import EMPTY
from actors.coordinator.ground.state import ShardState
from actors.coordinator.told import rebalances
from actors.coordinator.told.consumer_events import (
    CAUSE_MEMBER_LEFT,
    CAUSE_UNDER_WAY,
    RULES,
    AssignmentComputed,
    EpochBumped,
    MemberReconciled,
)
from actors.coordinator.told.events import (
    CONSUMER,
    MemberExpired,
    MemberFenced,
    MemberJoined,
    MemberLeft,
    RebalanceBegan,
)
from actors.coordinator.told.moves import Moves, consumer_moves
from actors.ground.records import CurrentAssignmentValue, TopicPartitions

_RETURNED = "its instance came back"
_NOBODY: tuple[None, None] = (None, None)


def tell(decision: Decision) -> None:
    """Add the events of a decision that is complete."""
    events: list[Any] = []
    if decision.previous is NEW_MEMBER or decision.replaced_id is not None:
        events += _arrival(decision)
    if decision.cause is not None:
        group, metadata = decision.group, decision.metadata
        why = decision.cause, decision.member_id
        rise = bump(decision.now_ms, group, decision.group_epoch, why, _size(decision))
        events += bumped(decision.state, group, rise, (metadata.client_id, metadata.client_host))
    if decision.computed is not None:
        rebalances.target_stands(decision.state, decision.computed)
    decision.events[:0] = events
    _tell_reconciled(decision)


def _size(decision: Decision) -> int:
    """How many members the group has once the decision stands."""
    return decision.group.size + (decision.stored is None and decision.replaced_id is None)


def _arrival(decision: Decision) -> list[Any]:
    """The events of a new member, or of one that takes a static member's place (M21)."""
    group, metadata = decision.group, decision.metadata
    events: list[Any] = []
    if decision.replaced_id is not None:
        events.append(_gone(MemberFenced, decision.now_ms, group, decision.replaced_id, (_RETURNED, "M21")))
    events.append(
        MemberJoined(
            decision.now_ms,
            group.group_id,
            CONSUMER,
            decision.group_epoch,
            decision.member_id,
            metadata.instance_id,
            metadata.client_id,
            metadata.client_host,
            members=_size(decision),
            client_software=decision.request.client_software,
            session_timeout_ms=_session_timeout_ms(decision),
        )
    )
    return events


def _session_timeout_ms(decision: Decision) -> int:
    """A member of the classic protocol joins with a timeout of its own (G3); others have the group's."""
    if decision.classic is not None:
        return decision.classic[0]
    return group_settings.of(decision.state, decision.group.group_id).session_timeout_ms


def _gone(
    kind: type[MemberLeft | MemberExpired | MemberFenced],
    now_ms: int,
    group: ConsumerGroup,
    member_id: str,
    why: tuple[str, str | None],
) -> Any:
    """The event of a member that is gone. `why`: the cause and its rule."""
    member = group.members[member_id]
    epoch = (member.standing or NO_STANDING).member_epoch
    client = member.instance_id, member.client_id, member.client_host
    named = now_ms, group.group_id, CONSUMER, group.group_epoch, member_id
    return kind(*named, *client, epoch, *why, None, group.size)


def removed(
    state: ShardState, group: ConsumerGroup, gone: Sequence[str], cause: str, now_ms: int
) -> list[Any]:
    """The events of members that go; what they had, the next target gives to others."""
    before = rebalances.of(state, group.group_id, CONSUMER).before
    for member_id in gone:
        before[member_id] = group.members[member_id].target or EMPTY
    kind = MemberLeft if cause == CAUSE_MEMBER_LEFT else MemberExpired
    why = cause, RULES.get(cause)
    events = [_gone(kind, now_ms, group, member_id, why) for member_id in gone]
    return [event._replace(members=group.size - place) for place, event in enumerate(events, start=1)]


def bumped_by_removal(
    state: ShardState, group: ConsumerGroup, gone: Sequence[str], cause: str, now_ms: int
) -> list[Any]:
    """The events of the bump that follows a removal (M19); a group that nobody is left in is Empty at
    once."""
    size = group.size - len(gone)
    rise = bump(now_ms, group, group.group_epoch + 1, (cause, gone[0]), size)
    first = group.members[gone[0]]
    events = bumped(state, group, rise, (first.client_id, first.client_host))
    if size == 0:
        rebalance = rebalances.of(state, group.group_id, CONSUMER)
        moves = consumer_moves(rebalance.before, {}, state.image)
        rebalance.take_moves(None if moves is None else (0, moves))
        events.append(rebalance.ended(now_ms, rise.group_epoch, "Empty", 0))
        rebalances.drop(state, group.group_id, CONSUMER)
    return events


def bump(
    now_ms: int, group: ConsumerGroup, group_epoch: int, why: tuple[str, str], members: int
) -> EpochBumped:
    """The event of a rise to `group_epoch`. `why`: the cause, and whose doing it is, "" for nobody's."""
    cause, member_id = why
    rule = RULES.get(cause)
    return EpochBumped(now_ms, group.group_id, CONSUMER, group_epoch, cause, rule, member_id, members)


def bumped(
    state: ShardState,
    group: ConsumerGroup,
    rise: EpochBumped,
    client: tuple[str, str] | tuple[None, None] = _NOBODY,
) -> list[Any]:
    """The group epoch rises: a rebalance begins, and the one that is under way ends unfinished. `client`: id
    and host of the member that did it."""
    events: list[Any] = [rise]
    old = rebalances.of(state, group.group_id, CONSUMER)
    before = old.before
    if old.began is not None:
        events.append(old.ended(rise.at_ms, group.group_epoch, group.state_name, group.size))
        rebalances.drop(state, group.group_id, CONSUMER)
    new = rebalances.of(state, group.group_id, CONSUMER)
    new.before = before
    new.began = RebalanceBegan(
        rise.at_ms,
        rise.group_id,
        CONSUMER,
        rise.group_epoch,
        rise.cause,
        rise.rule,
        rise.member_id or None,
        client[0],
        client[1],
        None,
        rise.members,
    )
    events.append(new.began)
    return events


def _tell_reconciled(decision: Decision) -> None:
    """Tell if the member has what the target gives it now, and if it is the last one."""
    group, epoch = decision.group, decision.assignment_epoch
    before = None
    if decision.stored is not None:
        before = decision.stored.current
    elif decision.replaced_id is not None:
        before = group.members[decision.replaced_id].current
    if before == decision.current and epoch == group.assignment_epoch:
        return
    rebalance = rebalances.under_way(decision.state, group.group_id)
    has_revoked = before is not None and before.state == UNREVOKED_PARTITIONS
    if has_revoked and decision.current.state != UNREVOKED_PARTITIONS and rebalance is not None:
        rebalance.revoked_ms = decision.now_ms
    if not _is_reconciled(decision.current, epoch):
        return
    same_target = epoch == group.assignment_epoch
    was_reconciled = same_target and _is_reconciled(before, epoch)
    if not was_reconciled:
        event = MemberReconciled(
            decision.now_ms, group.group_id, CONSUMER, decision.group_epoch, decision.member_id, epoch
        )
        decision.events.append(event)
    reconciled = (group.reconciled_count if same_target else 0) + (not was_reconciled)
    is_over = reconciled == _size(decision) and epoch == decision.group_epoch
    if is_over and rebalance is not None and rebalance.began is not None:
        ended = rebalance.ended(
            decision.now_ms, decision.group_epoch, "Stable", reconciled, (decision.member_id,)
        )
        decision.events.append(ended)
        rebalances.drop(decision.state, group.group_id, CONSUMER)


def _is_reconciled(current: CurrentAssignmentValue | None, epoch: int) -> bool:
    return current is not None and current.state == STABLE and current.member_epoch == epoch > 0


def computed(
    state: ShardState,
    group: ConsumerGroup,
    changes: Mapping[str, TopicPartitions],
    event: AssignmentComputed,
) -> AssignmentComputed:
    """The event with what the new target moves. To be called before its records are applied."""
    before = dict(rebalances.of(state, group.group_id, CONSUMER).before)
    for member_id in changes:
        member = group.members.get(member_id)
        if member is not None and member.target is not None:
            before[member_id] = member.target
    found: Moves | tuple[None, None] = consumer_moves(before, changes, state.image) or _NOBODY
    return event._replace(moved=found[0], moves=found[1])


def found_under_way(state: ShardState, group: ConsumerGroup, now_ms: int) -> list[Any]:
    """The event of a rebalance that a new leader finds under way: records tell no more of it."""
    rise = bump(now_ms, group, group.group_epoch, (CAUSE_UNDER_WAY, ""), group.size)
    [_, began] = bumped(state, group, rise)
    return [began]
