"""Double the number of offsets partitions, and note how far that is: the replicated half of a split.

Partition p + N is the child of partition p. What moves is handed over by the partitions' leaders
(`coordinator.split`); the controller's leader sees to it that they do (`cluster.splits`), and notes the end
here.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.ground.contract import Record
from actors.ground.features import GROUPD_VERSION
from actors.ground.spec import Copies, copies, partition_group
from actors.ground.upstream_goal import DETACHED
from actors.metadata.commands import Outcome
from actors.metadata.records import (
    GROUP_PLACEMENT,
    SPLIT,
    GroupPlacementKey,
    GroupPlacementValue,
    SingletonKey,
    SplitValue,
)
from actors.metadata.split_commands import NoteDropped, NoteMoved, SplitPartitions
from actors.metadata.state import MetadataState

LEVEL_MIN = 2
"""The level of groupd.version from which on every replica understands what a split writes."""
PARTITIONS_MAX = 1_000
"""How many offsets partitions a tier may have: as many as a new one may begin with."""
DONE = Outcome()


def split_partitions(state: MetadataState, command: SplitPartitions) -> tuple[list[Record], Outcome]:
    problem = problem_of(state, command.expected)
    if problem is not None:
        return [], Outcome(ErrorCode.invalid_request, problem)
    parents = tuple(range(state.offsets_partitions))
    records = []
    for parent in parents:
        group, row = partition_group(parent + len(parents)), _beside(state, parent)
        value = GroupPlacementValue(row, len(row))
        records.append(Record(GroupPlacementKey(GROUP_PLACEMENT, "", group), value))
    records.append(_record(SplitValue(2 * len(parents), parents, parents)))
    return records, DONE


def problem_of(state: MetadataState, expected: int) -> str | None:
    """Return why `expected` partitions cannot be split now, in words; None if they can."""
    present, split = state.offsets_partitions, state.split
    level = state.features.level(GROUPD_VERSION)
    if level < LEVEL_MIN:
        return (
            f"the tier is at level {level} of {GROUPD_VERSION}, and a split needs level {LEVEL_MIN}: "
            "raise it when every node has this release"
        )
    if state.upstream_goal != DETACHED:
        return "their number is that of the Kafka cluster that the tier stands in front of"
    if split is not None and split.undropped:
        left = len(split.undropped)
        return f"a split is under way: {left} of {present // 2} partitions are still to be split"
    if expected != present:
        return f"there are {present} offsets partitions by now, not {expected}: look again"
    if 2 * present > PARTITIONS_MAX:
        return f"{2 * present} offsets partitions would be too many: at most {PARTITIONS_MAX} are allowed"
    unplaced = [p for p in range(present) if partition_group(p) not in state.placements]
    if unplaced:
        return f"the controller does not know the replicas of partition {unplaced[0]} yet: try again"
    return None


def _beside(state: MetadataState, parent: int) -> Copies:
    """Return the copies of a child: on the nodes of its parent's, of which another one should lead."""
    nodes = [node_id for _, node_id in state.placements[partition_group(parent)].copies]
    return copies([*nodes[1:], nodes[0]])


def note_moved(state: MetadataState, command: NoteMoved) -> tuple[list[Record], Outcome]:
    split = state.split
    if split is None or command.parent not in split.unmoved:
        return [], DONE
    unmoved = tuple(parent for parent in split.unmoved if parent != command.parent)
    return [_record(split._replace(unmoved=unmoved))], DONE


def note_dropped(state: MetadataState, command: NoteDropped) -> tuple[list[Record], Outcome]:
    split = state.split
    if split is None or command.parent not in split.undropped:
        return [], DONE
    if command.parent in split.unmoved:
        return [], Outcome(ErrorCode.invalid_request, f"partition {command.parent} has not moved yet")
    undropped = tuple(parent for parent in split.undropped if parent != command.parent)
    return [_record(split._replace(undropped=undropped))], DONE


def _record(value: SplitValue) -> Record:
    return Record(SingletonKey(SPLIT), value)
