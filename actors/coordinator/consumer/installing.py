"""ConsumerGroupInstallAssignment (A10): a member's result becomes the group's target, if it fits exactly what
was handed out. It is installed for the epoch it was computed for, though the group may have gone on (A11)."""

from collections.abc import Mapping
from struct import pack

from actors.coordinator.consumer.assignment_jobs import target_records
from actors.coordinator.consumer.client_assignors.job import Computation, Handed, end, fail
from actors.coordinator.consumer.handing_out import find_computation
from actors.coordinator.consumer.history import computed
from actors.coordinator.consumer.model.group import ConsumerGroup
from actors.coordinator.consumer.model.state import kept
from actors.coordinator.ground.partitions import EMPTY
from actors.coordinator.ground.state import ShardState
from actors.coordinator.told import rebalances
from actors.coordinator.told.consumer_events import AssignmentComputed
from actors.coordinator.told.events import CONSUMER
from actors.ground.contract import Record, Reply, Request, Result
from actors.ground.limits import HANDED_BYTES_MAX
from actors.ground.records import (
    CLIENT_ASSIGNMENT,
    ClientAssignmentValue,
    ConsumerMemberKey,
    TopicPartitions,
)
from actors.protocol.client_assignor_messages import (
    INVALID_ASSIGNMENT,
    NO_METADATA_VERSION,
    InstallAssignmentRequest,
    InstallAssignmentResponse,
    InstalledMember,
)

NOTHING_GIVEN = ClientAssignmentValue(0, NO_METADATA_VERSION, b"")
"""What an assignor has for a member that it says nothing of."""


def install(state: ShardState, request: Request, now_ms: int) -> Result:
    """Take what the member has computed, or that its assignor failed."""
    body: InstallAssignmentRequest = request.body
    group, computation = find_computation(state, body)
    handed = computation.handed
    if body.error:
        why = f"its assignor failed: {body.error_message or 'error'} ({body.error})"
        event = fail(state, group, why, now_ms)
        return Result((), (_reply(request, InstallAssignmentResponse(0)),), (event,))
    wrong = problem(handed, group, body)
    if wrong is not None or handed is None:
        event = fail(state, group, f"INVALID_ASSIGNMENT: {wrong}", now_ms)
        refused = InstallAssignmentResponse(INVALID_ASSIGNMENT, wrong)
        return Result((), (_reply(request, refused),), (event,))
    return _installed(state, group, computation, request, now_ms)


def _reply(request: Request, answer: InstallAssignmentResponse) -> Reply:
    return Reply(request.token, answer, request.body.group_id)


def problem(handed: Handed | None, group: ConsumerGroup, body: InstallAssignmentRequest) -> str | None:
    """Return what does not fit what was handed out; None: everything fits."""
    if handed is None:
        return "nothing was handed out to compute from: ConsumerGroupPrepareAssignment comes first"
    if body.group_epoch != handed.group_epoch:
        return f"it was computed for epoch {body.group_epoch}, and epoch {handed.group_epoch} was handed out"
    if handed.group_epoch <= group.assignment_epoch:
        return f"the group has the target of epoch {group.assignment_epoch} by now"
    if sum(len(each.metadata) for each in body.members) > HANDED_BYTES_MAX:
        return f"its metadata have more than {HANDED_BYTES_MAX} bytes"
    seen: set[str] = set()
    taken: dict[tuple[bytes, int], str] = {}
    for member in body.members:
        if member.member_id not in handed.members:
            return f"{member.member_id} is no member"
        if member.member_id in seen:
            return f"{member.member_id} is named twice"
        seen.add(member.member_id)
        wrong = _problem_of(handed, member, taken)
        if wrong is not None:
            return wrong
    return None


def _problem_of(handed: Handed, member: InstalledMember, taken: dict[tuple[bytes, int], str]) -> str | None:
    subscribed = handed.members[member.member_id].topic_ids
    for topic_id, numbers in member.topic_partitions:
        if topic_id not in handed.partition_counts:
            return f"topic {topic_id.hex()} was not handed out"
        if topic_id not in subscribed:
            return f"{member.member_id} does not subscribe to topic {topic_id.hex()}"
        count = handed.partition_counts[topic_id]
        for number in numbers:
            if not 0 <= number < count:
                return f"topic {topic_id.hex()} has {count} partitions, and no partition {number}"
            owner = taken.setdefault((topic_id, number), member.member_id)
            if owner != member.member_id:
                named = f"partition {number} of topic {topic_id.hex()}"
                return f"{named} is given to {owner} and to {member.member_id}"
        if len(set(numbers)) < len(numbers):
            return f"topic {topic_id.hex()} has a partition twice for {member.member_id}"
    topics = [topic_id for topic_id, _ in member.topic_partitions]
    if len(set(topics)) < len(topics):
        return f"{member.member_id} has a topic twice"
    return None


def _installed(
    state: ShardState, group: ConsumerGroup, computation: Computation, request: Request, now_ms: int
) -> Result:
    body: InstallAssignmentRequest = request.body
    handed = computation.handed
    assert handed is not None
    given = {each.member_id: each for each in body.members}
    by_heir = {heir: given.get(member_id) for member_id, heir in heirs(handed, group).items()}
    targets = {heir: _packed(named) for heir, named in by_heir.items()}
    changes = {
        member_id: target
        for member_id, target in targets.items()
        if target != group.members[member_id].target
    }
    group.storm.rebalanced(now_ms)
    duration_us = 1_000 * (now_ms - computation.began_ms)
    event = computed(
        state,
        group,
        changes,
        AssignmentComputed(
            now_ms,
            body.group_id,
            CONSUMER,
            group.group_epoch,
            handed.group_epoch,
            computation.assignor,
            duration_us,
            len(handed.members),
            sum(handed.partition_counts.values()),
            member_id=body.member_id,
        ),
    )
    rebalances.target_stands(state, event)
    records = target_records(body.group_id, changes, handed.group_epoch, now_ms)
    records += _metadata_records(group, by_heir)
    end(state, body.group_id)
    if group.group_epoch > handed.group_epoch:
        # A11: the next computation does not wait for the assignment interval.
        kept(state).computations[body.group_id] = Computation()
    return Result(records, (_reply(request, InstallAssignmentResponse(0)),), (event,))


def heirs(handed: Handed, group: ConsumerGroup) -> dict[str, str]:
    """Return who of those that were handed out is in the group now, as whom: a static member that has come
    back meanwhile has another id (M21), and what its old self is given is its own."""
    found = {}
    for member_id, member in handed.members.items():
        heir: str | None = member_id
        if group.member(member_id) is None:
            heir = None if member.instance_id is None else group.static_member_id(member.instance_id)
        if heir is not None:
            found[member_id] = heir
    return found


def _packed(given: InstalledMember | None) -> TopicPartitions:
    if given is None:
        return EMPTY
    return tuple(
        (topic_id, pack(f">{len(numbers)}i", *sorted(numbers)))
        for topic_id, numbers in sorted(given.topic_partitions)
        if numbers
    )


def _metadata_records(group: ConsumerGroup, by_heir: Mapping[str, InstalledMember | None]) -> list[Record]:
    records = []
    for heir, named in by_heir.items():
        value = NOTHING_GIVEN
        if named is not None:
            value = ClientAssignmentValue(named.error, named.metadata_version, named.metadata)
        kept_value = None if value == NOTHING_GIVEN else value
        if kept_value != group.client_assignments.get(heir):
            key = ConsumerMemberKey(CLIENT_ASSIGNMENT, group.group_id, heir)
            records.append(Record(key, kept_value))
    return records
