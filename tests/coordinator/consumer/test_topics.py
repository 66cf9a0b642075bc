"""Topics are created, deleted and grown while groups are subscribed to them: rules M6, A18 and A21."""

from __future__ import annotations

from tests.coordinator.consumer.driver import Client, Driver, make_image, owned, settle


def test_more_partitions_bump_the_epoch_once() -> None:
    """M6, A18: the change is noticed once, at the first heartbeat of any member after it."""
    driver = Driver()
    a, b = Client(driver, "a").join(), Client(driver, "b").join()
    settle(a, b)
    driver.set_image(make_image(2, orders=6, other=1))
    b.beat()
    assert driver.group().group_epoch == 4
    settle(a, b)
    assert [len(x.partitions) for x in (a, b)] == [3, 3]
    assert driver.group().group_epoch == 4


def test_an_unrelated_change_of_metadata_bumps_nothing() -> None:
    """M6: the hash covers subscribed topics only; nothing is written."""
    driver = Driver()
    driver.join("a")
    driver.set_image(make_image(2, orders=4, other=9))
    assert driver.beat("a", 2).member_epoch == 2
    assert driver.last_records == []


def test_a_topic_may_be_created_after_its_subscribers_and_deleted_before() -> None:
    """M6: a created topic is assigned, a deleted one taken away, and one that is created again under another
    id is new."""
    driver = Driver(image=make_image(1))
    a = Client(driver, "a").join()
    assert (a.epoch, a.partitions) == (2, set())
    driver.set_image(make_image(2, orders=2))
    a.beat()
    assert (a.epoch, a.owned) == (3, owned(orders=range(2)))
    driver.set_image(make_image(3))
    a.beat()
    a.beat()
    assert (a.epoch, a.owned) == (4, ())


def test_a_change_during_a_failover_is_noticed() -> None:
    """A21: the new leader checks topic metadata at the group's first heartbeat."""
    driver = Driver()
    a = Client(driver, "a").join()
    driver.set_image(make_image(2, orders=6))
    driver.failover()
    assert len(a.beat().partitions) == 6
    driver.failover()
    a.beat()
    assert driver.last_records == []
