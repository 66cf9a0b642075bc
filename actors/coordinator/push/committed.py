"""Offsets that consumers tell with their answers become the group's committed offsets (D4, D5)."""

from __future__ import annotations

from actors.coordinator.classic.outcome import Outcome
from actors.coordinator.ground.group_offsets import NO_OFFSETS
from actors.coordinator.ground.partitions import unpack
from actors.coordinator.offsets import tallies as commit_tallies
from actors.coordinator.offsets.written import written
from actors.coordinator.push.group import Consumer, PushGroup
from actors.coordinator.push.ownership import whole
from actors.coordinator.push.state import stored_of
from actors.protocol.messages import OffsetCommitRequest
from actors.protocol.push_messages import ConsumedOffsets


def commit(outcome: Outcome, group: PushGroup, consumer: Consumer, told: ConsumedOffsets) -> None:
    """Commit what is news, of partitions that the consumer owns: what others own is not its to tell. Negative
    offsets say that it has none yet."""
    if not told or not consumer.value.auto_commit:
        return
    state, group_id = outcome.state, group.group_id
    owned = _owned(outcome, group, consumer)
    committed = state.offsets.get(group_id, NO_OFFSETS)
    topics = []
    for topic, offsets in told:
        mine = owned.get(topic, frozenset())
        rows = []
        for partition, offset in dict(offsets).items():
            before = committed.get((topic, partition))
            if partition in mine and offset >= 0 and (before is None or before.offset != offset):
                rows.append((partition, offset, -1, ""))
        if rows:
            topics.append((topic, tuple(rows)))
    if not topics:
        return
    body = OffsetCommitRequest(group_id, group.epoch, consumer.consumer_id, None, -1, tuple(topics))
    found = written(state, body, outcome.now_ms)
    if found is not None:
        records, _, count = found
        state.offset_counts["commits"] += count
        outcome.events += commit_tallies.count(state, body, records, count, outcome.now_ms)
        outcome.records += records


def _owned(outcome: Outcome, group: PushGroup, consumer: Consumer) -> dict[str, frozenset[int]]:
    """Topics -> the partitions that the consumer owns and that exist."""
    image = outcome.state.image
    value = stored_of(outcome.state, group.group_id).ownership.get(consumer.consumer_id)
    owned = {}
    for topic_id, packed in whole(value):
        topic = image.topics_by_id.get(topic_id)
        if topic is not None:
            owned[topic.name] = frozenset(each for each in unpack(packed) if each < topic.partition_count)
    return owned
