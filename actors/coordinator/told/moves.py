"""Which partitions have another owner: two assignments of a group compared, for its history.

Work for a rebalance only, and bounded: of what is too much to compare in a few milliseconds nothing is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from actors.coordinator.ground.partitions import PARTITION_BYTES, count, unpack
from actors.ground.image import MetadataImage
from actors.ground.records import TopicPartitions
from actors.protocol.consumer_protocol import read_assignment
from actors.protocol.errors import MalformedRequest
from storage.history.schema import MOVES_MAX, Move

COMPARED_BYTES_MAX = 65_536
"""How much of two assignments, as they are kept, is compared: about 10,000 partitions, a few milliseconds."""

Place = tuple[str, int]
"""A topic's name and a partition of it."""
Moves = tuple[int, tuple[Move, ...]]
"""How many partitions changed owner, and the first of them."""


def classic_moves(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> tuple[int, Moves] | None:
    """Compare a classic group's assignments by member id: how many partitions are assigned, and the moves.
    None if they are too many, or not in the bytes that consumers use."""
    if sum(map(len, before.values())) + sum(map(len, after.values())) > COMPARED_BYTES_MAX:
        return None
    try:
        old, new = _read(before), _read(after)
    except MalformedRequest:
        return None
    return len(new), compared(old, new)


def _read(assignments: Mapping[str, bytes]) -> dict[Place, str]:
    return {
        (topic, number): member_id
        for member_id, raw in assignments.items()
        if raw
        for topic, numbers in read_assignment(raw).partitions
        for number in numbers
    }


def consumer_moves(
    before: Mapping[str, TopicPartitions], after: Mapping[str, TopicPartitions], image: MetadataImage
) -> Moves | None:
    """Compare two targets of a consumer group by member id, those members left out whose target stays. None
    if they are too many."""
    partitions = sum(map(count, before.values())) + sum(map(count, after.values()))
    if partitions * PARTITION_BYTES > COMPARED_BYTES_MAX:
        return None
    return compared(_named(before.items(), image), _named(after.items(), image))


def _named(targets: Iterable[tuple[str, TopicPartitions]], image: MetadataImage) -> dict[Place, str]:
    """Targets by topic name: a topic that is gone has none and is left out."""
    topics = image.topics_by_id
    return {
        (topics[topic_id].name, number): member_id
        for member_id, target in targets
        for topic_id, packed in target
        if topic_id in topics
        for number in unpack(packed)
    }


def compared(before: Mapping[Place, str], after: Mapping[Place, str]) -> Moves:
    """Compare the owners of partitions before and after."""
    places = [place for place, member_id in after.items() if before.get(place) != member_id]
    places += [place for place in before if place not in after]
    moves = tuple(Move(*place, before.get(place), after.get(place)) for place in places[:MOVES_MAX])
    return len(places), moves
