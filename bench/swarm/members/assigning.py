"""What the leader of a classic group does: shares out the partitions among all members. PURE.

Range as Kafka's RangeAssignor; cooperative-sticky in its spirit: nobody is given what another still owns.
Opaque ones are shared out by range and told in bytes that only these members understand.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
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
from bench.swarm.planning.plan import CLASSIC_COOPERATIVE, CLASSIC_OPAQUE

Assigned = dict[str, dict[str, list[int]]]
"""By member id, by topic."""
Owned = Mapping[str, Sequence[int]]
COOPERATIVE_VERSION: Final = 2
"""Of the subscription: owned partitions and their generation."""


class Joiner(NamedTuple):
    """A member as the leader sees it."""

    member_id: str
    instance_id: str | None
    subscription: Subscription


def metadata(protocol: str, topics: Sequence[str], owned: Owned, generation_id: int) -> bytes:
    """What a member joins with."""
    if protocol == CLASSIC_OPAQUE:
        return bytes(msgpack.packb([list(topics)]))
    mine = tuple((topic, tuple(numbers)) for topic, numbers in owned.items())
    return write_subscription(
        Subscription(tuple(topics), None, mine, generation_id), version=COOPERATIVE_VERSION
    )


def joiners(protocol: str, members: Sequence[tuple[str, str | None, bytes]]) -> list[Joiner]:
    """Of what JoinGroup told the leader."""
    return [Joiner(name, instance_id, _subscription(protocol, raw)) for name, instance_id, raw in members]


def share_out(protocol: str, members: Sequence[Joiner], partitions: Mapping[str, int]) -> dict[str, bytes]:
    """Each member's assignment, as SyncGroup carries it."""
    assign = cooperative if protocol == CLASSIC_COOPERATIVE else by_range
    assigned = assign(members, partitions)
    return {member_id: _written(protocol, topics) for member_id, topics in assigned.items()}


def read(protocol: str, assignment: bytes) -> dict[str, tuple[int, ...]]:
    """Of SyncGroup's answer. Raises MalformedRequest."""
    if not assignment:
        return {}
    if protocol == CLASSIC_OPAQUE:
        return {topic: tuple(numbers) for topic, numbers in msgpack.unpackb(assignment)}
    return {topic: numbers for topic, numbers in read_assignment(assignment).partitions if numbers}


def by_range(members: Sequence[Joiner], partitions: Mapping[str, int]) -> Assigned:
    """Topic by topic, in a row; static members by their instance id (KIP-345)."""
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
    """Everyone keeps what it owns up to an even share; of the rest nobody is given what another has yet to
    give up, which it does in the rebalance that follows (KIP-429)."""
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
    """To whoever has least; what is still owned by another counts, but is not told yet."""
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
    """Of two that claim a partition the one with the later generation is right (KIP-792)."""
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
