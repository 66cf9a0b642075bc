"""Whatever is asked in whatever order: undo restores, snapshots restore, every answer is complete."""

from __future__ import annotations

from typing import Any

import msgpack
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.ground.image import MetadataImage
from actors.ground.spec import BrokerSettings, Copy
from actors.ground.topic_names import collision_name
from actors.metadata.commands import (
    AllocateProducerIds,
    AlterTopicConfigs,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ForgetReplica,
    FoundTier,
    GroupCopies,
    MorePartitions,
    NewTopic,
    PlaceGroup,
    RegisterNode,
    ReportController,
    ReportLeader,
    SeedPlacement,
    SetNodeAlive,
    TopicConfigChange,
    TopicToDelete,
    pack,
    unpack,
)
from actors.metadata.node_commands import AddNode, MoveNode, RemoveNode, SetNodeDuty
from actors.metadata.shard import RECORD_TYPES, MetadataShard
from tests.metadata.driver import Host, new_shard, state_of

NAMES = st.sampled_from(["a", "b", "a.b", "a_b", "bad name", ""])
NODE_IDS = st.integers(0, 3)
PORT = st.just(9093)
CONFIGS = st.sampled_from(["retention.ms", "cleanup.policy", "unknown"])
VALUES = st.sampled_from(["1", "delete", "compact,delete", "", None])
GROUPS = st.sampled_from(["controller", "partition-0"])
ROWS = st.lists(st.builds(Copy, st.integers(-1, 3), NODE_IDS), min_size=1, max_size=3).map(tuple)
COMMANDS = st.one_of(
    st.builds(
        CreateTopics,
        st.lists(
            st.builds(NewTopic, NAMES, st.integers(-2, 6), st.integers(-1, 3)), min_size=1, max_size=3
        ).map(tuple),
        st.booleans(),
    ),
    st.builds(
        DeleteTopics,
        st.lists(
            st.one_of(
                st.builds(TopicToDelete, NAMES),
                st.integers(0, 9).map(lambda number: TopicToDelete(None, number.to_bytes(16, "big"))),
            ),
            max_size=3,
        ).map(tuple),
    ),
    st.builds(
        CreatePartitions,
        st.lists(st.builds(MorePartitions, NAMES, st.integers(-1, 12)), max_size=2).map(tuple),
        st.booleans(),
    ),
    st.builds(
        AlterTopicConfigs,
        st.lists(
            st.builds(
                TopicConfigChange,
                NAMES,
                st.lists(st.tuples(CONFIGS, st.integers(-1, 4), VALUES), max_size=2).map(tuple),
            ),
            max_size=2,
        ).map(tuple),
        st.booleans(),
    ),
    st.builds(AllocateProducerIds, NODE_IDS),
    st.builds(RegisterNode, NODE_IDS, st.sampled_from(["h1", "h2"]), st.just(9092)),
    st.builds(SetNodeAlive, NODE_IDS, st.booleans()),
    st.builds(ReportLeader, st.integers(-1, 5), NODE_IDS, st.integers(0, 5)),
    st.builds(ReportController, NODE_IDS),
    st.builds(
        SeedPlacement, st.lists(st.builds(GroupCopies, GROUPS, ROWS, st.just(())), max_size=2).map(tuple)
    ),
    st.builds(PlaceGroup, GROUPS, ROWS, ROWS),
    st.builds(
        AddNode, st.integers(0, 9), st.sampled_from(["h1", "h3"]), st.just(9093), st.none(), st.just(9)
    ),
    st.builds(SetNodeDuty, NODE_IDS, st.integers(0, 2)),
    st.builds(MoveNode, NODE_IDS, st.sampled_from(["h1", "h4"]), PORT, st.just("m")),
    st.builds(RemoveNode, NODE_IDS),
    st.builds(ForgetReplica, GROUPS, st.integers(0, 3)),
)


def same(one: MetadataImage, other: MetadataImage) -> bool:
    return all(getattr(one, field) == getattr(other, field) for field in MetadataImage.__slots__)


def check(shard: MetadataShard) -> None:
    """Check what must hold after any history."""
    state, image = shard.state, shard.image()
    assert state.partition_total == sum(topic.partition_count for topic in image.created_topics.values())
    assert state.topic_names == {topic.topic_id: topic.name for topic in image.created_topics.values()}
    assert len(image.created_topics) <= state.settings.topics_max
    assert state.partition_total <= state.settings.partitions_max
    collisions = [collision_name(name) for name in image.created_topics if collision_name(name) is not None]
    assert len(set(collisions)) == len(collisions)
    assert set(state.colliding_names) == set(collisions)
    alive = {node.node_id for node in image.nodes.values() if node.alive}
    assert set(state.homes) <= set(state.nodes)
    assert not any(state.was_removed(node_id) for node_id in state.nodes)
    for topic in image.created_topics.values():
        assert not alive or set(topic.partition_leaders) <= alive


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(COMMANDS, max_size=25), st.data())
def test_any_history_can_be_taken_back_and_restored(commands: list[Any], data: st.DataObject) -> None:
    host = Host(new_shard(BrokerSettings(topics_max=3, partitions_max=20)))
    host.submit(FoundTier(2))
    committed = data.draw(st.integers(0, len(commands)))
    version, at_commit, image_at_commit = 1, state_of(host.shard), host.shard.image()
    for number, command in enumerate(commands):
        if number == committed:
            host.undo.clear()
            at_commit, image_at_commit = state_of(host.shard), host.shard.image()
        answer = host.submit(command)
        assert unpack(pack(answer)) == answer
        if hasattr(command, "topics"):
            # A topic that is named twice, or by its name and its id, has one entry (W34).
            names = {each[0] for each in command.topics}
            assert len(names - {None}) <= len(answer.topics) <= len(command.topics)
        check(host.shard)
        assert version <= host.shard.image().version <= version + 1
        version = host.shard.image().version
    restored = new_shard(BrokerSettings(topics_max=3, partitions_max=20))
    for record in host.shard.records():
        key, value = msgpack.unpackb(msgpack.packb(record), use_list=False)
        key_class, value_class = RECORD_TYPES[key[0]]
        assert restored.apply(key_class(*key), value_class(*value)) is None
    assert state_of(restored) == state_of(host.shard)
    assert same(restored.image(), host.shard.image())
    check(restored)
    if committed < len(commands):
        host.take_back()
        assert state_of(host.shard) == at_commit
        assert same(host.shard.image(), image_at_commit)
        check(host.shard)


def test_records_of_a_newer_kind_are_skipped() -> None:
    shard = new_shard()
    assert shard.apply((999, "", "x"), ("y",)) is None
    assert state_of(shard) == []
