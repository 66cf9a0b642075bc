"""Decide which replicas each Raft group should have, and where: the replicated half of moving and replacing
them.

The placement says only what is wanted. What is there is for the groups' own logs to say
(storage.raft.members), and the reconciler of the controller's leader makes the one like the other.
"""

from __future__ import annotations

from collections.abc import Mapping

from kio.schema.errors import ErrorCode

from actors.ground.contract import Record
from actors.ground.image import ACTIVE
from actors.ground.spec import (
    CONTROLLER_GROUP,
    PARTITION_GROUP,
    PORTS_A_GROUP,
    REPLICA_BITS,
    Copies,
    Copy,
    TierSpec,
    partition_group,
)
from actors.metadata.commands import NEW_REPLICA, ForgetReplica, Outcome, PlaceGroup, SeedPlacement
from actors.metadata.records import GROUP_PLACEMENT, GroupPlacementKey, GroupPlacementValue, SplitValue
from actors.metadata.state import MetadataState
from storage.raft.members import MEMBERS_MAX

REPLICA_ID_MAX = (1 << REPLICA_BITS) - 1
DONE = Outcome()


def seed_placement(state: MetadataState, command: SeedPlacement) -> tuple[list[Record], Outcome]:
    records = []
    for group, copies, leaving in command.groups:
        if group not in state.placements:
            next_replica_id = 1 + max(replica_id for replica_id, _ in (*copies, *leaving))
            records.append(_record(group, GroupPlacementValue(copies, next_replica_id, leaving)))
    return records, DONE


def place_group(state: MetadataState, command: PlaceGroup) -> tuple[list[Record], Outcome]:
    placed = state.placements.get(command.group)
    if placed is None:
        return [], Outcome(ErrorCode.invalid_request, f"there is no group {command.group}")
    copies = _numbered(placed, command.copies)
    if copies == placed.copies:
        return [], DONE
    if command.expected != placed.copies:
        message = f"{command.group} has other replicas by now, {in_words(placed.copies)}: look again"
        return [], Outcome(ErrorCode.invalid_update_version, message)
    problem = _problem(state, placed, copies)
    if problem is not None:
        return [], Outcome(ErrorCode.invalid_replica_assignment, f"{command.group}: {problem}")
    numbers = {replica_id for replica_id, _ in copies}
    gone = tuple(copy for copy in placed.copies if copy.replica_id not in numbers)
    next_replica_id = max(placed.next_replica_id, 1 + max(numbers))
    value = GroupPlacementValue(copies, next_replica_id, placed.leaving + gone)
    return [_record(command.group, value)], DONE


def forget_replica(state: MetadataState, command: ForgetReplica) -> tuple[list[Record], Outcome]:
    placed = state.placements.get(command.group)
    if placed is None:
        return [], DONE
    leaving = tuple(copy for copy in placed.leaving if copy.replica_id != command.replica_id)
    if leaving == placed.leaving:
        return [], DONE
    return [_record(command.group, placed._replace(leaving=leaving))], DONE


def _record(group: str, value: GroupPlacementValue) -> Record:
    return Record(GroupPlacementKey(GROUP_PLACEMENT, "", group), value)


def _numbered(placed: GroupPlacementValue, copies: Copies) -> Copies:
    """Return the copies with numbers for the new ones: on one machine their Raft ports differ from those of
    the group's other replicas."""
    taken = {copy.replica_id % PORTS_A_GROUP for copy in (*placed.copies, *placed.leaving)}
    number = placed.next_replica_id
    numbered = []
    for replica_id, node_id in copies:
        if replica_id == NEW_REPLICA:
            while number % PORTS_A_GROUP in taken and len(taken) < PORTS_A_GROUP:
                number += 1
            taken.add(number % PORTS_A_GROUP)
            replica_id, number = number, number + 1
        numbered.append(Copy(replica_id, node_id))
    return tuple(numbered)


def _problem(state: MetadataState, placed: GroupPlacementValue, copies: Copies) -> str | None:
    """Return why a group cannot have these replicas, in words; None if it can."""
    if not copies:
        return "its only replica cannot be removed: what it holds would be lost"
    if len(copies) > MEMBERS_MAX:
        return f"{len(copies)} replicas, at most {MEMBERS_MAX} are allowed"
    if len({replica_id for replica_id, _ in copies}) < len(copies):
        return "a replica number stands there twice"
    for replica_id, node_id in copies:
        if Copy(replica_id, node_id) in placed.copies:
            continue
        if node_id not in state.nodes:
            known = ", ".join(map(str, sorted(state.nodes)))
            return f"there is no node {node_id}; the tier has {known}"
        if state.duty(node_id) != ACTIVE:
            return f"node {node_id} takes nothing new: it is joining, or to give up what it holds"
        if replica_id < placed.next_replica_id:
            return (
                f"replica number {replica_id} was used before; the next one is {placed.next_replica_id}: who "
                "comes without the memory of a replica must not take part under its name"
            )
        if replica_id > REPLICA_ID_MAX:
            return f"replica number {replica_id} is above {REPLICA_ID_MAX}"
    return None


def in_words(copies: Copies) -> str:
    """Return the copies as in "0 on node 1, 2 on node 3"."""
    return ", ".join(f"{replica_id} on node {node_id}" for replica_id, node_id in copies)


def present_spec(
    spec: TierSpec, placements: Mapping[str, GroupPlacementValue], split: SplitValue | None = None
) -> TierSpec:
    """Return `spec` with the offsets partitions that there are now, the replicas that the groups should have,
    and those that are leaving."""
    total = len(spec.placement) if split is None else split.partitions
    rows = []
    for partition in range(total):
        placed = placements.get(partition_group(partition))
        rows.append(spec.placement[partition] if placed is None else placed.copies)
    controllers = placements.get(CONTROLLER_GROUP)
    return spec._replace(
        placement=tuple(rows),
        started_partitions=spec.started_partitions or len(spec.placement),
        unmoved=() if split is None else split.unmoved,
        undropped=() if split is None else split.undropped,
        controllers=spec.controllers if controllers is None else controllers.copies,
        leaving=tuple((group, copy) for group, placed in placements.items() for copy in placed.leaving),
    )


def is_founding(spec: TierSpec, group: str) -> bool:
    """Return whether a split has made a group that nobody depends on yet, with the replicas that it began
    with: then one without a journal is a founder."""
    partition = -1 if group == CONTROLLER_GROUP else int(group.removeprefix(PARTITION_GROUP))
    ids = [replica_id for replica_id, _ in spec.copies(group)]
    is_child = partition - spec.offsets_partitions // 2 in spec.unmoved
    return is_child and sorted(ids) == list(range(len(ids)))


def is_formed(spec: TierSpec, group: str | None) -> bool:
    """Return whether a replica of a group that has no journal has lost one; None: the actor is no replica."""
    return spec.formed and not (group is not None and is_founding(spec, group))


def groups_of(spec: TierSpec) -> list[str]:
    """Return the name of every Raft group of a tier."""
    return [CONTROLLER_GROUP, *(partition_group(number) for number in range(spec.offsets_partitions))]
