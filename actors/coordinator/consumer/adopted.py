"""Consumer groups of Kafka's log, whose hashes of their topics are not ours.

The hash says whether the topics are still those that the group's target was computed with (M6). Kafka
computes another one over the same topics, so it tells nothing here, and every group would raise its epoch at
its first heartbeat. The target itself tells: server-side assignors give every partition to somebody. A group
whose target has all partitions of its topics, and nothing else, gets the hash of these topics in our form,
and so does one whose target is yet to be computed. Any other one keeps Kafka's, and so rebalances once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from actors.coordinator.consumer.model.group import ConsumerGroup
from actors.coordinator.consumer.model.metadata import metadata_hash, regex_topics_of
from actors.coordinator.consumer.model.state import consumer_groups
from actors.coordinator.consumer.regexes import subscribed_names
from actors.coordinator.ground.partitions import unpack
from actors.coordinator.ground.slices import sliced
from actors.coordinator.ground.state import ShardState
from actors.ground.contract import Record, Result
from actors.ground.image import MetadataImage
from actors.ground.records import CONSUMER_GROUP_METADATA, ConsumerGroupKey, ConsumerGroupValue


def adopt(state: ShardState) -> Iterator[Result]:
    """Write, in slices, the hashes of the groups whose topics are as they were."""
    for groups in sliced(list(consumer_groups(state).values())):
        yield Result([record for group in groups for record in _adopted(state.image, group)])


def _adopted(image: MetadataImage, group: ConsumerGroup) -> Iterator[Record]:
    if group.metadata is None:
        return
    names = subscribed_names(group, regex_topics_of(group))
    if group.assignment_epoch < group.group_epoch or _has_all(group, names, image):
        value = ConsumerGroupValue(group.group_epoch, metadata_hash(names, image))
        yield Record(ConsumerGroupKey(CONSUMER_GROUP_METADATA, group.group_id), value)


def _has_all(group: ConsumerGroup, names: Iterable[str], image: MetadataImage) -> bool:
    """Whether the members' targets are all partitions of these topics."""
    topics = (image.topics[name] for name in names if name in image.topics)
    all_partitions = {topic.topic_id: set(range(topic.partition_count)) for topic in topics}
    assigned: dict[bytes, set[int]] = {}
    for member in group.members.values():
        for topic_id, packed in member.target or ():
            assigned.setdefault(topic_id, set()).update(unpack(packed))
    return assigned == all_partitions
