"""Runs our assignors on one shape: from the group's arrays to every member's sorted per-topic arrays.

What a leader keeps between assignments (members, subscriptions, assignments) is there before the clock
starts, as it is in a leader. The other costs of an assignment are measured apart: putting the newcomer into
the arrays, and the records' values of those whose target changes.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter, thread_time
from typing import NamedTuple

from actors.assignors import compiled
from actors.assignors.arrays import GroupArrays
from actors.assignors.registry import OWN
from actors.assignors.spec import MemberSpec, TopicPartitions
from actors.assignors.targets import Targets
from bench.kernels.shapes import RACKS, Shape


class Sample(NamedTuple):
    """Averages over as many assignments as fitted into the time given."""

    cpu_ms: float
    """The CPU time of the thread that assigns."""
    wall_ms: float
    assignments: int


class Ours:
    def __init__(self, shape: Shape) -> None:
        compiled.warm()
        self._assignor = OWN[f"{shape.assignor}-rack" if shape.racks else shape.assignor]
        self._shape = shape
        self._topic_ids = [(number + 1).to_bytes(16, "big") for number in range(shape.topics)]
        self._arrays = GroupArrays()
        self._subscriptions: dict[int, frozenset[bytes]] = {}
        self.newcomer_ms = 0.0
        """The CPU time to put the newcomer into the arrays; 0 if none joins."""
        for number in range(shape.members - 1 if shape.incremental else shape.members):
            self._arrays.put(self._member(number))
        self._arrays.lay_out(lambda _: shape.topic_partitions)
        if shape.incremental:
            for member_id, target in self._assign().changes().items():
                self._put_target(member_id, target)
            self._arrays.before()
            self.newcomer_ms = self._newcomer()
        self._assign()

    def _member(self, number: int) -> MemberSpec:
        bucket = self._shape.bucket_of_member(number)
        topic_ids = self._subscriptions.get(bucket)
        if topic_ids is None:
            topic_ids = frozenset(self._topic_ids[topic] for topic in self._shape.topics_of(bucket))
            self._subscriptions[bucket] = topic_ids
        rack = f"rack{number % RACKS}" if self._shape.racks else None
        return MemberSpec(f"member{number}", None, topic_ids, (), rack)

    def _put_target(self, member_id: str, target: TopicPartitions) -> None:
        slot = self._arrays.slots[member_id]
        self._arrays.put(self._arrays.members[slot]._replace(target=target))

    def _newcomer(self) -> float:
        newcomer = self._member(self._shape.members - 1)._replace(member_id="newMember")
        began = thread_time()
        self._arrays.put(newcomer, told=False)
        return (thread_time() - began) * 1e3

    def _racks_of(self, topic_id: bytes) -> list[str]:
        """The racks of a topic's partitions: a partition has one leader here, and so one rack."""
        return [f"rack{number % RACKS}" for number in range(self._shape.topic_partitions)]

    def _assign(self) -> Targets:
        racks_of: Callable[[bytes], list[str]] | None = self._racks_of if self._shape.racks else None
        return self._assignor.assign(self._arrays, racks_of)

    def run(self, seconds: float) -> Sample:
        assignments = 0
        cpu, wall = thread_time(), perf_counter()
        while assignments == 0 or perf_counter() - wall < seconds:
            self._assign()
            assignments += 1
        spent = thread_time() - cpu, perf_counter() - wall
        return Sample(spent[0] * 1e3 / assignments, spent[1] * 1e3 / assignments, assignments)

    def records_ms(self) -> float:
        """The CPU time of an assignment up to the records' values of all members whose target changes."""
        began = thread_time()
        self._assign().changes()
        return (thread_time() - began) * 1e3
