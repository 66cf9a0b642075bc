"""Group requests of all versions become the same neutral requests, whether read by hand or by schema."""

from __future__ import annotations

import random
import struct
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from actors.catalog.codec import HOT_REQUESTS, decode, decode_by_schema
from actors.catalog.groups import GROUP_APIS
from actors.catalog.table import coordinated
from actors.protocol import api_keys
from actors.protocol.entities import build, nested, request_class
from actors.protocol.errors import MalformedRequest, UnsupportedRequest
from actors.protocol.hot_requests import UNUSUAL
from actors.protocol.messages import (
    CommittedPartition,
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    OffsetCommitRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
)
from tests.protocol.random_entities import (
    EVERY_VERSION,
    kio_bytes,
    opened,
    random_request,
    request_head,
)

GROUP_VERSIONS = [key for key in EVERY_VERSION if key[0] in GROUP_APIS]
HOT_VERSIONS = [key for key in GROUP_VERSIONS if key[0] << 16 | key[1] in HOT_REQUESTS]


def _decoded(api_key: int, api_version: int, **fields: Any) -> Any:
    entity = build(request_class(api_key, api_version), **fields)
    return decode(*opened(request_head(api_key, api_version) + kio_bytes(entity)))


@pytest.mark.parametrize(("api_key", "api_version"), GROUP_VERSIONS)
def test_every_group_request_is_the_neutral_form_of_what_kio_wrote(api_key: int, api_version: int) -> None:
    rng = random.Random(api_key * 100 + api_version)
    for _ in range(60):
        entity, frame = random_request(rng, api_key, api_version)
        assert decode(*opened(frame)) == coordinated(api_key).decode(entity)
        assert decode(*opened(frame + b"\xff")) == coordinated(api_key).decode(entity)


def test_hot_requests_are_all_versions_of_heartbeats_offsets_and_rebalances() -> None:
    hot = {
        api_keys.HEARTBEAT,
        api_keys.CONSUMER_GROUP_HEARTBEAT,
        api_keys.OFFSET_COMMIT,
        api_keys.OFFSET_FETCH,
        api_keys.JOIN_GROUP,
        api_keys.SYNC_GROUP,
    }
    assert {key for key in GROUP_VERSIONS if key[0] in hot} == set(HOT_VERSIONS)


@pytest.mark.parametrize(("api_key", "api_version"), HOT_VERSIONS)
def test_what_a_hand_written_decoder_accepts_is_what_the_schema_says(api_key: int, api_version: int) -> None:
    rng = random.Random(api_key * 100 + api_version)
    read_by_hand = 0
    for _ in range(60):
        _, frame = random_request(rng, api_key, api_version)
        for _ in range(20):
            spoilt = bytearray(frame)
            spoilt[rng.randrange(len(request_head(api_key, api_version)), len(frame))] ^= 1 << rng.randrange(
                8
            )
            arguments = opened(
                bytes(spoilt[: rng.choice((len(frame), rng.randint(len(frame) - 3, len(frame))))])
            )
            try:
                by_hand = HOT_REQUESTS[api_key << 16 | api_version](*arguments[1:])
            except (*UNUSUAL, MalformedRequest):
                continue
            read_by_hand += 1
            assert by_hand == decode_by_schema(*arguments)
    assert read_by_hand > 100


def test_c4_join_group_0_has_one_timeout_for_both() -> None:
    fields = {
        "group_id": "g",
        "session_timeout": timedelta(seconds=10),
        "rebalance_timeout": timedelta(seconds=60),
        "member_id": "m",
        "protocol_type": "consumer",
        "protocols": (),
    }
    old = JoinGroupRequest("g", 10_000, 10_000, "m", None, "consumer", ())
    assert _decoded(api_keys.JOIN_GROUP, 0, **fields) == old
    assert _decoded(api_keys.JOIN_GROUP, 1, **fields) == old._replace(rebalance_timeout_ms=60_000)
    newest = _decoded(api_keys.JOIN_GROUP, 9, **fields, group_instance_id="i", reason="why")
    assert newest == JoinGroupRequest("g", 10_000, 60_000, "m", "i", "consumer", (), "why")


def test_w7_leave_group_below_3_names_one_member() -> None:
    one = LeaveGroupRequest("g", (LeavingMember("m"),))
    assert _decoded(api_keys.LEAVE_GROUP, 2, group_id="g", member_id="m") == one
    member_class = nested(api_keys.LEAVE_GROUP, 5, "MemberIdentity", "request")
    members = (build(member_class, member_id="m", group_instance_id="i", reason="done"),)
    several = LeaveGroupRequest("g", (LeavingMember("m", "i", "done"),))
    assert _decoded(api_keys.LEAVE_GROUP, 5, group_id="g", members=members) == several


def test_w6_offset_fetch_below_8_is_a_batch_of_one_group() -> None:
    topic = build(
        nested(api_keys.OFFSET_FETCH, 7, "OffsetFetchRequestTopic", "request"),
        name="t",
        partition_indexes=(2, 0),
    )
    one = OffsetFetchRequest((OffsetFetchGroup("g", (("t", (2, 0)),)),), True)
    assert _decoded(api_keys.OFFSET_FETCH, 7, group_id="g", topics=(topic,), require_stable=True) == one
    every = OffsetFetchRequest((OffsetFetchGroup("g", None),))
    assert _decoded(api_keys.OFFSET_FETCH, 7, group_id="g", topics=None) == every
    group = build(
        nested(api_keys.OFFSET_FETCH, 9, "OffsetFetchRequestGroup", "request"),
        group_id="g",
        member_id="m",
        member_epoch=4,
        topics=None,
    )
    asked = OffsetFetchRequest((OffsetFetchGroup("g", None, "m", 4),))
    assert _decoded(api_keys.OFFSET_FETCH, 9, groups=(group,)) == asked


