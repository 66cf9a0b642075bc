"""What the leader of a classic group does: shares out the partitions among all members. PURE.

Range assigns as Kafka's RangeAssignor does. Cooperative-sticky follows the spirit of Kafka's: nobody is given
what another still owns. The opaque protocol assigns by range too, in bytes that only its members understand.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgpack

from actors.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from bench.member.classic import Owned

Assigned = dict[str, dict[str, list[int]]]
"""The numbers of the assigned partitions, by member id and topic."""
CLASSIC_RANGE: Final = "range"
CLASSIC_COOPERATIVE: Final = "cooperative-sticky"
CLASSIC_OPAQUE: Final = "opaque"
"""A classic protocol whose bytes only its members understand, as Kafka Connect's."""
COOPERATIVE_VERSION: Final = 2
"""The version of the subscription that has the owned partitions and their generation."""


class Joiner(NamedTuple):
    """A member as the leader sees it."""

    member_id: str
    instance_id: str | None
    subscription: Subscription


class Sharing(NamedTuple):
    """The assignor of members of one protocol; an Assignor of `classic`."""

    protocol: str
    topics: tuple[str, ...]
    """The topics to which a member subscribes."""
    partitions: Callable[[Iterable[str]], Mapping[str, int]]
    """A function that tells how many partitions topics have; those that do not exist are left out."""

    @property
    def protocol_type(self) -> str:
        return "connect" if self.protocol == CLASSIC_OPAQUE else "consumer"

    @property
    def name(self) -> str:
        return self.protocol

    @property
    def is_cooperative(self) -> bool:
        return self.protocol == CLASSIC_COOPERATIVE

    def metadata(self, owned: Owned, generation_id: int) -> bytes:
        """The metadata with which a member joins."""
        if self.protocol == CLASSIC_OPAQUE:
            return bytes(msgpack.packb([list(self.topics)]))
        mine = tuple(owned.items())
        said = Subscription(self.topics, None, mine, generation_id)
        return write_subscription(said, version=COOPERATIVE_VERSION)

    def share_out(self, members: Sequence[tuple[str, str | None, bytes]]) -> dict[str, bytes]:
        """Make each member's assignment, as SyncGroup carries it, by member id."""
        joiners = [
            Joiner(member_id, instance_id, _subscription(self.protocol, raw))
            for member_id, instance_id, raw in members
        ]
        counts = self.partitions({topic for joiner in joiners for topic in joiner.subscription.topics})
        assigned = (cooperative if self.is_cooperative else by_range)(joiners, counts)
        return {member_id: _written(self.protocol, topics) for member_id, topics in assigned.items()}

    def read(self, assignment: bytes) -> dict[str, tuple[int, ...]]:
        """Read the assignment in SyncGroup's answer. Raises MalformedRequest."""
        if not assignment:
            return {}
        if self.protocol == CLASSIC_OPAQUE:
            return {topic: tuple(numbers) for topic, numbers in msgpack.unpackb(assignment)}
        return {topic: numbers for topic, numbers in read_assignment(assignment).partitions if numbers}


class Alike(NamedTuple):
    """An Assignor for members whose partitions do not matter: all have the same metadata and get the same
    bytes."""

    subscription: bytes = b""
    assignment: bytes = b""

    @property
    def protocol_type(self) -> str:
        return "consumer"

    @property
    def name(self) -> str:
        return CLASSIC_RANGE

    @property
    def is_cooperative(self) -> bool:
        return False

    def metadata(self, owned: Owned, generation_id: int) -> bytes:
        return self.subscription

    def share_out(self, members: Sequence[tuple[str, str | None, bytes]]) -> dict[str, bytes]:
        return {member_id: self.assignment for member_id, _, _ in members}

    def read(self, assignment: bytes) -> Owned:
        return {}


