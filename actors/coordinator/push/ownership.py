"""Which thread of which consumer owns which partition, and whether that differs from what is owned (D8).

The division is the design's: each topic by itself, its partitions in order over the threads that read it,
sorted by consumer id and number, in ranges whose lengths differ by one at most.
"""

from __future__ import annotations

from collections.abc import Mapping

from actors.coordinator.ground.partitions import from_lists, union, unpack
from actors.coordinator.ground.regex import matches_of
from actors.ground.image import MetadataImage
from actors.ground.records import PushConsumerValue, PushOwnershipValue, TopicPartitions

TopicCounts = tuple[tuple[str, int, int], ...]
Ownership = dict[str, PushOwnershipValue]
"""Consumer id -> what it owns; who owns nothing is left out."""


def streams_of(counts: TopicCounts, image: MetadataImage) -> dict[str, int]:
    """Topics that exist -> with how many streams a consumer reads them. A topic's name wins over wildcards
    that match it, and of these the first."""
    topics = image.created_topics
    streams = {topic: number for topic, is_wildcard, number in counts if not is_wildcard and topic in topics}
    for pattern, is_wildcard, number in counts:
        if is_wildcard:
            matches = matches_of(pattern)
            for topic in topics:
                if topic not in streams and matches(topic):
                    streams[topic] = number
    return streams


def divided(consumers: Mapping[str, PushConsumerValue], image: MetadataImage) -> Ownership:
    """The new ownership of all topics that the consumers are interested in."""
    resolved: dict[TopicCounts, dict[str, int]] = {}
    threads: dict[str, list[tuple[str, int]]] = {}
    for consumer_id in sorted(consumers):
        counts = consumers[consumer_id].topic_counts
        if counts not in resolved:
            resolved[counts] = streams_of(counts, image)
        for topic, streams in resolved[counts].items():
            threads.setdefault(topic, []).extend((consumer_id, number) for number in range(streams))
    owned: dict[str, dict[int, dict[bytes, range]]] = {}
    for topic, of_topic in threads.items():
        topic_image = image.topics[topic]
        length, longer = divmod(topic_image.partition_count, len(of_topic))
        begin = 0
        for place, (consumer_id, number) in enumerate(of_topic):
            end = begin + length + (place < longer)
            if begin == end:
                break
            by_thread = owned.setdefault(consumer_id, {}).setdefault(number, {})
            by_thread[topic_image.topic_id] = range(begin, end)
            begin = end
    return {
        consumer_id: PushOwnershipValue(
            tuple(from_lists(by_thread.get(number, {})) for number in range(max(by_thread) + 1))
        )
        for consumer_id, by_thread in owned.items()
    }


def why_necessary(
    owned: Mapping[str, PushOwnershipValue], new: Ownership, image: MetadataImage
) -> str | None:
    """Why a rebalance is necessary, in the design's order; None: it is not."""
    if owned == new:
        return None
    if not owned:
        return "nobody owns anything"
    before = _places(owned)
    if not _places(new) <= before:
        return "partitions without an owner"
    if any(not _exists(place, image) for place in before):
        return "partitions that do not exist any longer"
    return "partitions that others are to own"


def whole(value: PushOwnershipValue | None) -> TopicPartitions:
    """All that a consumer owns, with whichever thread."""
    owned: TopicPartitions = ()
    for thread in () if value is None else value.threads:
        owned = union(owned, thread)
    return owned


def _places(owned: Mapping[str, PushOwnershipValue]) -> set[tuple[bytes, int]]:
    return {
        (topic_id, partition)
        for value in owned.values()
        for thread in value.threads
        for topic_id, packed in thread
        for partition in unpack(packed)
    }


def _exists(place: tuple[bytes, int], image: MetadataImage) -> bool:
    topic = image.topics_by_id.get(place[0])
    return topic is not None and place[1] < topic.partition_count