@pytest.mark.parametrize("api_version", range(2, 11))
def test_o5_offset_commit_of_each_version(api_version: int) -> None:
    partition = build(
        nested(api_keys.OFFSET_COMMIT, api_version, "OffsetCommitRequestPartition", "request"),
        partition_index=3,
        committed_offset=2**40,
        committed_leader_epoch=5,
        committed_metadata=None,
    )
    topic = build(
        nested(api_keys.OFFSET_COMMIT, api_version, "OffsetCommitRequestTopic", "request"),
        name="t",
        topic_id=UUID(int=7),
        partitions=(partition,),
    )
    decoded = _decoded(
        api_keys.OFFSET_COMMIT,
        api_version,
        group_id="g",
        generation_id_or_member_epoch=7,
        member_id="m",
        group_instance_id="i",
        retention_time=timedelta(milliseconds=99),
        topics=(topic,),
    )
    epoch = 5 if api_version >= 6 else -1
    assert decoded == OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=7,
        member_id="m",
        group_instance_id="i" if api_version >= 7 else None,
        retention_time_ms=99 if api_version <= 4 else -1,
        topics=(("t" if api_version < 10 else "", (CommittedPartition(3, 2**40, epoch, None),)),),
        topic_ids=None if api_version < 10 else (UUID(int=7).bytes,),
    )


def test_o9_offset_fetch_10_names_topics_by_id() -> None:
    """A null id reads as zeros; all topics of a group need no ids."""
    topic_class = nested(api_keys.OFFSET_FETCH, 10, "OffsetFetchRequestTopics", "request")
    group_class = nested(api_keys.OFFSET_FETCH, 10, "OffsetFetchRequestGroup", "request")
    topics = tuple(
        build(topic_class, topic_id=topic_id, partition_indexes=(1,)) for topic_id in (UUID(int=7), None)
    )
    groups = (build(group_class, group_id="g", topics=topics), build(group_class, group_id="h", topics=None))
    some = OffsetFetchGroup("g", (("", (1,)), ("", (1,))), topic_ids=(UUID(int=7).bytes, bytes(16)))
    every = OffsetFetchGroup("h", None)
    assert _decoded(api_keys.OFFSET_FETCH, 10, groups=groups) == OffsetFetchRequest((some, every))


@pytest.mark.parametrize("api_version", [0, 1])
def test_m1_owned_partitions_come_sorted_merged_and_packed(api_version: int) -> None:
    topic_class = nested(api_keys.CONSUMER_GROUP_HEARTBEAT, api_version, "TopicPartitions", "request")
    low, high = UUID(int=1), UUID(int=2)
    owned = tuple(
        build(topic_class, topic_id=topic_id, partitions=partitions)
        for topic_id, partitions in ((high, (3, 1)), (low, ()), (high, (2, 3)), (None, (0,)))
    )
    decoded = _decoded(
        api_keys.CONSUMER_GROUP_HEARTBEAT,
        api_version,
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout=timedelta(seconds=300),
        subscribed_topic_names=("b", "a"),
        subscribed_topic_regex="x.*",
        topic_partitions=owned,
    )
    assert decoded == ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=300_000,
        subscribed_topic_names=("b", "a"),
        subscribed_topic_regex="x.*" if api_version else None,
        topic_partitions=((bytes(16), struct.pack(">i", 0)), (high.bytes, struct.pack(">3i", 1, 2, 3))),
    )


def test_m18_a_heartbeat_without_news_is_all_nulls() -> None:
    steady = _decoded(
        api_keys.CONSUMER_GROUP_HEARTBEAT,
        1,
        group_id="g",
        member_id="m",
        member_epoch=9,
        topic_partitions=None,
    )
    assert steady == ConsumerGroupHeartbeatRequest("g", "m", 9)


def test_w13_heartbeats_with_tags_nulls_and_broken_text() -> None:
    head = request_head(api_keys.HEARTBEAT, 4)
    tagged = head + b"\x02g\0\0\0\1\x02m\0" + b"\x02\x07\x01a\x07\x00"
    assert decode(*opened(tagged)) == HeartbeatRequest("g", 1, "m", None)
    broken = head + b"\x02\xff\0\0\0\1\x02m\x02i\0"
    assert decode(*opened(broken)) == HeartbeatRequest("\ufffd", 1, "m", "i")
    old = request_head(api_keys.HEARTBEAT, 3)
    null_by_minus_two = old + b"\0\1g\0\0\0\1\0\1m\xff\xfe"
    assert decode(*opened(null_by_minus_two)) == HeartbeatRequest("g", 1, "m", None)


def test_another_api_is_no_group_request() -> None:
    frame = request_head(api_keys.METADATA, 1) + b"\xff\xff\xff\xff"
    with pytest.raises(UnsupportedRequest):
        decode(*opened(frame))
