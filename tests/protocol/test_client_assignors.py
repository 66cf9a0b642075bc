"""Members that assign, on the wire (A4, A7, A9, A10): the layouts of `own_schemas`, written by kio."""

from __future__ import annotations

import struct
from importlib import import_module
from uuid import UUID

import pytest
from kio.serial import entity_reader

from actors.catalog.codec import HOT_REQUESTS, decode, encode
from actors.ground.records import ClientAssignor
from actors.protocol import api_keys as k
from actors.protocol.client_assignor_messages import (
    INVALID_ASSIGNMENT,
    ClientSide,
    InstallAssignmentRequest,
    InstallAssignmentResponse,
    InstalledMember,
    PrepareAssignmentRequest,
    PrepareAssignmentResponse,
    PreparedMember,
    PreparedTopic,
)
from actors.protocol.entities import build, nested, request_class, response_class
from actors.protocol.hot_requests import UNUSUAL
from actors.protocol.messages import NO_ERROR, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from actors.protocol.schema_classes import Kind, made_classes
from tests.protocol.random_entities import kio_bytes, opened, request_head
from tests.protocol.same_classes import differences

HEARTBEAT = "consumer_group_heartbeat"
ID = UUID(int=7)
ONE = struct.pack(">2i", 0, 3)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("kind", ["request", "response"])
def test_our_heartbeat_is_kafkas_but_for_tags_from_10_000_on(version: int, kind: Kind) -> None:
    name = "ConsumerGroupHeartbeat" + kind.capitalize()
    kio = getattr(import_module(f"kio.schema.consumer_group_heartbeat.v{version}.{kind}"), name)
    ours = getattr(made_classes(HEARTBEAT, version, kind), name)
    [only_fields] = differences(ours, kio)
    added = [
        each.metadata["tag"]
        for name, each in ours.__dataclass_fields__.items()
        if name not in kio.__dataclass_fields__
    ]
    assert only_fields.startswith(f"{name}: [")
    assert added == ([10_000] if kind == "request" else list(range(10_000, 10_005)))


@pytest.mark.parametrize("version", [0, 1])
def test_a4_a_heartbeat_brings_assignors_in_a_tag(version: int) -> None:
    """The hand-written reader leaves it to the schema, and an unknown tag beside it is passed over."""
    made = made_classes(HEARTBEAT, version, "request")
    given = made.ClientAssignor(
        name="sticky",
        minimum_version=1,
        maximum_version=3,
        reason=-5,
        metadata_version=2,
        metadata_bytes=b"capacity",
    )
    entity = build(
        made.ConsumerGroupHeartbeatRequest,
        group_id="g",
        member_id="m",
        member_epoch=3,
        topic_partitions=None,
        client_assignors=(given,),
    )
    frame = request_head(k.CONSUMER_GROUP_HEARTBEAT, version) + kio_bytes(entity)
    expected = ConsumerGroupHeartbeatRequest(
        "g", "m", 3, client_assignors=(ClientAssignor("sticky", 1, 3, -5, 2, b"capacity"),)
    )
    header, _, body_offset = opened(frame)
    assert decode(header, frame, body_offset) == expected
    with pytest.raises(UNUSUAL):
        HOT_REQUESTS[k.CONSUMER_GROUP_HEARTBEAT << 16 | version](frame, body_offset)


def test_a7_a_client_of_kafkas_reads_an_answer_with_our_tags() -> None:
    told = ClientSide(True, 3, ((ID.bytes, ONE),), 2, b"yours")
    body = ConsumerGroupHeartbeatResponse(NO_ERROR, None, "m", 5, 5_000, ((ID.bytes, ONE),), told)
    frame = encode(k.CONSUMER_GROUP_HEARTBEAT, 1, 7, body)
    kios = import_module("kio.schema.consumer_group_heartbeat.v1.response").ConsumerGroupHeartbeatResponse
    plain = encode(k.CONSUMER_GROUP_HEARTBEAT, 1, 7, body._replace(client=None))
    assert frame[4 : len(plain) - 1] == plain[4:-1], "the tags stand behind all else"
    entity, _ = entity_reader(kios)(plain, 9)
    assert entity.assignment.topic_partitions[0].partitions == (0, 3)


def test_a9_the_group_that_is_handed_out() -> None:
    asked = build(
        request_class(k.CONSUMER_GROUP_PREPARE_ASSIGNMENT, 0), group_id="g", member_id="m", member_epoch=3
    )
    frame = request_head(k.CONSUMER_GROUP_PREPARE_ASSIGNMENT, 0) + kio_bytes(asked)
    assert decode(*opened(frame)) == PrepareAssignmentRequest("g", "m", 3)
    member = PreparedMember(
        "m", 3, None, "rack", frozenset({ID.bytes}), 1, 2, b"capacity", ((ID.bytes, ONE),)
    )
    topic = PreparedTopic(ID.bytes, "orders", 4, ("a", "", "b", "a"))
    body = PrepareAssignmentResponse(0, None, 9, "sticky", (member,), (topic,))
    answer = encode(k.CONSUMER_GROUP_PREPARE_ASSIGNMENT, 0, 7, body)
    entity, _ = entity_reader(response_class(k.CONSUMER_GROUP_PREPARE_ASSIGNMENT, 0))(answer, 9)
    assert (entity.error_code, entity.group_epoch, entity.assignor_name) == (0, 9, "sticky")
    [shown], [topic_shown] = entity.members, entity.topics
    assert (shown.subscribed_topic_ids, shown.metadata_bytes) == ((ID,), b"capacity")
    assert shown.topic_partitions[0].partitions == (0, 3)
    assert (topic_shown.topic_name, topic_shown.partition_racks) == ("orders", ("a", "", "b", "a"))


def test_a10_the_assignment_that_comes_back() -> None:
    key = k.CONSUMER_GROUP_INSTALL_ASSIGNMENT
    partitions = nested(key, 0, "TopicPartitions", "request")(topic_id=ID, partitions=(3, 3, -1))
    member = nested(key, 0, "Member", "request")(
        member_id="m", error=2, topic_partitions=(partitions,), metadata_version=1, metadata_bytes=b"yours"
    )
    asked = build(
        request_class(key, 0),
        group_id="g",
        member_id="m",
        member_epoch=3,
        group_epoch=9,
        error=0,
        error_message=None,
        members=(member,),
    )
    frame = request_head(key, 0) + kio_bytes(asked)
    installed = InstalledMember("m", 2, ((ID.bytes, (3, 3, -1)),), 1, b"yours")
    assert decode(*opened(frame)) == InstallAssignmentRequest("g", "m", 3, 9, 0, None, (installed,))
    answer = encode(key, 0, 7, InstallAssignmentResponse(INVALID_ASSIGNMENT, "m is named twice"))
    entity, _ = entity_reader(response_class(key, 0))(answer, 9)
    assert (entity.error_code, entity.error_message) == (20_000, "m is named twice")
