"""The interval that members are told follows the number of members and a budget of heartbeats a second."""

from __future__ import annotations

import pytest

from actors.coordinator.consumer.model.state import kept
from actors.ground.settings import GroupSettings
from tests.coordinator.consumer.driver import Driver, make_image

MEMBERS = 14


def driver_of(budget: int, image_configs: dict[str, str] | None = None) -> Driver:
    settings = GroupSettings(
        group_consumer_assignment_interval_ms=0, group_heartbeat_budget_per_second=budget
    )
    image = make_image(1, orders=MEMBERS)
    if image_configs is not None:
        image = type(image)(
            version=1, topics=tuple(image.topics.values()), group_configs={"orders": image_configs}
        )
    return Driver(settings=settings, image=image)


def join(driver: Driver, number: int) -> None:
    """Let a member join that has all it is assigned: it subscribes to nothing."""
    driver.join(f"m{number}", subscribed_topic_names=("none",))


def told(driver: Driver, member_id: str = "m0") -> int:
    """The interval that a member is told, the same by its first heartbeat, which may bring news, and by the
    steady one after it."""
    epoch = driver.group().group_epoch
    current = driver.group().members[member_id].current
    assert current is not None
    first = driver.beat(member_id, current.member_epoch)
    steady = driver.beat(member_id, epoch)
    assert first.heartbeat_interval_ms == steady.heartbeat_interval_ms
    return steady.heartbeat_interval_ms


def test_the_interval_is_the_configured_one_within_the_budget_and_grows_beyond_it() -> None:
    """A budget of two heartbeats per second is enough for 10 members at 5,000 ms."""
    driver = driver_of(2)
    for number in range(9):
        join(driver, number)
    assert told(driver) == 5_000
    for number in range(9, MEMBERS):
        join(driver, number)
    assert told(driver) == 8_000


def test_the_interval_shrinks_when_members_leave() -> None:
    driver = driver_of(2)
    for number in range(MEMBERS):
        join(driver, number)
    for number in range(5, MEMBERS):
        driver.beat(f"m{number}", -1)
    assert told(driver) == 5_000


@pytest.mark.parametrize("configs", [None, {"consumer.session.timeout.ms": "45000"}])
def test_the_interval_never_leaves_the_bounds_nor_a_third_of_the_session(
    configs: dict[str, str] | None,
) -> None:
    driver = driver_of(1, configs)
    for number in range(MEMBERS * 2):
        join(driver, number)
    assert told(driver) == 15_000


def test_a_groups_own_longer_interval_stays() -> None:
    driver = driver_of(2, {"consumer.heartbeat.interval.ms": "12000"})
    for number in range(MEMBERS):
        join(driver, number)
    assert told(driver) == 12_000


def test_a_member_that_waits_is_told_a_second_whatever_the_budget() -> None:
    driver = driver_of(1)
    for number in range(MEMBERS - 1):
        driver.join(f"m{number}")
    assert driver.join("late").heartbeat_interval_ms == 1_000


def test_every_replica_counts_the_same_members_and_an_undone_join_is_none() -> None:
    driver = driver_of(2)
    for number in range(MEMBERS):
        join(driver, number)
    counted = kept(driver.state).members
    assert counted == MEMBERS
    driver.fall()
    assert (kept(driver.state).members, kept(driver.state).interval_floor_ms) == (0, 0)
