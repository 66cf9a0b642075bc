"""`groupd explain`: the state of a group in a sentence, and whom it waits for (issue 8)."""

from __future__ import annotations

from actors.coordinator.explain import Explanation, explain
from tests.coordinator.classic.driver import BATCHING, GROUP, Driver
from tests.coordinator.consumer.driver import GROUP as CONSUMER_GROUP
from tests.coordinator.consumer.driver import Client, make_image, settle
from tests.coordinator.consumer.driver import Driver as ConsumerDriver


def explained(driver: Driver | ConsumerDriver, group_id: str) -> Explanation:
    found = explain(driver.state, group_id, driver.now_ms)
    assert found is not None
    return found


def test_a_stuck_classic_group_names_the_member_it_waits_for() -> None:
    driver = Driver()
    a, b = driver.stable_group("a", "b", session_timeout_ms=100_000)
    began_ms = driver.now_ms
    driver.join(a, protocols=(("range", b"other"),), reason="a topic came", session_timeout_ms=100_000)
    driver.advance(5_000)
    found = explained(driver, GROUP)
    assert (found.state, found.since_ms, found.says) == (
        "PreparingRebalance",
        began_ms,
        "not all members have joined again",
    )
    assert (found.cause, found.member_id, found.reason) == ("member changed its protocols", a, "a topic came")
    [waited] = found.waited_for
    assert (waited.member_id, waited.client_id, waited.client_host) == (b, "b", "/127.0.0.1")
    assert (waited.what, waited.deadline_ms) == ("joined again", driver.group.join_deadline_ms)


def test_a_session_that_ends_before_the_phase_is_the_deadline() -> None:
    driver = Driver()
    a, _ = driver.stable_group("a", "b", session_timeout_ms=10_000)
    joined_ms = driver.now_ms
    driver.join(a, protocols=(("range", b"other"),))
    [waited] = explained(driver, GROUP).waited_for
    assert waited.deadline_ms == joined_ms + 10_000


def test_a_leader_that_does_not_sync_is_named_first() -> None:
    driver = Driver()
    driver.stable_group("a", "b")
    driver.rejoin_all()
    found = explained(driver, GROUP)
    assert found.state == "CompletingRebalance"
    assert found.waited_for[0].member_id == driver.group.leader
    assert "as the leader" in found.waited_for[0].what
    assert found.waiting == 2


def test_an_id_that_was_handed_out_and_not_used_is_waited_for() -> None:
    """C8: nothing is known of the client that has the id."""
    driver = Driver()
    [member] = driver.stable_group("a")
    pending = driver.joined(driver.join()).member_id
    driver.join(member, protocols=(("range", b"other"),))
    [waited] = explained(driver, GROUP).waited_for
    assert (waited.member_id, waited.client_id) == (pending, None)


def test_a_group_that_waits_for_more_changes_says_how_long() -> None:
    driver = Driver(BATCHING)
    driver.stable_group("a", "b", "c")
    for client_id in ("d", "e", "f"):
        driver.new_member(client_id=client_id)
        driver.rejoin_all()
        driver.sync_all()
    driver.leave(next(iter(driver.group.members)))
    found = explained(driver, GROUP)
    assert (found.state, found.waiting) == ("Stable", 0)
    assert found.says == "1 join or leave waits for more, at most 1.0 s, to be taken together"


def test_a_consumer_group_waits_for_who_has_to_give_up_partitions() -> None:
    driver = ConsumerDriver(image=make_image(1, orders=4))
    a = Client(driver, "a").join()
    settle(a)
    driver.join("b")
    driver.advance(2_000)
    driver.beat("b", driver.group().members["b"].current.member_epoch)  # type: ignore[union-attr]
    driver.beat("a", a.epoch)
    found = explained(driver, CONSUMER_GROUP)
    assert found.state == "Reconciling"
    first = found.waited_for[0]
    assert first.member_id == "a"
    assert first.what == "given up the 2 partitions it has to"
    assert first.deadline_ms is not None


def test_records_do_not_tell_since_when_a_consumer_group_is_empty() -> None:
    """The last target is from the time of the group's last member."""
    driver = ConsumerDriver(image=make_image(1, orders=4))
    a = Client(driver, "a").join()
    settle(a)
    assert explained(driver, CONSUMER_GROUP).since_ms is not None
    a.leave()
    found = explained(driver, CONSUMER_GROUP)
    assert (found.state, found.since_ms) == ("Empty", None)


def test_a_group_at_rest_waits_for_nobody_and_one_that_is_not_there_is_none() -> None:
    driver = Driver()
    driver.stable_group("a")
    found = explained(driver, GROUP)
    assert (found.state, found.waited_for, found.cause) == ("Stable", (), None)
    assert explain(driver.state, "nobody's", driver.now_ms) is None
