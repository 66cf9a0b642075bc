"""While a consumer group forms, members that join together get their part of one target in their first
answer."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.coordinator.consumer.forming import INTERVALS_MAX
from actors.coordinator.ground.batching import ALONE_MS, PAUSE_MS_MAX
from actors.coordinator.ground.timers import SLOT_MS
from actors.coordinator.told.consumer_events import AssignmentComputed
from actors.ground.settings import GroupSettings
from actors.protocol import api_keys
from actors.protocol.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from tests.coordinator.driver import Driver, topic_id

GROUP = "orders"
PARTITIONS = 60


def forming_driver() -> Driver:
    return Driver(settings=GroupSettings(), t=PARTITIONS)


def join(driver: Driver, member_id: str, instance_id: str | None = None) -> int:
    """Send a member's first heartbeat. Returns its token."""
    body = ConsumerGroupHeartbeatRequest(
        GROUP,
        member_id,
        0,
        instance_id,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=("t",),
        topic_partitions=(),
    )
    return driver.send(api_keys.CONSUMER_GROUP_HEARTBEAT, body, 1)


def beat(driver: Driver, member_id: str, epoch: int) -> ConsumerGroupHeartbeatResponse:
    body = ConsumerGroupHeartbeatRequest(GROUP, member_id, epoch)
    answer = driver.ask(api_keys.CONSUMER_GROUP_HEARTBEAT, body, 1)
    assert isinstance(answer, ConsumerGroupHeartbeatResponse)
    return answer


def shares(driver: Driver, tokens: list[int]) -> list[int]:
    """How many partitions each member was assigned."""
    given = [driver.replies[token].assignment for token in tokens]
    return [sum(len(packed) // 4 for _, packed in assignment) for assignment in given]


def targets(driver: Driver) -> int:
    return sum(isinstance(event, AssignmentComputed) for event in driver.events)


def test_those_who_join_together_share_one_target_in_their_first_answers() -> None:
    driver = forming_driver()
    tokens = [join(driver, f"m{number:02}") for number in range(40)]
    assert driver.replies == {}
    driver.advance(ALONE_MS + 4 * SLOT_MS)
    assert sorted(shares(driver, tokens)) == [1] * 20 + [2] * 20
    assert targets(driver) == 1
    assert {driver.replies[token].member_epoch for token in tokens} == {41}
    assert driver.shard.summary(GROUP)["state"] == "Stable"


def test_a_member_that_comes_alone_waits_a_moment() -> None:
    driver = forming_driver()
    token = join(driver, "a")
    driver.advance(ALONE_MS - 1)
    assert token not in driver.replies
    driver.advance(1 + SLOT_MS)
    assert shares(driver, [token]) == [PARTITIONS]
    assert driver.replies[token].heartbeat_interval_ms == 5_000


def test_a_flow_of_joins_is_not_waited_for_without_end() -> None:
    """A member joins every 20 ms, and the first one has its answer within three assignment intervals."""
    driver = forming_driver()
    longest_ms = INTERVALS_MAX * GroupSettings().group_consumer_assignment_interval_ms
    first = join(driver, "m0")
    for number in range(1, longest_ms // 20):
        driver.advance(20)
        join(driver, f"m{number}")
    assert first not in driver.replies
    driver.advance(20 + 2 * SLOT_MS)
    assert first in driver.replies


def test_no_interval_or_no_batching_is_as_kafka() -> None:
    for settings in (
        GroupSettings(group_consumer_assignment_interval_ms=0),
        GroupSettings(group_rebalance_batch_max_ms=0),
    ):
        driver = Driver(settings=settings, t=PARTITIONS)
        assert shares(driver, [join(driver, "a")]) == [PARTITIONS]


def test_a_group_that_has_members_is_joined_at_once() -> None:
    driver = forming_driver()
    join(driver, "a")
    driver.advance(PAUSE_MS_MAX)
    assert join(driver, "b") in driver.replies


def test_a_group_whose_members_all_left_forms_again() -> None:
    driver = forming_driver()
    first = join(driver, "a")
    driver.advance(2_000)
    beat(driver, "a", -1)
    tokens = [join(driver, "b"), join(driver, "c")]
    assert set(driver.replies).isdisjoint(tokens)
    driver.advance(ALONE_MS + 3 * SLOT_MS)
    assert first not in tokens
    assert shares(driver, tokens) == [30, 30]


def test_who_leaves_before_the_group_has_formed_is_no_member_any_more() -> None:
    driver = forming_driver()
    tokens = [join(driver, "a"), join(driver, "b")]
    beat(driver, "a", -1)
    driver.advance(ALONE_MS + 3 * SLOT_MS)
    assert driver.replies[tokens[0]].error_code == ErrorCode.unknown_member_id
    assert shares(driver, tokens[1:]) == [PARTITIONS]


def test_a_static_member_forms_the_group_like_any_other() -> None:
    driver = forming_driver()
    tokens = [join(driver, "a", "i1"), join(driver, "b", "i2")]
    driver.advance(ALONE_MS + 3 * SLOT_MS)
    assert shares(driver, tokens) == [30, 30]


def test_a_member_without_an_id_hears_the_one_it_was_given() -> None:
    driver = forming_driver()
    body = ConsumerGroupHeartbeatRequest(
        GROUP, "", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=("t",), topic_partitions=()
    )
    token = driver.send(api_keys.CONSUMER_GROUP_HEARTBEAT, body, 0)
    driver.advance(ALONE_MS + SLOT_MS)
    answer = driver.replies[token]
    assert beat(driver, answer.member_id, answer.member_epoch).error_code == ErrorCode.none


def test_a_leader_that_falls_sends_back_who_waits_and_the_next_one_takes_them_in() -> None:
    driver = forming_driver()
    token = join(driver, "a")
    driver.commit()
    driver.fail_over()
    assert driver.replies[token].error_code == ErrorCode.not_coordinator
    again = join(driver, "a")
    assert shares(driver, [again]) == [PARTITIONS]
    assert driver.replies[again].assignment[0][0] == topic_id(1)
