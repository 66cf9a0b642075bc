"""Targets that a plug-in computes: apart from the heartbeat that needs them (A22, M8, M9).

A plug-in may take its time, so the heartbeat only asks: an event hands the group out as a value, the host
has the plug-in run in a thread, and what it gave comes back as a request of the tier's own. Until then the
group keeps the target it has, as it does within the assignment interval. What comes back when the group has
moved on is dropped, and the next heartbeat asks again; so it does, after a pause, if the plug-in failed.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from actors.assignors.spec import Assignment, AssignmentSpec
from actors.coordinator.consumer.decision import Decision
from actors.coordinator.consumer.history import computed
from actors.coordinator.consumer.model.group import FIRST_EPOCH, ConsumerGroup
from actors.coordinator.consumer.model.state import consumer_groups, kept
from actors.coordinator.consumer.model.volatile import Job
from actors.coordinator.consumer.target_arrays import group_of
from actors.coordinator.ground.area import Area
from actors.coordinator.ground.partitions import count
from actors.coordinator.ground.state import ShardState
from actors.coordinator.told import rebalances
from actors.coordinator.told.consumer_events import AssignmentComputed
from actors.coordinator.told.events import CONSUMER
from actors.ground.contract import Record, Reply, Request, Result
from actors.ground.records import (
    TARGET_ASSIGNMENT_MEMBER,
    TARGET_ASSIGNMENT_METADATA,
    ConsumerGroupKey,
    ConsumerMemberKey,
    TargetMemberValue,
    TargetMetadataValue,
    TopicPartitions,
)

ASSIGNED = -5
"""The number that stands for an API key, as `restore.RESTORE`: what a plug-in gave, or that it failed."""
RETRY_MS = 1_000
"""How long the group waits after a plug-in failed before it asks again."""
OVERDUE_MS = 1_000
"""How long beyond the plug-in's own time an answer is waited for."""


class AssignmentAsked(NamedTuple):
    """An event: the plug-in `assignor` is to assign the group, and `ASSIGNED` to say what it gave."""

    group_id: str
    group_epoch: int
    assignor: str
    spec: AssignmentSpec


class AssignmentFailed(NamedTuple):
    """A plug-in failed, or took too long: the group keeps the target it has."""

    group_id: str
    group_epoch: int
    assignor: str
    error: str
    now_ms: int


class AssignedRequest(NamedTuple):
    group_id: str
    group_epoch: int
    """The epoch for which the plug-in was asked."""
    assignor: str
    assignment: Assignment | None
    """The plug-in's assignment; None if the plug-in failed."""
    error: str = ""


class AssignedResponse(NamedTuple):
    taken: bool
    """Whether the assignment was taken: not if the group has moved on or this replica leads no longer."""


def ask(decision: Decision, assignor: str) -> None:
    """Have the plug-in assign the group as the decision leaves it, unless it is at it already."""
    jobs, group_id = kept(decision.state).assignment_jobs, decision.group.group_id
    first_target(decision)
    if decision.assignment_epoch == decision.group_epoch:
        return
    job = jobs.get(group_id)
    if job is not None and decision.now_ms < job.until_ms:
        return
    until_ms = decision.now_ms + decision.state.settings.group_consumer_assignor_timeout_ms + OVERDUE_MS
    jobs[group_id] = Job(decision.group_epoch, until_ms)
    decision.events.append(AssignmentAsked(group_id, decision.group_epoch, assignor, _spec(decision)))


def first_target(decision: Decision) -> None:
    """Give a group that never had a target an empty one while its first is computed elsewhere, for a member's
    epoch must not be 0: its client would take that for a loss of membership."""
    if decision.assignment_epoch == 0:
        decision.assignment_epoch = max(decision.group_epoch - 1, FIRST_EPOCH)
        group_id = decision.group.group_id
        decision.records += target_records(group_id, {}, decision.assignment_epoch, decision.now_ms)


def _assigned(state: ShardState, request: Request, now_ms: int) -> Result:
    body: AssignedRequest = request.body
    job = kept(state).assignment_jobs.pop(body.group_id, None)
    group = consumer_groups(state).get(body.group_id)
    if group is None or job is None or not _is_awaited(group, job, body):
        return Result(replies=(Reply(request.token, AssignedResponse(False), body.group_id),))
    told = (Reply(request.token, AssignedResponse(True), body.group_id),)
    group_id, epoch, assignor, assignment, error = body
    if assignment is None:
        kept(state).assignment_jobs[group_id] = Job(epoch, now_ms + RETRY_MS)
        return Result((), told, (AssignmentFailed(group_id, epoch, assignor, error, now_ms),))
    group.storm.rebalanced(now_ms)
    changes = {
        member_id: target
        for member_id, target in assignment.items()
        if target != group.members[member_id].target
    }
    partitions = sum(map(count, assignment.values()))
    event = computed(
        state,
        group,
        changes,
        AssignmentComputed(
            now_ms, group_id, CONSUMER, epoch, epoch, assignor, None, len(assignment), partitions
        ),
    )
    rebalances.target_stands(state, event)
    return Result(target_records(group_id, changes, epoch, now_ms), told, (event,))


def _is_awaited(group: ConsumerGroup, job: Job, body: AssignedRequest) -> bool:
    """Whether the group is still as it was handed out. A static member that another one has replaced leaves
    the epoch as it was."""
    if not group.assignment_epoch < body.group_epoch == job.group_epoch == group.group_epoch:
        return False
    if body.assignment is None:
        return True
    return len(body.assignment) == group.size and all(group.member(each) for each in body.assignment)


def target_records(
    group_id: str, changes: Mapping[str, TopicPartitions], epoch: int, now_ms: int
) -> list[Record]:
    """The records of a new target: what changes, by member id, and that it stands (M9)."""
    records = [
        Record(ConsumerMemberKey(TARGET_ASSIGNMENT_MEMBER, group_id, member_id), TargetMemberValue(target))
        for member_id, target in changes.items()
    ]
    key = ConsumerGroupKey(TARGET_ASSIGNMENT_METADATA, group_id)
    return [*records, Record(key, TargetMetadataValue(epoch, now_ms))]


def _spec(decision: Decision) -> AssignmentSpec:
    group, topics = group_of(decision), decision.state.image.topics_by_id
    return AssignmentSpec(
        tuple(group.members[slot] for slot in group.slots.values()),
        {topic_id: topics[topic_id].partition_count for topic_id in group.topic_ids},
    )


def _refused(request: Request, error: ErrorCode, message: str | None) -> AssignedResponse:
    return AssignedResponse(False)


AREA = Area(handlers={ASSIGNED: _assigned}, refusals={ASSIGNED: _refused})
