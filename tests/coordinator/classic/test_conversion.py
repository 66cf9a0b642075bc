"""A classic group may get the id of a consumer group, and the reverse (C28, M27)."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.coordinator.classic.state import classic_groups, stored_groups
from actors.coordinator.consumer.model.state import consumer_groups
from actors.protocol import api_keys
from actors.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeavingMember,
)
from tests.coordinator.driver import Driver

GROUP = "orders"


def beat(driver: Driver, epoch: int) -> ErrorCode:
    body = ConsumerGroupHeartbeatRequest(
        GROUP, "m", epoch, rebalance_timeout_ms=60_000, subscribed_topic_names=("t",), topic_partitions=()
    )
    error: ErrorCode = driver.ask(api_keys.CONSUMER_GROUP_HEARTBEAT, body, 1).error_code
    return error


def join(driver: Driver, member_id: str, protocol_type: str = "consumer") -> JoinGroupResponse:
    body = JoinGroupRequest(GROUP, 10_000, 60_000, member_id, None, protocol_type, (("range", b""),))
    token = driver.send(api_keys.JOIN_GROUP, body, 3)
    driver.advance(4_000)
    answer: JoinGroupResponse = driver.replies[token]
    return answer


def test_consumer_group_refuses_bytes_that_are_no_subscription() -> None:
    """G3: the answer is INCONSISTENT_GROUP_PROTOCOL with member id ""; the group goes on."""
    driver = Driver(t=3)
    assert beat(driver, 0) == ErrorCode.none
    for member_id in ("", "m"):
        assert join(driver, member_id) == JoinGroupResponse(ErrorCode.inconsistent_group_protocol)
    heartbeat = driver.ask(api_keys.HEARTBEAT, HeartbeatRequest(GROUP, 1, "m"), 4)
    assert heartbeat.error_code == ErrorCode.unknown_member_id
    assert GROUP in consumer_groups(driver.shard.state)


def test_empty_consumer_group_is_converted_and_starts_over() -> None:
    """C28: the first completed generation is 1; no record of the consumer group is left."""
    driver = Driver(t=3)
    beat(driver, 0)
    beat(driver, -1)
    assert join(driver, "").generation_id == 1
    assert GROUP not in consumer_groups(driver.shard.state)
    assert {key[0] for key in driver.records()} == {2}
    driver.check_snapshot()


def test_unknown_member_converts_nothing() -> None:
    """C28, C3, C6: only a member that may make a group converts it, though it may be refused for its
    protocols."""
    driver = Driver(t=3)
    beat(driver, 0)
    beat(driver, -1)
    assert join(driver, "ghost").error_code == ErrorCode.unknown_member_id
    assert GROUP in consumer_groups(driver.shard.state)
    assert join(driver, "", "").error_code == ErrorCode.inconsistent_group_protocol
    assert driver.describe(GROUP).group_state == "Empty"


def test_empty_classic_group_becomes_a_consumer_group() -> None:
    """M27, C28: its pending member's timer goes with it."""
    driver = Driver(t=3)
    member_id = join(driver, "").member_id
    driver.ask(api_keys.LEAVE_GROUP, LeaveGroupRequest(GROUP, (LeavingMember(member_id),)), 5)
    assert beat(driver, 0) == ErrorCode.none
    assert GROUP not in classic_groups(driver.shard.state)
    assert GROUP not in stored_groups(driver.shard.state)
