"""What a consumer group is doing, in a sentence, and whom it waits for."""

from __future__ import annotations

from collections.abc import Iterator

from actors.coordinator.consumer.client_assignors.job import Computation
from actors.coordinator.consumer.model.group import NOT_JOINED, ConsumerGroup
from actors.coordinator.consumer.model.member import (
    UNRELEASED_PARTITIONS,
    UNREVOKED_PARTITIONS,
    ConsumerMember,
    rebalance_key,
    session_key,
)
from actors.coordinator.consumer.model.state import consumer_groups, kept
from actors.coordinator.consumer.target import due_in_ms
from actors.coordinator.ground.explanation import Explanation, Waited
from actors.coordinator.ground.partitions import count
from actors.coordinator.ground.state import ShardState
from actors.coordinator.told import rebalances
from actors.coordinator.told.events import CONSUMER


def explain(state: ShardState, group_id: str, now_ms: int) -> Explanation:
    """Explain a consumer group: since its rebalance began if one is under way, else since its last target."""
    group = consumer_groups(state)[group_id]
    says, waited = _doing(state, group, now_ms)
    rebalance = rebalances.under_way(state, group_id)
    since_ms = None
    if rebalance is not None and rebalance.began is not None:
        since_ms = rebalance.began.at_ms
    elif group.target_metadata is not None and group.size:
        since_ms = group.target_metadata.assignment_timestamp_ms
    return Explanation(
        group_id,
        CONSUMER,
        group.state_name,
        group.group_epoch,
        group.assignment_epoch,
        group.size,
        says,
        since_ms=since_ms,
        waited_for=tuple(waited),
    )


def _doing(state: ShardState, group: ConsumerGroup, now_ms: int) -> tuple[str, list[Waited]]:
    name = group.state_name
    if name == "Empty":
        return "it has no members", []
    if name == "Assigning":
        return _assigning(state, group, now_ms), []
    if name == "Stable":
        return "all members have what the target gives them", []
    waited = sorted(_unreconciled(state, group), key=lambda each: each[0])
    return "not all members have what the target gives them", [each for _, each in waited]


def _assigning(state: ShardState, group: ConsumerGroup, now_ms: int) -> str:
    if group.group_id in kept(state).assignment_jobs:
        return "an assignor beside the coordinator is computing the target"
    computation = kept(state).computations.get(group.group_id)
    if computation is not None:
        return _computing(computation, now_ms)
    if group.group_id in kept(state).forming:
        return "the first members have joined, and more may come"
    left_ms = due_in_ms(state, group, now_ms)
    if left_ms > 0:
        return f"the next target is due in {left_ms / 1000:.1f} s (group.consumer.assignment.interval.ms)"
    return "the next heartbeat of any member computes the target"


def _computing(computation: Computation, now_ms: int) -> str:
    """Tell who computes, and why those before brought nothing."""
    says = "the next heartbeat of any member asks that member to compute the target"
    if computation.member_id:
        since_s = (now_ms - computation.began_ms) / 1000
        who = f"member {computation.member_id} computes the target"
        says = f"{who} with {computation.assignor} since {since_s:.1f} s"
    tried = [f"{member_id}: {why}" for member_id, why in computation.tried.items()]
    return f"{says}; before it ({'; '.join(tried)})" if tried else says


def _unreconciled(state: ShardState, group: ConsumerGroup) -> Iterator[tuple[int, Waited]]:
    """Members that do not have what the target gives them, with their place: who holds others up is first."""
    for member_id, member in group.members.items():
        current = member.current or NOT_JOINED
        if member.terms is None:
            continue
        session_ms = state.timers.deadline_ms(session_key(group.group_id, member_id))
        if current.state == UNREVOKED_PARTITIONS:
            number = count(current.pending_revocation)
            revoked_ms = state.timers.deadline_ms(rebalance_key(group.group_id, member_id))
            ends = [each for each in (revoked_ms, session_ms) if each]
            what = f"given up the {number} partitions it has to"
            yield 0, _waited(member_id, member, what, min(ends, default=None))
        elif current.member_epoch < group.assignment_epoch:
            yield 1, _waited(member_id, member, "sent a heartbeat since the target", session_ms)
        elif current.state == UNRELEASED_PARTITIONS:
            yield 2, _waited(member_id, member, "got all its partitions: others still have them", None)


def _waited(member_id: str, member: ConsumerMember, what: str, deadline_ms: int | None) -> Waited:
    client = member.instance_id, member.client_id, member.client_host
    return Waited(member_id, *client, what, deadline_ms)
