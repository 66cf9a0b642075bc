"""Regular expressions of subscriptions, resolved apart from heartbeats: rows M24, M25, A17, A21."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.coordinator.consumer import views
from actors.coordinator.consumer.model.state import consumer_groups
from actors.ground.acl import Acl, Operation, PatternType, Permission, ResourceType
from actors.ground.image import MetadataImage, TopicImage
from actors.ground.limits import REGEX_MATCHES_PER_TURN_MAX
from actors.ground.spec import BrokerSettings
from actors.security.gate import ACLS, Gate
from tests.coordinator.consumer.driver import (
    GROUP,
    Client,
    Driver,
    make_image,
    owned,
    settle,
    snapshot,
    topic_id,
)

ORDERS = {"subscribed_topic_names": None, "subscribed_topic_regex": "orders.*"}


def resolved(driver: Driver) -> dict[str, tuple[str, ...]]:
    return {regex: value.topics for regex, value in driver.group().regexes.items()}


def test_a_regex_is_resolved_after_the_heartbeat_that_brought_it() -> None:
    """M24, M2: the newcomer has epoch 1 and nothing, is asked to come back soon, and has its topics then."""
    driver = Driver(image=make_image(1, orders=2, orders2=1, preorders=1))
    a = Client(driver, "a", **ORDERS).join()
    assert (a.epoch, a.owned, a.interval_ms) == (1, (), 1_000)
    assert resolved(driver) == {}
    driver.resolve()
    assert [record.key[0] for record in driver.last_records] == [16, 3]
    assert driver.group().state_name == "Assigning"
    a.beat()
    assert (a.epoch, a.owned, a.interval_ms) == (2, owned(orders=[0, 1], orders2=[0]), 5_000)


def test_a_regex_and_names_add_up() -> None:
    """M25: the member gets the topics of both. Named topics do not wait for the regex, and the group is
    subscribed to both."""
    driver = Driver(image=make_image(1, orders=1, extra=1))
    a = Client(driver, "a", "extra", subscribed_topic_regex="orders.?").join()
    assert (a.epoch, a.owned) == (2, owned(extra=[0]))
    driver.resolve()
    a.beat()
    assert (a.epoch, a.owned) == (3, owned(extra=[0], orders=[0]))
    assert views.subscribed_topics(driver.state, GROUP) == {"extra", "orders"}


def test_who_joins_a_resolved_regex_has_its_topics_at_once() -> None:
    """M5: a regex that is known already raises the epoch with the heartbeat that brings it."""
    driver = Driver(image=make_image(1, orders=2))
    a = Client(driver, "a", **ORDERS).join()
    driver.resolve()
    settle(a)
    b = Client(driver, "b", **ORDERS).join()
    assert (b.epoch, driver.group().group_epoch) == (3, 3)
    settle(a, b)
    assert a.partitions | b.partitions == {(topic_id("orders"), 0), (topic_id("orders"), 1)}


def test_a_new_topic_that_matches_is_found_but_not_more_often_than_every_ten_seconds() -> None:
    """M24: the first heartbeat after the topic's creation asks; the answer is ten seconds younger than the
    last. A topic that does not match changes nothing."""
    driver = Driver(image=make_image(1, orders1=1))
    a = Client(driver, "a", **ORDERS).join()
    driver.resolve()
    a.beat()
    driver.set_image(make_image(2, orders1=1, orders2=2))
    a.beat()
    driver.advance(9_000)
    assert (a.beat().epoch, driver.last_records) == (2, [])
    driver.advance(1_500)
    assert (a.beat().epoch, len(a.partitions)) == (3, 3)
    driver.set_image(make_image(3, orders1=1, orders2=2, returns=2))
    a.beat()
    driver.advance(10_500)
    assert [record.key[0] for record in driver.last_records] == [16]
    assert a.beat().epoch == 3


def test_a_change_that_brings_no_topic_asks_for_nothing() -> None:
    """M24: images change for many reasons; only new topics make a resolved regex out of date."""
    driver = Driver(image=make_image(1, orders=1))
    a = Client(driver, "a", **ORDERS).join()
    driver.resolve()
    a.beat()
    driver.set_image(make_image(2, orders=3))
    assert len(a.beat().partitions) == 3
    before = snapshot(driver.state)
    driver.advance(30_000)
    assert snapshot(driver.state) == before


def test_what_was_resolved_is_looked_at_again_when_it_is_old() -> None:
    """M24: this happens after group.consumer.regex.refresh.interval.ms, without a heartbeat that asks for
    it."""
    driver = Driver(image=make_image(1, orders=1))
    a = Client(driver, "a", **ORDERS).join()
    driver.resolve()
    a.beat()
    first_ms = driver.group().regexes["orders.*"].timestamp_ms
    for _ in range(31):
        driver.advance(20_000)
        a.beat()
    assert driver.group().regexes["orders.*"].timestamp_ms - first_ms in range(600_000, 600_100)
    assert a.epoch == 2


def test_a_second_regex_waits_ten_seconds_after_the_first() -> None:
    """M24: a group's regexes are resolved together, so a newcomer's waits its turn."""
    driver = Driver(image=make_image(1, orders=1, returns=1))
    a = Client(driver, "a", **ORDERS).join()
    driver.resolve()
    driver.advance(2_000)
    b = Client(driver, "b", subscribed_topic_names=None, subscribed_topic_regex="ret.*").join()
    driver.advance(7_000)
    assert resolved(driver) == {"orders.*": ("orders",)}
    driver.advance(1_100)
    assert resolved(driver) == {"orders.*": ("orders",), "ret.*": ("returns",)}
    settle(a, b)
    assert (a.owned, b.owned) == (owned(orders=[0]), owned(returns=[0]))


def test_many_topics_are_looked_at_in_turns() -> None:
    """M24: a turn of the timer has a bound, and a heartbeat in between is answered."""
    number = 3 * REGEX_MATCHES_PER_TURN_MAX
    topics = tuple(TopicImage(i.to_bytes(16, "big"), f"orders{i}", (0,)) for i in range(1, number + 1))
    driver = Driver(image=MetadataImage(version=1, topics=topics))
    a = Client(driver, "a", **ORDERS).join()
    driver.resolve()
    assert resolved(driver) == {}
    assert a.beat().epoch == 1
    for _ in range(4):
        driver.resolve()
    assert len(resolved(driver)["orders.*"]) == number
    assert len(a.beat().partitions) == number


def test_a_new_leader_finishes_what_the_old_one_began() -> None:
    """A21, M24: nothing of an unfinished resolution is replicated; the first heartbeat asks anew."""
    driver = Driver(image=make_image(1, orders=1))
    a = Client(driver, "a", **ORDERS).join()
    driver.failover()
    driver.advance(1_000)
    assert resolved(driver) == {}
    a.beat()
    driver.resolve()
    assert a.beat().owned == owned(orders=[0])
    driver.set_image(make_image(2, orders=1, orders2=1))
    driver.failover()
    driver.advance(10_000)
    a.beat()
    driver.resolve()
    assert a.beat().owned == owned(orders=[0], orders2=[0])


def test_a_regex_goes_with_its_last_subscriber() -> None:
    """M24: there is a tombstone when no member has the regex any more, after a change and after a leave."""
    driver = Driver(image=make_image(1, orders=2))
    fields: dict[str, Any] = {"subscribed_topic_names": None, "subscribed_topic_regex": "ord.*"}
    a, b = Client(driver, "a", **fields).join(), Client(driver, "b", **fields).join()
    driver.resolve()
    settle(a, b)
    b.beat(subscribed_topic_regex="")
    assert list(driver.group().regexes) == ["ord.*"]
    a.beat(subscribed_topic_regex="o.*s")
    driver.resolve()
    assert list(driver.group().regexes) == ["o.*s"]
    a.leave()
    assert driver.group().regexes == {}
    epoch = driver.group().group_epoch
    driver.advance(20_000)
    assert driver.group().group_epoch == epoch


def test_who_changes_its_regex_gives_up_at_once_what_it_had() -> None:
    """M14, M24: the old topics are revoked before the new ones are known."""
    driver = Driver(image=make_image(1, orders=1, returns=1))
    a = Client(driver, "a", **ORDERS).join()
    driver.resolve()
    settle(a)
    a.beat(subscribed_topic_regex="ret.*")
    assert driver.group().members["a"].current[3:5] == ((), owned(orders=[0]))
    driver.advance(10_100)
    settle(a)
    assert a.owned == owned(returns=[0])


def test_a_regex_in_place_of_another_raises_the_epoch_once() -> None:
    """M5, M24: the epoch rises when the new regex is resolved, not when it comes, though the topics of the
    old one are gone by then."""
    driver = Driver(image=make_image(1, orders=1, returns=1))
    a = Client(driver, "a", **ORDERS).join()
    driver.resolve()
    settle(a)
    a.beat(subscribed_topic_regex="returns")
    assert driver.group().group_epoch == 2
    driver.resolve()
    settle(a)
    assert (driver.group().group_epoch, a.epoch, a.owned) == (3, 3, owned(returns=[0]))


def test_only_what_the_asking_member_may_see_is_matched() -> None:
    """M24: topics that its principal may not describe are left out."""
    driver = Driver(image=make_image(1, orders=1, orders2=1))
    may = Acl(
        ResourceType.TOPIC,
        "orders2",
        PatternType.LITERAL,
        "User:ANONYMOUS",
        "*",
        Operation.DESCRIBE,
        Permission.ALLOW,
    )
    driver.state.gate = Gate(BrokerSettings(authorizer=ACLS))
    driver.state.gate.take(MetadataImage(version=1, acls=(may,)))
    a = Client(driver, "a", **ORDERS).join()
    driver.resolve()
    assert a.beat().owned == owned(orders2=[0])


@pytest.mark.parametrize(
    "regex", ["(", "[", "*", "a{2,1}", "(?=x)", r"(a)\1", "a++", r"\p{Nope}", "(?<!x)y", r"\Z", "\ud800"]
)
def test_what_re2_does_not_know_is_refused(regex: str) -> None:
    """M24: the error is INVALID_REGULAR_EXPRESSION at the join and later; the member goes on as it was."""
    driver = Driver()
    driver.refused_join(ErrorCode.invalid_regular_expression, "a", subscribed_topic_regex=regex)
    assert not consumer_groups(driver.state)
    driver.join("a")
    driver.refused(ErrorCode.invalid_regular_expression, "a", 2, subscribed_topic_regex=regex)
    assert driver.beat("a", 2).member_epoch == 2


@pytest.mark.parametrize(
    "regex", ["(?P<n>o).*", "(?<n>o).*", r"orders\+?", "[*+]*|orders", "o[(?=]*.*", "(?i)ORDERS"]
)
def test_what_re2_knows_is_accepted(regex: str) -> None:
    """M24: such a regex is accepted, and has to match the whole name."""
    driver = Driver(image=make_image(1, orders=4, reorders=1))
    a = Client(driver, "a", subscribed_topic_names=None, subscribed_topic_regex=regex).join()
    driver.resolve()
    assert a.beat().owned == owned(orders=range(4))
