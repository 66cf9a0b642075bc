"""Set algebra on assignments as they are stored and sent: `TopicPartitions` of `records`.

A topic's partitions stay packed (big-endian int32, ascending) unless two packed arrays of the same topic
differ; then that one topic is unpacked. Equal inputs, by far the most common, cost one comparison.
Every function takes and gives well-formed values: sorted by topic id, no topic twice, none empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import pack as struct_pack
from struct import unpack as struct_unpack

from actors.ground.records import TopicPartitions

EMPTY: TopicPartitions = ()
PARTITION_BYTES = 4


def pack(partitions: Iterable[int]) -> bytes:
    """Pack partition numbers, ascending and without repetition, whatever the order given."""
    ordered = sorted(set(partitions))
    return struct_pack(f">{len(ordered)}i", *ordered)


def unpack(packed: bytes) -> tuple[int, ...]:
    return struct_unpack(f">{len(packed) // PARTITION_BYTES}i", packed)


def from_lists(partitions: Mapping[bytes, Iterable[int]]) -> TopicPartitions:
    packed = ((topic_id, pack(numbers)) for topic_id, numbers in sorted(partitions.items()))
    return tuple(pair for pair in packed if pair[1])


def count(assignment: TopicPartitions) -> int:
    return sum(len(packed) for _, packed in assignment) // PARTITION_BYTES


def union(left: TopicPartitions, right: TopicPartitions) -> TopicPartitions:
    if not right or left == right:
        return left
    if not left:
        return right
    merged = dict(left)
    for topic_id, packed in right:
        mine = merged.get(topic_id)
        merged[topic_id] = packed if mine is None else _merge(mine, packed)
    return tuple(sorted(merged.items()))


def intersection(left: TopicPartitions, right: TopicPartitions) -> TopicPartitions:
    if left == right:
        return left
    if not left or not right:
        return EMPTY
    theirs = dict(right)
    common: list[tuple[bytes, bytes]] = []
    for pair in left:
        other = theirs.get(pair[0])
        if other is None:
            continue
        if other == pair[1]:
            common.append(pair)
            continue
        shared = pack(set(unpack(pair[1])).intersection(unpack(other)))
        if shared:
            common.append((pair[0], shared))
    return tuple(common)


def difference(left: TopicPartitions, right: TopicPartitions) -> TopicPartitions:
    if not left or left == right:
        return EMPTY
    if not right:
        return left
    theirs = dict(right)
    rest: list[tuple[bytes, bytes]] = []
    for pair in left:
        other = theirs.get(pair[0])
        if other is None:
            rest.append(pair)
        elif other != pair[1]:
            kept = pack(set(unpack(pair[1])).difference(unpack(other)))
            if kept:
                rest.append((pair[0], kept))
    return tuple(rest)


def contains(whole: TopicPartitions, part: TopicPartitions) -> bool:
    """Whether every partition of `part` is in `whole`."""
    if not part or whole == part:
        return True
    theirs = dict(whole)
    for topic_id, packed in part:
        other = theirs.get(topic_id)
        if other is None:
            return False
        if other != packed and not set(unpack(packed)).issubset(unpack(other)):
            return False
    return True


def overlaps(left: TopicPartitions, right: TopicPartitions) -> bool:
    """Whether the two have a partition in common."""
    if not left or not right:
        return False
    theirs = dict(right)
    for topic_id, packed in left:
        other = theirs.get(topic_id)
        if other is None:
            continue
        if other == packed or not set(unpack(packed)).isdisjoint(unpack(other)):
            return True
    return False


def _merge(left: bytes, right: bytes) -> bytes:
    return left if left == right else pack(unpack(left) + unpack(right))
