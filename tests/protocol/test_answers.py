"""Answers to group requests in all versions: those packed by hand equal kio's byte for byte, the others field
for field."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

from actors.catalog.codec import HOT_ANSWERS, encode
from actors.catalog.groups import GROUP_APIS
from actors.protocol import api_keys
from actors.protocol.client_assignor_messages import ClientSide
from actors.protocol.entities import has_flexible_response_header, response_class
from actors.protocol.errors import UnsupportedRequest
from actors.protocol.messages import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatResponse,
    DeleteGroupsResponse,
    DescribedClassicGroup,
    DescribedClassicMember,
    DescribedConsumerGroup,
    DescribedConsumerMember,
    DescribedTopicPartitions,
    DescribeGroupsResponse,
    FetchedGroup,
    FetchedOffset,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    LeftMember,
    ListedGroup,
    ListGroupsResponse,
    OffsetCommitResponse,
    OffsetDeleteResponse,
    OffsetFetchResponse,
    SyncGroupResponse,
)
from tests.protocol.oracle import TO_KIO
from tests.protocol.random_entities import (
    ERRORS,
    EVERY_VERSION,
    kio_bytes,
    random_bytes,
    random_int,
    random_text,
)

GROUP_VERSIONS = [key for key in EVERY_VERSION if key[0] in GROUP_APIS]
HOT_VERSIONS = [key for key in GROUP_VERSIONS if key[0] << 16 | key[1] in HOT_ANSWERS]


def _text_or_none(rng: random.Random) -> str | None:
    return None if rng.randrange(3) == 0 else random_text(rng)


def _error(rng: random.Random) -> ErrorCode:
    return rng.choice((ErrorCode.none, rng.choice(ERRORS)))


def _assignment(rng: random.Random) -> Any:
    if rng.randrange(3) == 0:
        return None
    sizes = [rng.choice((1, 3, 126, 127, 128, 5000)) for _ in range(rng.choice((0, 1, 3, 130)))]
    return tuple((rng.randbytes(16), struct.pack(f">{size}i", *range(size))) for size in sizes)


_TOLD = random.Random(7)


def _client_side(rng: random.Random) -> ClientSide | None:
    """What a member that brings assignors is told (A7), each field in turn as it is by default."""
    if rng.randrange(2) == 0:
        return None
    return ClientSide(
        rng.random() < 0.5,
        rng.choice((0, random_int(rng, 8))),
        _assignment(rng) or (),
        rng.choice((-1, random_int(rng, 16))),
        rng.choice((None, random_bytes(rng))),
    )


def _committed(rng: random.Random) -> Any:
    return tuple(
        (
            random_text(rng),
            tuple((random_int(rng, 32), _error(rng)) for _ in range(rng.choice((0, 1, 10, 130)))),
        )
        for _ in range(rng.randrange(4))
    )


def _fetched(rng: random.Random) -> FetchedGroup:
    def one() -> FetchedOffset:
        metadata = rng.choice(("", random_text(rng)))
        return FetchedOffset(
            random_int(rng, 32), random_int(rng, 64), random_int(rng, 32), metadata, _error(rng)
        )

    topics = tuple(
        (random_text(rng), tuple(one() for _ in range(rng.choice((0, 1, 10, 130)))))
        for _ in range(rng.randrange(3))
    )
    return FetchedGroup(random_text(rng), topics, _error(rng), _ids(rng, topics))


def _ids(rng: random.Random, topics: Any) -> tuple[bytes, ...]:
    """Topic ids, some of which are zero; versions below 10 have no place for them."""
    return tuple(rng.choice((bytes(16), rng.randbytes(16))) for _ in topics)


def _random_answer(rng: random.Random, api_key: int, api_version: int) -> Any:
    match api_key:
        case api_keys.HEARTBEAT:
            return HeartbeatResponse(_error(rng))
        case api_keys.CONSUMER_GROUP_HEARTBEAT:
            return ConsumerGroupHeartbeatResponse(
                _error(rng),
                _text_or_none(rng),
                _text_or_none(rng),
                random_int(rng, 32),
                random_int(rng, 32),
                _assignment(rng),
                _client_side(_TOLD),
            )
        case api_keys.OFFSET_COMMIT:
            topics = _committed(rng)
            return OffsetCommitResponse(topics, _ids(rng, topics))
        case api_keys.OFFSET_FETCH:
            groups = rng.randrange(4) if api_version >= 8 else 1
            return OffsetFetchResponse(tuple(_fetched(rng) for _ in range(groups)))
        case api_keys.JOIN_GROUP:
            members = tuple(
                (random_text(rng), _text_or_none(rng), random_bytes(rng))
                for _ in range(rng.choice((0, 1, 130)))
            )
            return JoinGroupResponse(
                _error(rng),
                random_int(rng, 32),
                _text_or_none(rng),
                _text_or_none(rng),
                random_text(rng),
                rng.random() < 0.5,
                random_text(rng),
                members,
            )
        case _:
            return SyncGroupResponse(_error(rng), _text_or_none(rng), _text_or_none(rng), random_bytes(rng))


@pytest.mark.parametrize(("api_key", "api_version"), HOT_VERSIONS)
def test_hand_packed_answers_are_kios_bytes(api_key: int, api_version: int) -> None:
    rng = random.Random(api_key * 100 + api_version)
    tags = b"\0" if has_flexible_response_header(api_key, api_version) else b""
    for _ in range(25):
        body = _random_answer(rng, api_key, api_version)
        correlation_id = rng.randrange(-(2**31), 2**31)
        frame = struct.pack(">i", correlation_id) + tags + kio_bytes(TO_KIO[api_key](api_version, body))
        assert encode(api_key, api_version, correlation_id, body) == struct.pack(">i", len(frame)) + frame


def test_every_version_of_the_hot_apis_is_packed_by_hand() -> None:
    assert [key for key in GROUP_VERSIONS if key[0] in TO_KIO] == HOT_VERSIONS


def _read(api_key: int, api_version: int, body: Any) -> Any:
    """Return an answer as a client that speaks this version reads it."""
    answer = encode(api_key, api_version, 7, body)
    start = 9 if has_flexible_response_header(api_key, api_version) else 8
    assert struct.unpack_from(">ii", answer) == (len(answer) - 4, 7)
    entity, size = entity_reader(response_class(api_key, api_version))(answer, start)
    assert size == len(answer) - start
    return entity


def _shown(entity: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(entity, name) for name in names if hasattr(entity, name)}


def test_w6_offset_fetch_1_carries_the_groups_error_on_each_partition() -> None:
    topics = (("t", (FetchedOffset(0, 5), FetchedOffset(1))),)
    body = OffsetFetchResponse((FetchedGroup("g", topics, ErrorCode.not_coordinator),))
    (topic,) = _read(api_keys.OFFSET_FETCH, 1, body).topics
    assert [partition.error_code for partition in topic.partitions] == [ErrorCode.not_coordinator] * 2
    newer = _read(api_keys.OFFSET_FETCH, 2, body)
    assert newer.error_code is ErrorCode.not_coordinator
    assert [partition.error_code for partition in newer.topics[0].partitions] == [ErrorCode.none] * 2


@pytest.mark.parametrize("api_version", range(10))
def test_join_group_below_7_shows_no_null_protocol(api_version: int) -> None:
    answer = _read(api_keys.JOIN_GROUP, api_version, JoinGroupResponse(ErrorCode.unknown_member_id))
    assert answer.protocol_name == (None if api_version >= 7 else "")


@pytest.mark.parametrize("api_version", range(6))
def test_w7_leave_group_lifts_the_single_members_error_below_3(api_version: int) -> None:
    left = LeftMember("m", "i", ErrorCode.unknown_member_id)
    answer = _read(api_keys.LEAVE_GROUP, api_version, LeaveGroupResponse(ErrorCode.none, (left,)))
    if api_version < 3:
        assert answer.error_code is ErrorCode.unknown_member_id
    else:
        (member,) = answer.members
        assert answer.error_code is ErrorCode.none
        assert (member.member_id, member.group_instance_id, member.error_code) == left
    refused = LeaveGroupResponse(ErrorCode.not_coordinator)
    assert _read(api_keys.LEAVE_GROUP, api_version, refused).error_code is ErrorCode.not_coordinator


@pytest.mark.parametrize("api_version", range(7))
def test_describe_groups_shows_what_its_version_has(api_version: int) -> None:
    member = DescribedClassicMember("m", "i", "client", "/127.0.0.1", b"meta", b"given")
    group = DescribedClassicGroup(
        ErrorCode.none, "g", "Stable", "consumer", "range", (member,), "no trouble", 8
    )
    (shown,) = _read(api_keys.DESCRIBE_GROUPS, api_version, DescribeGroupsResponse((group,))).groups
    (shown_member,) = shown.members
    for told, seen in ((group._replace(members=shown.members), shown), (member, shown_member)):
        fields = _shown(seen, told._fields)
        assert fields == {name: getattr(told, name) for name in fields}
    assert hasattr(shown, "error_message") is (api_version >= 6)
    assert hasattr(shown, "authorized_operations") is (api_version >= 3)
    assert hasattr(shown_member, "group_instance_id") is (api_version >= 4)


@pytest.mark.parametrize("api_version", range(6))
def test_list_groups_shows_what_its_version_has(api_version: int) -> None:
    group = ListedGroup("g", "consumer", "Stable", "Classic")
    answer = _read(api_keys.LIST_GROUPS, api_version, ListGroupsResponse(ErrorCode.none, (group,)))
    fields = _shown(answer.groups[0], group._fields)
    assert fields == {name: getattr(group, name) for name in fields}
    assert len(fields) == 2 + (api_version >= 4) + (api_version >= 5)


@pytest.mark.parametrize("api_version", range(3))
def test_delete_groups_answers_each_group(api_version: int) -> None:
    body = DeleteGroupsResponse((("a", ErrorCode.none), ("b", ErrorCode.non_empty_group)))
    answer = _read(api_keys.DELETE_GROUPS, api_version, body)
    assert tuple((result.group_id, result.error_code) for result in answer.results) == body.results


def test_offset_delete_answers_each_partition() -> None:
    topics = (("t", ((0, ErrorCode.none), (1, ErrorCode.group_subscribed_to_topic))),)
    answer = _read(api_keys.OFFSET_DELETE, 0, OffsetDeleteResponse(ErrorCode.none, topics))
    (topic,) = answer.topics
    seen = tuple((partition.partition_index, partition.error_code) for partition in topic.partitions)
    assert (answer.error_code, ((topic.name, seen),)) == (ErrorCode.none, topics)


@pytest.mark.parametrize("api_version", range(2))
def test_consumer_group_describe_shows_members_and_both_assignments(api_version: int) -> None:
    given = (DescribedTopicPartitions(b"\1" * 16, "t", struct.pack(">2i", 0, 7)),)
    target = (DescribedTopicPartitions(bytes(16), "u", b""),)
    member = DescribedConsumerMember(
        "m", "i", "rack", 4, "client", "/127.0.0.1", ("t",), "u.*", given, target, 0
    )
    group = DescribedConsumerGroup(ErrorCode.none, "g", None, "Assigning", 5, 4, "uniform", (member,), 8)
    answer = _read(api_keys.CONSUMER_GROUP_DESCRIBE, api_version, ConsumerGroupDescribeResponse((group,)))
    (shown,) = answer.groups
    (shown_member,) = shown.members
    assert _shown(shown, group._fields) == group._replace(members=shown.members)._asdict()
    (topic,) = shown_member.assignment.topic_partitions
    assert (topic.topic_id.bytes, topic.topic_name, topic.partitions) == (b"\1" * 16, "t", (0, 7))
    (topic,) = shown_member.target_assignment.topic_partitions
    assert (topic.topic_id, topic.topic_name, topic.partitions) == (None, "u", ())
    plain = ("member_id", "instance_id", "rack_id", "member_epoch", "client_id", "subscribed_topic_regex")
    assert all(getattr(shown_member, name) == getattr(member, name) for name in plain)
    assert getattr(shown_member, "member_type", None) == (0 if api_version else None)


def test_another_api_or_version_is_refused() -> None:
    for api_key, api_version in ((api_keys.METADATA, 1), (api_keys.HEARTBEAT, 5), (api_keys.LEAVE_GROUP, 6)):
        with pytest.raises(UnsupportedRequest):
            encode(api_key, api_version, 7, LeaveGroupResponse(ErrorCode.none))
