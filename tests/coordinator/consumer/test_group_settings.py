"""A group's own configs hold for its members: A15, A19, M8, M17."""

from __future__ import annotations

from actors.coordinator.consumer.model import group_settings
from actors.ground.image import MetadataImage, TopicImage
from tests.coordinator.consumer.driver import AS_KAFKA, GROUP, Client, Driver, settle, topic_id

SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"
INTERVAL = "consumer.assignment.interval.ms"


def image(version: int, **own: str) -> MetadataImage:
    names = {"session": SESSION, "heartbeat": HEARTBEAT, "interval": INTERVAL}
    configs = {names[name]: value for name, value in own.items()}
    topics = (TopicImage(topic_id("orders"), "orders", (0,) * 4),)
    return MetadataImage(version=version, topics=topics, group_configs={GROUP: configs} if configs else {})


def test_a_change_is_in_force_from_the_next_heartbeat_on() -> None:
    """A15, A19: members are told the interval, their session is as long as set, and both go back with the
    config."""
    driver = Driver(image=image(1))
    a = Client(driver, "a").join()
    assert a.beat().interval_ms == 5_000
    driver.set_image(image(2, session="60000", heartbeat="15000"))
    assert a.beat().interval_ms == 15_000
    assert a.beat().interval_ms == 15_000
    driver.advance(59_000)
    assert driver.group().size == 1
    driver.set_image(image(3))
    assert a.beat().interval_ms == 5_000
    driver.advance(46_000)
    assert driver.group().size == 0


def test_a_config_that_is_out_of_bounds_by_now_counts_as_the_bound() -> None:
    """KIP-1240: the broker's bounds have changed since it was set."""
    driver = Driver(image=image(1, session="1000", heartbeat="90000", interval="20000"))
    assert group_settings.of(driver.state, GROUP) == (45_000, 15_000, 15_000)
    assert group_settings.of(driver.state, "other") == (45_000, 5_000, 0)


def test_a_group_may_have_its_own_assignment_interval() -> None:
    """M8, KIP-1263: a member that joins within it waits for the next target."""
    driver = Driver(settings=AS_KAFKA, image=image(1, interval="10000"))
    a = Client(driver, "a").join()
    b = Client(driver, "b").join()
    assert (b.epoch, b.partitions, driver.group().state_name) == (2, set(), "Assigning")
    driver.advance(9_000)
    assert (b.beat().epoch, driver.group().state_name) == (2, "Assigning")
    driver.advance(1_100)
    settle(a, b)
    assert (len(a.partitions), len(b.partitions)) == (2, 2)


def test_a_new_leader_gives_members_the_groups_own_session() -> None:
    """M26: session timers are armed for all members."""
    driver = Driver(image=image(1, session="60000"))
    Client(driver, "a").join()
    driver.failover()
    driver.advance(59_000)
    assert driver.group().size == 1
    driver.advance(2_000)
    assert driver.group().size == 0
