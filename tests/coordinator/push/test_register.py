"""RegisterConsumer and its checks (D3): what is refused changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.coordinator.ground.kind import kind_of
from actors.protocol import api_keys
from actors.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    JoinGroupRequest,
    ListGroupsRequest,
)
from actors.protocol.push_messages import RegisterConsumerRequest, TopicCount
from tests.coordinator.push.pushing import GROUP, SESSION_MS, Pushing, at_level

GOOD = RegisterConsumerRequest(GROUP, "a", (TopicCount("t", False, 1),), True, "smallest", SESSION_MS)


@pytest.fixture
def group() -> Pushing:
    return Pushing()


def refused(group: Pushing, **fields: Any) -> tuple[int, str]:
    before = list(group.shard.records())
    answer = group.ask(api_keys.REGISTER_CONSUMER, GOOD._replace(**fields))
    assert list(group.shard.records()) == before
    return answer.error_code, answer.error_message or ""


@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        ({"group_id": ""}, ErrorCode.invalid_group_id, "group id"),
        ({"consumer_id": ""}, ErrorCode.invalid_request, "ConsumerId"),
        ({"consumer_id": " "}, ErrorCode.invalid_request, "ConsumerId"),
        ({"topic_counts": ()}, ErrorCode.invalid_request, "TopicCounts"),
        ({"topic_counts": (TopicCount("", False, 1),)}, ErrorCode.invalid_request, "empty"),
        ({"topic_counts": (TopicCount("t", False, 0),)}, ErrorCode.invalid_request, "Streams"),
        ({"topic_counts": (TopicCount("t", False, 1_001),)}, ErrorCode.invalid_request, "Streams"),
        ({"topic_counts": (TopicCount("t", False, -1),)}, ErrorCode.invalid_request, "Streams"),
        ({"topic_counts": (TopicCount("t", False, 1),) * 2}, ErrorCode.invalid_request, "twice"),
        ({"topic_counts": (TopicCount("(", True, 1),)}, ErrorCode.invalid_regular_expression, "`(`"),
        ({"auto_offset_reset": "earliest"}, ErrorCode.invalid_request, "smallest, largest"),
        ({"session_timeout_ms": 5_999}, ErrorCode.invalid_session_timeout, "6000"),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.invalid_session_timeout, "1800000"),
        ({"session_timeout_ms": -1}, ErrorCode.invalid_session_timeout, "6000"),
    ],
)
def test_what_cannot_be_is_refused(group: Pushing, fields: Any, error: ErrorCode, says: str) -> None:
    code, message = refused(group, **fields)
    assert code == error
    assert says in message


def test_an_id_is_unique_among_the_connections_of_a_group(group: Pushing) -> None:
    group.register("a")
    answer = group.try_register(group.member("a"))
    assert answer.error_code == ErrorCode.unreleased_instance_id
    group.disconnect("a")
    assert group.try_register(group.member("a")).error_code == 0


def test_a_full_group_takes_nobody_but_who_is_in_it() -> None:
    settings = Pushing().settings._replace(group_max_size=1)
    group = Pushing(settings=settings)
    group.register("a")
    assert group.try_register(group.member("b")).error_code == ErrorCode.group_max_size_reached
    group.disconnect("a")
    group.register("a")


def test_a_tier_at_level_1_has_no_push_groups(group: Pushing) -> None:
    """Releases that do not know them read its log."""
    group.replica.on_metadata(at_level(group.image, 1), group.now_ms)
    code, message = refused(group)
    assert code == ErrorCode.unsupported_version
    assert "groupd.version" in message


def test_a_consumer_may_come_back_with_other_topics(group: Pushing) -> None:
    group.set_topics(t=4, u=2)
    group.register("a")
    group.disconnect("a")
    group.try_register(group.member("a", "u"))
    assert {topic for topic, _ in group.owners()} == {"u"}


def test_members_of_other_kinds_do_not_get_in(group: Pushing) -> None:
    group.register("a")
    join = JoinGroupRequest(GROUP, 10_000, 60_000, "", None, "consumer", (("range", b""),))
    answer = group.ask(api_keys.JOIN_GROUP, join, 9)
    assert answer.error_code == ErrorCode.inconsistent_group_protocol
    beat = ConsumerGroupHeartbeatRequest(GROUP, "m", 0, None, None, 1_000, ("t",), None, None, ())
    answer = group.ask(api_keys.CONSUMER_GROUP_HEARTBEAT, beat, 1)
    assert answer.error_code == ErrorCode.group_id_not_found


def test_a_group_of_another_kind_takes_no_consumer(group: Pushing) -> None:
    join = JoinGroupRequest(GROUP, 10_000, 60_000, "", None, "consumer", (("range", b""),))
    assert group.ask(api_keys.JOIN_GROUP, join, 9).error_code == ErrorCode.member_id_required
    assert refused(group)[0] == ErrorCode.group_id_not_found
    [listed] = group.ask(api_keys.LIST_GROUPS, ListGroupsRequest((), ()), 5).groups
    assert listed.group_type == "classic"


def test_a_group_of_the_consumer_protocol_takes_none_either(group: Pushing) -> None:
    beat = ConsumerGroupHeartbeatRequest(GROUP, "m", 0, None, None, 1_000, ("t",), None, None, ())
    group.ask(api_keys.CONSUMER_GROUP_HEARTBEAT, beat, 1)
    kind = kind_of(group.shard.state, GROUP)
    assert kind is not None
    assert kind.name == "consumer"
    assert refused(group)[0] == ErrorCode.group_id_not_found
