"""The state of one group in a sentence, and whom it waits for: for an operator whose group is stuck.

Read from the live group as it is; nothing here is kept or replicated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from actors.coordinator.classic.group import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    ClassicGroup,
    ClassicMember,
)
from actors.coordinator.consumer.group import (
    NOT_JOINED,
    UNRELEASED_PARTITIONS,
    UNREVOKED_PARTITIONS,
    ConsumerGroup,
    ConsumerMember,
)
from actors.coordinator.consumer.target import due_in_ms
from actors.coordinator.ground.partitions import count
from actors.coordinator.ground.state import ShardState
from actors.coordinator.told.events import CLASSIC, CONSUMER
from storage.history.schema import WAITED_FOR_MAX


class Waited(NamedTuple):
    """Somebody whom a group waits for."""

    member_id: str
    group_instance_id: str | None
    client_id: str | None
    """None: a member id that was handed out and not yet used."""
    client_host: str | None
    what: str
    """It has not done yet."""
    deadline_ms: int | None
    """When it is removed if it has not; None: at no certain time."""


class Explanation(NamedTuple):
    """Of one group, now."""

    group_id: str
    group_type: str
    state: str
    group_epoch: int
    """Generation of a classic group."""
    assignment_epoch: int | None
    members: int
    says: str
    """What it is doing, one clause."""
    offsets: int
    """Partitions with a committed offset."""
    since_ms: int | None = None
    """In this state, or in this rebalance; of a stable consumer group since its last target. None: records do
    not tell."""
    cause: str | None = None
    """Why the rebalance under way began, with the next three."""
    rule: str | None = None
    member_id: str | None = None
    reason: str | None = None
    waiting: int = 0
    """For how many members."""
    waited_for: tuple[Waited, ...] = ()
    """Who holds the others up first; at most WAITED_FOR_MAX."""


def explain(state: ShardState, group_id: str, now_ms: int) -> Explanation | None:
    """None if there is no such group."""
    live, group = state.classic.get(group_id), state.consumer.get(group_id)
    offsets = len(state.offsets.get(group_id, ()))
    if live is not None:
        says, waited = _classic(state, live, now_ms)
        found = Explanation(
            group_id, CLASSIC, live.state.value, live.generation, None, len(live.members), says, offsets
        )._replace(since_ms=live.current_state_timestamp_ms)
    elif group is not None:
        says, waited = _consumer(state, group, now_ms)
        epochs = group.group_epoch, group.assignment_epoch
        found = Explanation(group_id, CONSUMER, group.state_name, *epochs, group.size, says, offsets)
        if group.target_metadata is not None and group.size:
            found = found._replace(since_ms=group.target_metadata.assignment_timestamp_ms)
    elif offsets:
        says = "it has committed offsets and no members: its consumers assign themselves, or are gone"
        return Explanation(group_id, CLASSIC, EMPTY.value, 0, None, 0, says, offsets)
    else:
        return None
    rebalance = state.rebalances.get(group_id)
    if rebalance is not None and rebalance.began is not None:
        began = rebalance.began
        found = found._replace(
            cause=began.cause, rule=began.rule, member_id=began.member_id, reason=began.reason
        )
        if live is None:
            found = found._replace(since_ms=began.at_ms)
    return found._replace(waiting=len(waited), waited_for=tuple(waited[:WAITED_FOR_MAX]))


# Classic groups.


def _classic(state: ShardState, group: ClassicGroup, now_ms: int) -> tuple[str, list[Waited]]:
    if group.state is PREPARING_REBALANCE:
        return _preparing(state, group)
    waited = [
        _of_classic(state, group.members[each], "sent SyncGroup", state.timers.deadline_ms(group.sync_key))
        for each in group.pending_syncs
    ]
    if group.state is COMPLETING_REBALANCE:
        waited.sort(key=lambda each: each.member_id != group.leader)
        if waited and waited[0].member_id == group.leader:
            waited[0] = waited[0]._replace(what="sent the assignment, which it makes as the leader")
        return "the leader has the assignment to make, and the others wait for it", waited
    if group.state is EMPTY:
        return "it has no members", _pending(state, group)
    if group.changes:
        left_ms = max((state.timers.deadline_ms(group.join_key) or now_ms) - now_ms, 0)
        changes = "1 join or leave waits" if group.changes == 1 else f"{group.changes} joins and leaves wait"
        return f"{changes} for more, at most {left_ms / 1000:.1f} s, to be taken together", waited
    return "all members have their assignments" if not waited else "some have not fetched theirs", waited


def _preparing(state: ShardState, group: ClassicGroup) -> tuple[str, list[Waited]]:
    if group.initial_delay_ms > 0:
        return "the first members have joined, and more may come (group.initial.rebalance.delay.ms)", []
    waited = [
        _of_classic(state, member, "joined again", group.join_deadline_ms)
        for member in group.members.values()
        if member.join_token is None
    ] + _pending(state, group)
    if not waited:
        return "all have joined, and it waits a moment for more who come", []
    return "not all members have joined again", waited


def _of_classic(state: ShardState, member: ClassicMember, what: str, deadline_ms: int | None) -> Waited:
    """It is out when the phase is over, or its session before that; a static member only by its session."""
    session_ms = state.timers.deadline_ms(member.session_key)
    is_static = member.group_instance_id is not None and what == "joined again"
    ends = [each for each in (None if is_static else deadline_ms, session_ms) if each is not None]
    client = member.group_instance_id, member.client_id, member.client_host
    return Waited(member.member_id, *client, what, min(ends, default=None))


def _pending(state: ShardState, group: ClassicGroup) -> list[Waited]:
    return [
        Waited(member_id, None, None, None, "come back with its member id", state.timers.deadline_ms(key))
        for member_id, key in group.pending_joins.items()
    ]


# Consumer groups.


def _consumer(state: ShardState, group: ConsumerGroup, now_ms: int) -> tuple[str, list[Waited]]:
    name = group.state_name
    if name == "Empty":
        return "it has no members", []
    if name == "Assigning":
        return _assigning(state, group, now_ms), []
    if name == "Stable":
        return "all members have what the target gives them", []
    waited = sorted(_unsettled(state, group), key=lambda each: each[0])
    return "not all members have what the target gives them", [each for _, each in waited]


def _assigning(state: ShardState, group: ConsumerGroup, now_ms: int) -> str:
    if group.group_id in state.assignment_jobs:
        return "an assignor beside the coordinator is computing the target"
    if group.group_id in state.forming:
        return "the first members have joined, and more may come"
    left_ms = due_in_ms(state, group, now_ms)
    if left_ms > 0:
        return f"the next target is due in {left_ms / 1000:.1f} s (group.consumer.assignment.interval.ms)"
    return "the next heartbeat of any member computes the target"


def _unsettled(state: ShardState, group: ConsumerGroup) -> Iterator[tuple[int, Waited]]:
    """Who has not settled, and in which place it comes: who holds others up is first."""
    for member_id, member in group.members.items():
        current = member.current or NOT_JOINED
        if member.metadata is None:
            continue
        session_ms = state.timers.deadline_ms(member.session_key)
        if current.state == UNREVOKED_PARTITIONS:
            number = count(current.pending_revocation)
            ends = [each for each in (state.timers.deadline_ms(member.rebalance_key), session_ms) if each]
            what = f"given up the {number} partitions it has to"
            yield 0, _of_consumer(member_id, member, what, min(ends, default=None))
        elif current.member_epoch < group.assignment_epoch:
            yield 1, _of_consumer(member_id, member, "sent a heartbeat since the target", session_ms)
        elif current.state == UNRELEASED_PARTITIONS:
            yield 2, _of_consumer(member_id, member, "got all its partitions: others still have them", None)


def _of_consumer(member_id: str, member: ConsumerMember, what: str, deadline_ms: int | None) -> Waited:
    metadata = member.metadata
    assert metadata is not None
    client = metadata.instance_id, metadata.client_id, metadata.client_host
    return Waited(member_id, *client, what, deadline_ms)


def states(state: ShardState, group_ids: Iterable[str]) -> dict[str, tuple[str, int]]:
    """State and number of members of those that are there."""
    found = {}
    for group_id in group_ids:
        live, group = state.classic.get(group_id), state.consumer.get(group_id)
        if live is not None:
            found[group_id] = live.state.value, len(live.members)
        elif group is not None:
            found[group_id] = group.state_name, group.size
    return found
