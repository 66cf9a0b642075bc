"""Commands, results and images travel as bytes and come back equal; other bytes are refused in words."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.ground.features import GROUPD_VERSION, UPGRADE
from actors.ground.image import DRAINING, MetadataImage, TopicImage, Upstream
from actors.ground.spec import copies
from actors.ground.upstream_goal import ATTACHED, DETACHED
from actors.metadata.commands import (
    SET,
    AllocateProducerIds,
    AlterGroupConfigs,
    AlterGroupConfigsResult,
    AlterTopicConfigs,
    AlterTopicConfigsResult,
    CreatedTopic,
    CreatePartitions,
    CreatePartitionsResult,
    CreateTopics,
    CreateTopicsResult,
    DeletedTopic,
    DeleteTopics,
    DeleteTopicsResult,
    FeatureUpdate,
    ForgetReplica,
    GroupConfigChange,
    GroupCopies,
    GroupOutcome,
    MorePartitions,
    NewTopic,
    Outcome,
    PlaceGroup,
    ProducerIdBlock,
    RegisterNode,
    ReportController,
    ReportLeader,
    SeedPlacement,
    Served,
    SetNodeAlive,
    TopicConfigChange,
    TopicOutcome,
    TopicToDelete,
    Unreadable,
    UpdateFeatures,
    pack,
    unpack,
)
from actors.metadata.node_commands import AddNode, MoveNode, RemoveNode, SetNodeDuty
from actors.metadata.refusals import refused
from actors.metadata.upstream_commands import SetUpstreamGoal
from actors.metadata.wire import pack_image, unpack_image
from tests.metadata.driver import tier

COMMANDS: tuple[Any, ...] = (
    CreateTopics((NewTopic("a", 3, 1, ((0, (1, 2)),), (("retention.ms", "1"), ("x", None))),), True),
    DeleteTopics((TopicToDelete("a"), TopicToDelete(None, b"\1" * 16))),
    CreatePartitions((MorePartitions("a", 4, ((1,), (2,))), MorePartitions("b", 2)), False),
    AlterTopicConfigs((TopicConfigChange("a", (("retention.ms", SET, "1"),)),), True),
    AlterGroupConfigs((GroupConfigChange("g", (("consumer.session.timeout.ms", SET, "50000"),)),), True),
    AllocateProducerIds(1),
    RegisterNode(1, "h", 9092, "rack"),
    SetNodeAlive(1, False),
    AddNode(4, "h", 9095, None, 9095, "h:9900"),
    SetNodeDuty(1, 1),
    MoveNode(1, "h2", 9092, "h2:9900"),
    RemoveNode(1),
    ReportLeader(3, 1, 2**40),
    ReportController(2),
    SeedPlacement((GroupCopies("controller", copies((1, 2))), GroupCopies("partition-0", copies((3,))))),
    PlaceGroup("partition-0", copies((1,)), copies((1, 2))),
    ForgetReplica("partition-0", 1),
    SetUpstreamGoal(ATTACHED, DETACHED),
)
RESULTS: tuple[Any, ...] = (
    CreateTopicsResult((CreatedTopic("a", 0, None, b"\1" * 16, 3, 1, (("retention.ms", "1"),)),)),
    DeleteTopicsResult((DeletedTopic("a", b"\1" * 16), DeletedTopic(None, b"\2" * 16, 100, "no"))),
    CreatePartitionsResult((TopicOutcome("a", 37, "words"),)),
    AlterTopicConfigsResult((TopicOutcome("a"),)),
    AlterGroupConfigsResult((GroupOutcome("g", 40, "words"),)),
    ProducerIdBlock(0, 1_000, 1_000),
    Outcome(16, None),
)


@pytest.mark.parametrize("message", COMMANDS + RESULTS, ids=lambda message: type(message).__name__)
def test_a_message_comes_back_with_its_classes(message: Any) -> None:
    back = unpack(pack(message))
    assert back == message
    assert type(back) is type(message)
    for field, original in zip(back, message, strict=True):
        if isinstance(original, tuple) and original and hasattr(original[0], "_fields"):
            assert [type(entry) for entry in field] == [type(entry) for entry in original]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_a_refusal_of_any_command_travels_and_names_each_entry(command: Any) -> None:
    result = unpack(pack(refused(command, 41, "words")))
    entries = getattr(result, "topics", None) or getattr(result, "groups", None) or (result,)
    assert [entry.error_code for entry in entries] == [41] * len(entries)
    asked = getattr(command, "topics", None) or (command.groups if hasattr(result, "groups") else (command,))
    assert len(entries) == len(asked)


def test_an_image_comes_back_equal() -> None:
    host = tier()
    host.submit(CreateTopics((NewTopic("a", 5, configs=(("retention.ms", "9"),)), NewTopic("b"))))
    host.submit(SetNodeAlive(2, False))
    host.submit(ReportLeader(1, 3, 7))
    host.submit(SeedPlacement((GroupCopies("controller", copies((1, 3))),)))
    changes = (("consumer.session.timeout.ms", SET, "50000"),)
    host.submit(AlterGroupConfigs((GroupConfigChange("g", changes),)))
    served = (Served("broker-1", "", 1, 2),)
    host.submit(UpdateFeatures((FeatureUpdate(GROUPD_VERSION, 2, UPGRADE),), served=served))
    host.submit(AddNode(9, "host9", 9_099, "rack-b", 9_199, "host9:9900"))
    host.submit(SetNodeDuty(1, DRAINING))
    assert_comes_back(host.shard.image())


def test_an_image_in_front_of_a_cluster_comes_back_equal() -> None:
    topics = (TopicImage(b"t" * 16, "a", (-4, 2)),)
    upstream = Upstream(b"o" * 16, {-4: "rack-a", 7: None})
    assert_comes_back(MetadataImage(version=9, topics=topics, offsets_leaders=(1, 2), upstream=upstream))
    assert_comes_back(MetadataImage(upstream_goal=ATTACHED, offsets_leaders=(1,), upstream=Upstream()))


def assert_comes_back(image: MetadataImage) -> None:
    back = unpack_image(pack_image(image))
    for field in MetadataImage.__slots__:
        assert getattr(back, field) == getattr(image, field), field


@given(st.binary(max_size=64))
def test_garbage_is_refused_not_obeyed(garbage: bytes) -> None:
    for read in (unpack, unpack_image):
        with pytest.raises(Unreadable):
            read(garbage)


@pytest.mark.parametrize(
    "fields",
    [
        (9, "Outcome", (0, None)),
        (1, "MetadataShard", ()),
        (1, "Outcome", (0, None, 1)),
        (1, "CreateTopics", ()),
        (1, "CreateTopics", (7, False)),
        (1,),
        {},
    ],
)
def test_another_format_or_shape_is_refused(fields: Any) -> None:
    packed: bytes = msgpack.packb(fields)
    for read in (unpack, unpack_image):
        with pytest.raises(Unreadable):
            read(packed)
