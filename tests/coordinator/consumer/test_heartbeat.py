"""Joining, fencing and answering: rows M1 to M5, M18, M22, A5, A6, A8 and A15."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.coordinator.consumer import views
from actors.coordinator.told.consumer_events import EpochBumped
from actors.ground.settings import GroupSettings
from actors.protocol.errors import GroupError
from actors.protocol.messages import ConsumerGroupHeartbeatResponse
from tests.coordinator.consumer.driver import GROUP, Client, Driver, make_image, owned, settle

JOIN = {"rebalance_timeout_ms": 1, "subscribed_topic_names": ("orders",), "topic_partitions": ()}


@pytest.mark.parametrize(
    "fields",
    [
        {"member_id": ""},
        {"member_id": " "},
        {"group_id": ""},
        {"group_id": "\t"},
        {"instance_id": " "},
        {"rack_id": ""},
        {"rebalance_timeout_ms": -1},
        {"topic_partitions": None},
        {"topic_partitions": owned(orders=[0])},
        {"subscribed_topic_names": None},
        {"epoch": -2},
        {"epoch": -3, "instance_id": "i"},
    ],
)
def test_a_malformed_heartbeat_is_an_invalid_request(fields: dict[str, object]) -> None:
    """M1, M22: the error is INVALID_REQUEST, before group or assignor are looked at."""
    merged = {"member_id": "a", "epoch": 0, "server_assignor": "nobody", **JOIN, **fields}
    Driver().refused(ErrorCode.invalid_request, **merged)


@pytest.mark.parametrize("timeout_ms", [0, -2])
def test_odd_rebalance_timeouts_are_accepted(timeout_ms: int) -> None:
    """M1: only -1 is refused."""
    assert Driver().join("a", rebalance_timeout_ms=timeout_ms).member_epoch == 2


@pytest.mark.parametrize("name", ["", "Uniform", "sticky"])
def test_an_unknown_assignor_is_refused_before_group_and_member(name: str) -> None:
    """M1: UNSUPPORTED_ASSIGNOR comes before GROUP_ID_NOT_FOUND and UNKNOWN_MEMBER_ID."""
    Driver().refused(ErrorCode.unsupported_assignor, "a", 7, server_assignor=name)


def test_unknown_group_and_member_come_before_the_regex() -> None:
    """M1, M2: the order is GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, INVALID_REGULAR_EXPRESSION."""
    driver = Driver()
    driver.refused(ErrorCode.group_id_not_found, "a", 7, subscribed_topic_regex="(")
    driver.join("a")
    driver.refused(ErrorCode.unknown_member_id, "b", 7, subscribed_topic_regex="(")
    driver.refused(ErrorCode.invalid_regular_expression, "a", 2, subscribed_topic_regex="(")


def test_the_first_member_with_topics_makes_epoch_two() -> None:
    """M2, A5: this holds also when the topic does not exist."""
    driver = Driver()
    answer = driver.join("a")
    assert answer == ConsumerGroupHeartbeatResponse(
        ErrorCode.none, None, "a", 2, 5_000, owned(orders=range(4))
    )
    assert driver.join("a", "nowhere", group_id="other").member_epoch == 2


def test_members_without_subscription_leave_the_epoch_at_one() -> None:
    """M5: [] and the regex "" are legal, and the epoch does not rise."""
    driver = Driver()
    assert driver.join("a", subscribed_topic_names=()).member_epoch == 1
    assert driver.join("b", subscribed_topic_names=()).member_epoch == 1
    answer = driver.join("c", subscribed_topic_names=None, subscribed_topic_regex="")
    assert (answer.member_epoch, answer.assignment) == (1, ())
    assert driver.group().group_epoch == 1


def test_version_zero_gets_a_member_id_from_the_server() -> None:
    """A2, M1: an empty member id is legal only in version 0, and only to join."""
    driver = Driver()
    assert driver.join("", api_version=0).member_id == "made-1"
    driver.refused(ErrorCode.invalid_request, "", 2, api_version=0)


def test_a_full_group_takes_only_members_it_knows() -> None:
    """M3: the size is checked before the member is looked up; a known instance comes in with a new id too."""
    driver = Driver(settings=GroupSettings(group_consumer_max_size=1, group_rebalance_batch_max_ms=0))
    driver.join("a", instance_id="i")
    driver.refused_join(ErrorCode.group_max_size_reached, "b")
    driver.refused(ErrorCode.group_max_size_reached, "b", 5)
    driver.beat("a", -2, instance_id="i")
    driver.refused_join(ErrorCode.group_max_size_reached, "b", instance_id="j")
    assert driver.join("b", instance_id="i").member_epoch == 2
    driver.refused_join(ErrorCode.unreleased_instance_id, "c", instance_id="i")


def test_epochs_fence() -> None:
    """M4, A6: too new an epoch gets FENCED_MEMBER_EPOCH. The previous epoch is accepted if the owned
    partitions prove that the answer was lost."""
    driver = Driver()
    driver.join("a")
    driver.refused(ErrorCode.fenced_member_epoch, "a", 3)
    driver.refused(ErrorCode.fenced_member_epoch, "a", 1)
    a = Client(driver, "a").join()
    b = Client(driver, "b").join()
    settle(a, b)
    assert a.epoch == 3
    driver.refused(ErrorCode.fenced_member_epoch, "a", 2)
    driver.refused(ErrorCode.fenced_member_epoch, "a", 2, topic_partitions=owned(orders=range(4)))


def test_a_lost_answer_is_repeated_to_a_full_request() -> None:
    """M4, M18: a heartbeat of the previous epoch whose owned partitions are all assigned gets epoch and
    assignment again."""
    driver = Driver()
    driver.join("a")
    driver.set_image(make_image(2, orders=6))
    assert driver.beat("a", 2).member_epoch == 3
    full = {
        "rebalance_timeout_ms": 300_000,
        "subscribed_topic_names": ("orders",),
        "topic_partitions": owned(orders=range(4)),
    }
    answer = driver.beat("a", 2, **full)
    assert (answer.member_epoch, answer.assignment) == (3, owned(orders=range(6)))


def test_a_known_dynamic_member_may_start_over_but_not_a_static_one() -> None:
    """M4: a known dynamic member may send epoch 0; a static one gets UNRELEASED_INSTANCE_ID."""
    driver = Driver()
    driver.join("a")
    assert driver.join("a").assignment == owned(orders=range(4))
    assert driver.group().group_epoch == 2
    driver.join("s", instance_id="i")
    driver.refused_join(ErrorCode.unreleased_instance_id, "s", instance_id="i")
    driver.refused_join(ErrorCode.unreleased_instance_id, "t", instance_id="i")


def test_static_members_are_told_apart() -> None:
    """M22: an unknown instance gets UNKNOWN_MEMBER_ID, that of another member FENCED_INSTANCE_ID, and none at
    all is accepted."""
    driver = Driver()
    driver.join("s", instance_id="i")
    driver.refused(ErrorCode.unknown_member_id, "s", 2, instance_id="j")
    driver.refused(ErrorCode.fenced_instance_id, "t", 2, instance_id="i")
    assert driver.beat("s", 2).member_epoch == 2


def test_only_changes_are_written_and_only_subscriptions_and_the_assignor_bump() -> None:
    """M5: another order or repetition of names is no change; host, rack and timeouts do not raise the epoch,
    nor does a vote for the assignor that the group has."""
    driver = Driver(image=make_image(1, orders=4, returns=2))
    driver.join("a", "orders", "returns")
    driver.beat("a", 2, subscribed_topic_names=("returns", "orders", "orders"))
    assert driver.last_records == []
    driver.beat("a", 2, rack_id="r", rebalance_timeout_ms=9)
    assert [record.key.kind for record in driver.last_records] == [5]
    driver.beat("a", 2, server_assignor="uniform")
    assert [record.key.kind for record in driver.last_records] == [5]
    answer = driver.beat("a", 2, server_assignor="range")
    assert (answer.member_epoch, driver.group().group_epoch) == (3, 3)
    assert views.describe(driver.state, GROUP).assignor_name == "range"
    assert [event.cause for event in driver.events if isinstance(event, EpochBumped)][
        -1
    ] == "assignor changed"
    answer = driver.beat("a", 3, subscribed_topic_names=("returns",))
    assert (answer.member_epoch, answer.assignment) == (3, owned(returns=range(2)))
    assert driver.group().group_epoch == 4


def test_the_assignment_is_told_when_it_matters() -> None:
    """M18: the assignment is told at epoch 0, in answer to a full request, and when it changed; else it is
    null."""
    driver = Driver()
    assert driver.join("a").assignment is not None
    assert driver.beat("a", 2).assignment is None
    assert driver.beat("a", 2, topic_partitions=owned(orders=range(4))).assignment is None
    full = {"rebalance_timeout_ms": 1, "topic_partitions": owned(orders=range(4))}
    assert driver.beat("a", 2, subscribed_topic_regex="", **full).assignment == owned(orders=range(4))


def test_a_steady_heartbeat_writes_nothing_and_keeps_the_session() -> None:
    """M17, A15: there is no record, the interval is the configured one, and the deadline moves."""
    driver = Driver()
    driver.join("a")
    for _ in range(20):
        driver.advance(30_000)
        answer = driver.beat("a", 2)
        assert (answer.member_epoch, answer.heartbeat_interval_ms) == (2, 5_000)
        assert driver.last_records == []
    driver.advance(45_100)
    assert driver.group().size == 0


def test_a_failed_heartbeat_does_not_keep_the_session() -> None:
    """M17: only an accepted heartbeat moves the deadline."""
    driver = Driver()
    driver.join("a")
    driver.advance(40_000)
    with pytest.raises(GroupError):
        driver.beat("a", 9)
    driver.advance(6_000)
    assert driver.group().size == 0
