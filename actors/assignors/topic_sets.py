"""Number the partitions of a group's topics, and find which of the topics have the same subscribers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, chain
from typing import NamedTuple

from actors.assignors.kernels import Ints
from actors.assignors.spec import MemberSpec

NO_RACK = -1
RacksOf = Callable[[bytes], Sequence[str | None]]
"""A function that gives the rack of each partition of a topic, by its id."""


class Equals(NamedTuple):
    """Topics with the same subscribers and the same number of partitions."""

    topics: Ints
    """The topics' places in `Layout.topic_ids`, ascending."""
    begins: Ints
    """Where the partitions of each topic begin."""
    partitions: int
    """How many partitions each topic has."""


class TopicSet(NamedTuple):
    """Topics that have the same subscribers, and their partitions."""

    topics: Ints
    """The topics' places in `Layout.topic_ids`, ascending."""
    classes: tuple[int, ...]
    """The classes of subscribers, ascending."""
    partitions: int
    """How many partitions all topics have together."""
    begins: Ints
    """Where the spans of partitions begin; span i ends at ends[i], and neighbours are one span."""
    ends: Ints
    equals: tuple[Equals, ...]


class Layout(NamedTuple):
    """How partitions are numbered: partition p of the topic at place t is number `starts[t] + p`."""

    topic_ids: list[bytes]
    """The ids of the subscribed topics, ascending."""
    starts: list[int]
    """The number of each topic's first partition, and at the end the number of all partitions."""
    topic_sets: list[TopicSet]
    is_simple: bool
    """Whether all that a member subscribes to is of one topic set, and of one number of partitions."""


def lay_out(
    classes: Mapping[frozenset[bytes], int],
    partition_count: Callable[[bytes], int],
    array: Callable[[list[int]], Ints],
) -> Layout:
    """Number the partitions of all subscribed topics. `classes` numbers the distinct subscriptions; `array`
    makes of a list what the kernels take."""
    classes_of: dict[bytes, list[int]] = {}
    for subscription, number in classes.items():
        for topic_id in subscription:
            classes_of.setdefault(topic_id, []).append(number)
    topic_ids = sorted(classes_of)
    counts = [partition_count(topic_id) for topic_id in topic_ids]
    starts = [0, *accumulate(counts)]
    places: dict[tuple[int, ...], list[int]] = {}
    for place, topic_id in enumerate(topic_ids):
        if counts[place]:
            places.setdefault(tuple(sorted(classes_of[topic_id])), []).append(place)
    sets = [_topic_set(topics, subscribers, starts, array) for subscribers, topics in places.items()]
    is_simple = len(set(chain.from_iterable(places))) == sum(map(len, places)) and all(
        len(each.equals) == 1 for each in sets
    )
    return Layout(topic_ids, starts, sets, is_simple)


def _topic_set(
    topics: list[int], classes: tuple[int, ...], starts: list[int], array: Callable[[list[int]], Ints]
) -> TopicSet:
    begins: list[int] = []
    ends: list[int] = []
    equals: dict[int, list[int]] = {}
    for topic in topics:
        begin, end = starts[topic], starts[topic + 1]
        if ends and ends[-1] == begin:
            ends[-1] = end
        else:
            begins.append(begin)
            ends.append(end)
        equals.setdefault(end - begin, []).append(topic)
    return TopicSet(
        array(topics),
        classes,
        sum(ends) - sum(begins),
        array(begins),
        array(ends),
        tuple(
            Equals(array(alike), array([starts[topic] for topic in alike]), count)
            for count, alike in equals.items()
        ),
    )


def key(member: MemberSpec) -> tuple[bool, str, str]:
    """Return a member's place in Kafka's order of members: static ones by instance id, then the others by
    member id, so that a restarted static member stands where it stood."""
    return member.instance_id is None, member.instance_id or "", member.member_id


def partition_racks(topic_ids: Iterable[bytes], racks_of: RacksOf) -> tuple[list[int], dict[str, int]]:
    """Return a number for the rack of each partition, NO_RACK if it has none; and the number of each rack."""
    numbers: dict[str, int] = {}
    named = chain.from_iterable(racks_of(topic_id) for topic_id in topic_ids)
    return [NO_RACK if r is None else numbers.setdefault(r, len(numbers)) for r in named], numbers


def member_racks(members: Iterable[MemberSpec], numbers: Mapping[str, int]) -> list[int]:
    return [NO_RACK if m.rack_id is None else numbers.get(m.rack_id, NO_RACK) for m in members]