def by_range(members: Sequence[Joiner], partitions: Mapping[str, int]) -> Assigned:
    """Assign each topic's partitions in a row to the members that subscribe to it. Static members are ordered
    by their instance id (KIP-345)."""
    assigned: Assigned = {member.member_id: {} for member in members}
    ordered = sorted(members, key=_order)
    by_topic: dict[str, list[Joiner]] = {}
    for member in ordered:
        for topic in set(member.subscription.topics):
            by_topic.setdefault(topic, []).append(member)
    for topic, interested in sorted(by_topic.items()):
        share, more = divmod(partitions.get(topic, 0), len(interested))
        first = 0
        for place, member in enumerate(interested):
            last = first + share + (place < more)
            if last > first:
                assigned[member.member_id][topic] = list(range(first, last))
            first = last
    return assigned


def cooperative(members: Sequence[Joiner], partitions: Mapping[str, int]) -> Assigned:
    """Let every member keep what it owns up to an even share, and assign the rest. No member is assigned a
    partition that another one has yet to give up: that follows in the next rebalance (KIP-429)."""
    owners = _owners(members)
    assigned: Assigned = {member.member_id: {} for member in members}
    counts = dict.fromkeys(assigned, 0)
    by_topic: dict[str, list[str]] = {}
    for member in members:
        for topic in set(member.subscription.topics):
            by_topic.setdefault(topic, []).append(member.member_id)
    total = sum(partitions.get(topic, 0) for topic in by_topic)
    share, more = divmod(total, len(members))
    rest: list[tuple[str, int]] = []
    for topic in sorted(by_topic):
        interested = set(by_topic[topic])
        for number in range(partitions.get(topic, 0)):
            owner = owners.get((topic, number))
            keeps = owner in interested and counts[owner] < share + (more > 0)
            if owner is None or not keeps:
                rest.append((topic, number))
                continue
            assigned[owner].setdefault(topic, []).append(number)
            counts[owner] += 1
            more -= counts[owner] == share + 1
    _give_out(rest, owners, by_topic, assigned, counts)
    return assigned


def _give_out(
    rest: Sequence[tuple[str, int]],
    owners: Mapping[tuple[str, int], str],
    by_topic: Mapping[str, list[str]],
    assigned: Assigned,
    counts: dict[str, int],
) -> None:
    """Give each partition to the member that has least. A partition that another member still owns counts for
    its new owner, but is not in the assignment yet."""
    heaps: dict[tuple[str, ...], list[tuple[int, str]]] = {}
    for topic, number in rest:
        interested = tuple(by_topic[topic])
        heap = heaps.setdefault(interested, sorted((counts[member], member) for member in interested))
        while heap[0][0] != counts[heap[0][1]]:
            heapq.heapreplace(heap, (counts[heap[0][1]], heap[0][1]))
        member_id = heap[0][1]
        counts[member_id] += 1
        heapq.heapreplace(heap, (counts[member_id], member_id))
        if owners.get((topic, number), member_id) == member_id:
            assigned[member_id].setdefault(topic, []).append(number)


def _owners(members: Sequence[Joiner]) -> dict[tuple[str, int], str]:
    """Find each partition's owner. If two members claim a partition, the one of the later generation is right
    (KIP-792)."""
    owners: dict[tuple[str, int], str] = {}
    since: dict[tuple[str, int], int] = {}
    for member_id, _, subscription in members:
        for topic, numbers in subscription.owned:
            for number in numbers:
                key = topic, number
                if subscription.generation_id > since.get(key, -2):
                    owners[key], since[key] = member_id, subscription.generation_id
    return owners


def _order(member: Joiner) -> tuple[bool, str]:
    return member.instance_id is None, member.instance_id or member.member_id


def _subscription(protocol: str, raw: bytes) -> Subscription:
    if protocol == CLASSIC_OPAQUE:
        return Subscription(tuple(msgpack.unpackb(raw)[0]))
    return read_subscription(raw)


def _written(protocol: str, topics: Mapping[str, Sequence[int]]) -> bytes:
    if protocol == CLASSIC_OPAQUE:
        return bytes(msgpack.packb([[topic, list(numbers)] for topic, numbers in topics.items()]))
    told = tuple((topic, tuple(numbers)) for topic, numbers in topics.items())
    return write_assignment(Assignment(told), version=COOPERATIVE_VERSION)
