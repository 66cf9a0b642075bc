"""Topics that come, go and grow, and regular expressions: rows M6, M24, M25, A17, A18, A21."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.coordinator import consumer
from tests.coordinator.consumer.driver import GROUP, Client, Driver, make_image, owned, settle


def test_more_partitions_bump_the_epoch_once() -> None:
    """M6, A18: noticed at the first heartbeat after the change, by any member, once."""
    driver = Driver()
    a, b = Client(driver, "a").join(), Client(driver, "b").join()
    settle(a, b)
    driver.state.image = make_image(2, orders=6, other=1)
    b.beat()
    assert driver.group().group_epoch == 4
    settle(a, b)
    assert [len(x.partitions) for x in (a, b)] == [3, 3]
    assert driver.group().group_epoch == 4


def test_an_unrelated_change_of_metadata_bumps_nothing() -> None:
    """M6: the hash covers subscribed topics only; nothing is written."""
    driver = Driver()
    driver.join("a")
    driver.state.image = make_image(2, orders=4, other=9)
    assert driver.beat("a", 2).member_epoch == 2
    assert driver.last_records == []


def test_a_topic_may_be_created_after_its_subscribers_and_deleted_before() -> None:
    """M6: created, it is assigned; deleted, it is taken away; recreated under another id, it is new."""
    driver = Driver(image=make_image(1))
    a = Client(driver, "a").join()
    assert (a.epoch, a.partitions) == (2, set())
    driver.state.image = make_image(2, orders=2)
    a.beat()
    assert (a.epoch, a.owned) == (3, owned(orders=range(2)))
    driver.state.image = make_image(3)
    a.beat()
    a.beat()
    assert (a.epoch, a.owned) == (4, ())


def test_a_change_during_a_failover_is_noticed() -> None:
    """A21: the new leader checks topic metadata at the group's first heartbeat."""
    driver = Driver()
    a = Client(driver, "a").join()
    driver.state.image = make_image(2, orders=6)
    driver.failover()
    assert len(a.beat().partitions) == 6
    driver.failover()
    a.beat()
    assert driver.last_records == []


def test_a_regex_subscribes_to_whole_names_and_names_add_to_it() -> None:
    """M24, M25, A17: full match; the union with names; one record per regex."""
    driver = Driver(image=make_image(1, orders=1, orders2=1, preorders=1, extra=1))
    answer = driver.join("a", "extra", subscribed_topic_regex="orders.?")
    assert answer.member_epoch == 2
    assert answer.assignment == owned(extra=[0], orders=[0], orders2=[0])
    assert consumer.subscribed_topics(driver.state, GROUP) == {"extra", "orders", "orders2"}
    assert [record.key[0] for record in driver.last_records] == [5, 16, 3, 7, 6, 8]


def test_a_new_topic_that_matches_is_found() -> None:
    """M24: re-resolved when the image changes."""
    driver = Driver(image=make_image(1, orders1=1))
    a = Client(driver, "a", subscribed_topic_names=None, subscribed_topic_regex="orders.*").join()
    driver.state.image = make_image(2, orders1=1, orders2=2)
    a.beat()
    assert (a.epoch, len(a.partitions)) == (3, 3)
    driver.state.image = make_image(3, orders1=1, orders2=2, returns=2)
    a.beat()
    assert (a.epoch, driver.last_records) == (3, [])


def test_a_regex_goes_with_its_last_subscriber() -> None:
    """M24: a tombstone when nobody has it any more, by change, by leave."""
    driver = Driver(image=make_image(1, orders=2))
    fields = {"subscribed_topic_names": None, "subscribed_topic_regex": "ord.*"}
    a, b = Client(driver, "a", **fields).join(), Client(driver, "b", **fields).join()
    settle(a, b)
    b.beat(subscribed_topic_regex="")
    assert list(driver.group().regexes) == ["ord.*"]
    a.beat(subscribed_topic_regex="o.*s")
    assert list(driver.group().regexes) == ["o.*s"]
    a.leave()
    assert driver.group().regexes == {}
    assert driver.group().metadata == (6, 0)


@pytest.mark.parametrize("regex", ["(", "[", "*", "a{2,1}", "(?=x)", r"(a)\1", "a++", r"\p{Nope}", "(?<!x)y"])
def test_what_re2_does_not_know_is_refused(regex: str) -> None:
    """M24 of section 11: 128 at the join and later; the member goes on as it was."""
    driver = Driver()
    driver.refused_join(ErrorCode.invalid_regular_expression, "a", subscribed_topic_regex=regex)
    assert not driver.state.consumer
    driver.join("a")
    driver.refused(ErrorCode.invalid_regular_expression, "a", 2, subscribed_topic_regex=regex)
    assert driver.beat("a", 2).member_epoch == 2


@pytest.mark.parametrize("regex", ["(?P<n>o).*", r"orders\+?", "[*+]*|orders", "o[(?=]*.*"])
def test_what_re2_knows_is_accepted(regex: str) -> None:
    """M24 of section 11."""
    driver = Driver()
    answer = driver.join("a", subscribed_topic_names=None, subscribed_topic_regex=regex)
    assert answer.assignment == owned(orders=range(4))
