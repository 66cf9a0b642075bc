"""The server-side assignors by the names that clients ask for, and those of `group.consumer.assignors`.

An entry of that setting is one of ours, or a plug-in (A22): a `PartitionAssignor` that every node can import,
by the name of its entry point in the group `groupd.assignors` or as `module:Class`. A plug-in runs inside the
coordinator, in a thread with a deadline (`actors.leader.plug_in_assignments`). What it gives is checked,
because members will believe it.

Kafka's assignors do not look at racks (KAFKA-19387), and a consumer tells its rack so as to fetch from the
nearest replica, not in order to be assigned otherwise. So the assignors that do look at racks have names of
their own: no group gets them unawares.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import chain
from struct import pack
from typing import NamedTuple, Protocol

from actors.assignors import range as range_assignor
from actors.assignors import uniform
from actors.assignors.group import Group
from actors.assignors.spec import OWN_NAMES, Assignment, AssignmentSpec, installed
from actors.assignors.targets import Targets
from actors.assignors.topic_sets import RacksOf


class ArrayAssignor(NamedTuple):
    """An assignor of our own. It is pure and deterministic: it depends on the members, not on the order in
    which they came."""

    assign: Callable[[Group, RacksOf | None], Targets]
    by_rack: bool


OWN: Mapping[str, ArrayAssignor] = {
    "uniform": ArrayAssignor(uniform.assign, by_rack=False),
    "range": ArrayAssignor(range_assignor.assign, by_rack=False),
    "uniform-rack": ArrayAssignor(uniform.assign, by_rack=True),
    "range-rack": ArrayAssignor(range_assignor.assign, by_rack=True),
}
assert tuple(OWN) == OWN_NAMES


class AssignorError(Exception):
    """Raised if an assignor cannot be had, or fails; it says so in words for the operator."""


class PartitionAssignor(Protocol):
    """A plug-in that assigns, made without arguments once in each process."""

    name: str
    """The name that members ask for, and that describe shows."""

    def assign(self, spec: AssignmentSpec) -> Mapping[str, Mapping[bytes, Iterable[int]]]:
        """Return member id -> topic id -> partitions. It is deterministic, and may raise whatever it likes
        (M9)."""


class PlugIn:
    """A plug-in whose failures are all AssignorErrors, and whose assignments are checked."""

    def __init__(self, entry: str) -> None:
        """Import and make the plug-in. Raises AssignorError."""
        try:
            assignor: PartitionAssignor = class_of(entry)()
            self.name, self._assign = assignor.name, assignor.assign
        except Exception as error:  # the plug-in's own code may raise anything
            raise AssignorError(f"{entry} cannot be had: {error!r}") from error

    def assign(self, spec: AssignmentSpec) -> Assignment:
        """Return the plug-in's assignment, checked. Raises AssignorError."""
        try:
            given = self._assign(spec)
        except Exception as error:  # the plug-in's own code may raise anything
            raise AssignorError(f"{self.name} failed: {error!r}") from error
        return _checked(self.name, spec, given)


@lru_cache
def named(entries: tuple[str, ...]) -> Mapping[str, ArrayAssignor | PlugIn]:
    """Return the assignors by name, the default first. Raises AssignorError."""
    found: dict[str, ArrayAssignor | PlugIn] = {}
    for entry in entries:
        assignor = OWN.get(entry) or PlugIn(entry)
        name = assignor.name if isinstance(assignor, PlugIn) else entry
        if name in found:
            raise AssignorError(f"two assignors have the name {name}")
        found[name] = assignor
    return found


def class_of(entry: str) -> Callable[[], PartitionAssignor]:
    """Return the class of a plug-in, by `module:Class` or by its entry point. Raises whatever importing it
    raises."""
    module_name, _, class_name = entry.partition(":")
    if class_name:
        found = getattr(importlib.import_module(module_name), class_name)
    else:
        (point,) = installed().select(name=entry)
        found = point.load()
    assert callable(found), f"{found!r} is not a class"
    return found  # type: ignore[no-any-return]


def _checked(
    name: str, spec: AssignmentSpec, given: Mapping[str, Mapping[bytes, Iterable[int]]]
) -> Assignment:
    """Return an assignment as records hold it. Raises AssignorError for what no group could live with."""
    members = {member.member_id: member for member in spec.members}
    assignment: Assignment = {}
    for member_id, topics in given.items():
        if member_id not in members:
            raise AssignorError(f"{name} assigned to {member_id}, which is no member")
        if not topics.keys() <= members[member_id].topic_ids:
            raise AssignorError(f"{name} gave {member_id} a topic that it does not subscribe to")
        sorted_topics = ((topic_id, sorted(set(numbers))) for topic_id, numbers in sorted(topics.items()))
        assignment[member_id] = tuple(
            (topic_id, pack(f">{len(numbers)}i", *numbers)) for topic_id, numbers in sorted_topics if numbers
        )
    _refuse_impossible(name, spec, assignment)
    return {member_id: assignment.get(member_id, ()) for member_id in members}


def _refuse_impossible(name: str, spec: AssignmentSpec, assignment: Assignment) -> None:
    taken: set[tuple[bytes, bytes]] = set()
    for topic_id, packed in chain.from_iterable(assignment.values()):
        count = spec.partition_counts[topic_id]
        for start in range(0, len(packed), 4):
            number = packed[start : start + 4]
            if int.from_bytes(number, "big", signed=True) not in range(count):
                raise AssignorError(f"{name} assigned a partition that does not exist")
            if (topic_id, number) in taken:
                raise AssignorError(f"{name} assigned a partition twice")
            taken.add((topic_id, number))
