"""Reconciliation, leaving, static members, timeouts: rows M8 to M17, M19 to M23, M26, A13, A14, A16."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.coordinator.consumer import area as consumer
from actors.coordinator.consumer import views
from actors.coordinator.ground import partitions
from actors.coordinator.told.consumer_events import AssignmentComputed, EpochBumped
from actors.coordinator.told.events import MemberExpired
from actors.ground.records import CurrentAssignmentValue
from tests.coordinator.consumer.driver import (
    AS_KAFKA,
    GROUP,
    START_MS,
    Client,
    Driver,
    as_pairs,
    make_image,
    owned,
    settle,
)
from tests.coordinator.unpacked import to_lists

EVERYTHING = as_pairs(owned(orders=range(4)))


def state_of(driver: Driver) -> str:
    return driver.group().state_name


def test_partitions_move_only_after_they_are_given_up() -> None:
    """M11 to M13, M23, A13: the owner revokes and acknowledges, then the newcomer gets the partitions; the
    owner's epoch waits."""
    driver = Driver()
    a = Client(driver, "a").join()
    assert state_of(driver) == "Stable"
    b = Client(driver, "b").join()
    assert (b.epoch, b.partitions, b.interval_ms) == (3, set(), 1_000)
    assert state_of(driver) == "Reconciling"
    a.beat()
    assert (a.epoch, len(a.partitions), a.interval_ms) == (2, 4, 5_000)
    driver.beat("a", 2)
    b.beat()
    assert b.partitions == set(), "a has not acknowledged yet"
    a.beat()
    assert (a.epoch, len(a.partitions)) == (3, 2)
    b.beat()
    assert a.partitions | b.partitions == EVERYTHING
    assert (b.interval_ms, state_of(driver)) == (5_000, "Stable")


def test_a_member_that_does_not_say_what_it_owns_still_owns() -> None:
    """M11: owned null counts as owning."""
    driver = Driver()
    driver.join("a")
    driver.join("b")
    for _ in range(3):
        assert driver.beat("a", 2).member_epoch == 2
    current = driver.group().members["a"].current
    assert current is not None
    assert partitions.count(current.pending_revocation) == 2


def test_what_a_member_itself_has_to_revoke_is_not_held_by_another() -> None:
    """M13: b leaves while a revokes for it; a gets the partitions back with the same acknowledgement."""
    driver = Driver()
    a, b = Client(driver, "a").join(), Client(driver, "b").join()
    a.beat()
    b.leave()
    a.beat()
    assert (a.epoch, a.partitions, state_of(driver)) == (4, EVERYTHING, "Stable")


def test_leaving_frees_at_once() -> None:
    """M19, M12: the tombstones of kinds 8, 7 and 5 come first, then the epoch; the answer echoes -1."""
    driver = Driver()
    a, b = Client(driver, "a").join(), Client(driver, "b").join()
    settle(a, b)
    answer = driver.beat("b", -1)
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("b", -1, 0)
    assert [(r.key[0], r.value is None) for r in driver.last_records] == [
        (8, True),
        (7, True),
        (5, True),
        (3, False),
    ]
    a.beat()
    assert (a.epoch, a.partitions) == (4, EVERYTHING)
    driver.refused(ErrorCode.unknown_member_id, "b", -1)
    driver.refused(ErrorCode.group_id_not_found, "b", -1, group_id="other")


def test_the_last_leave_raises_the_assignment_epoch_too() -> None:
    """M19: the group is Empty with group epoch 3 and assignment epoch 3, also if all go at once."""
    driver = Driver()
    driver.join("a")
    driver.beat("a", -1)
    described = views.describe(driver.state, GROUP)
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Empty", 3, 3)
    assert views.is_empty(driver.state, GROUP)


def test_who_is_left_alone_does_not_raise_the_assignment_epoch() -> None:
    """M19, M8: one of two goes within the interval; the other keeps its part until the interval is over."""
    driver = Driver(settings=AS_KAFKA)
    driver.join("a")
    driver.join("b")
    driver.beat("b", -1)
    described = views.describe(driver.state, GROUP)
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Assigning", 4, 2)


def test_a_target_waits_for_the_assignment_interval() -> None:
    """M8: a member that joins within the interval waits for a target."""
    driver = Driver(settings=AS_KAFKA)
    driver.join("a")
    driver.advance(500)
    answer = driver.join("b")
    assert (answer.member_epoch, answer.assignment, answer.heartbeat_interval_ms) == (2, (), 1_000)
    described = views.describe(driver.state, GROUP)
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Assigning", 3, 2)
    driver.advance(500)
    assert driver.beat("b", 2).member_epoch == 3


def test_a_group_that_became_empty_does_not_make_the_next_member_wait() -> None:
    """M8, M19: the target of nobody was computed at no time, so the interval does not hold the next one."""
    driver = Driver(settings=AS_KAFKA)
    driver.join("a")
    driver.beat("a", -1)
    answer = driver.join("b")
    assert (answer.member_epoch, answer.assignment) == (4, owned(orders=range(4)))


def test_joins_within_the_interval_share_one_assignment() -> None:
    """M8, M9: the joins are taken together, and only targets that changed are written."""
    driver = Driver(settings=AS_KAFKA, image=make_image(1, orders=6))
    a = Client(driver, "a").join()
    b, c = Client(driver, "b").join(), Client(driver, "c").join()
    assert driver.group().group_epoch == 4
    driver.advance(1_000)
    a.beat()
    written = [record.key[2] for record in driver.last_records if record.key[0] == 7]
    assert sorted(written) == ["a", "b", "c"]
    settle(a, b, c)
    assert [len(x.partitions) for x in (a, b, c)] == [2, 2, 2]
    driver.advance(1_000)
    driver.join("d", "returns")
    assert [record.key[2] for record in driver.last_records if record.key[0] == 7] == ["d"]
    computed = [event for event in driver.events if isinstance(event, AssignmentComputed)]
    assert [(event.assignment_epoch, event.moved) for event in computed] == [(2, 6), (4, 4), (5, 0)]


def test_a_clock_that_steps_back_does_not_hold_the_target() -> None:
    """M8: a new leader's clock may be behind."""
    driver = Driver(settings=AS_KAFKA)
    driver.join("a")
    driver.now_ms = START_MS - 3_600_000
    assert driver.join("b").member_epoch == 3


def test_unsubscribed_topics_are_revoked_before_a_new_target_exists() -> None:
    """This is rule M14."""
    driver = Driver(settings=AS_KAFKA, image=make_image(1, orders=2, returns=2))
    a = Client(driver, "a", "orders", "returns").join()
    a.beat(subscribed_topic_names=("orders",))
    current = driver.group().members["a"].current
    assert current is not None
    assert current.pending_revocation == owned(returns=range(2))
    assert driver.group().assignment_epoch == 2
    a.beat()
    driver.advance(1_000)
    a.beat()
    assert (a.epoch, a.partitions) == (3, as_pairs(owned(orders=range(2))))


def test_a_member_too_slow_to_revoke_is_removed() -> None:
    """M16, A14: the rebalance timeout runs only while something is to be revoked."""
    driver = Driver()
    driver.join("a", rebalance_timeout_ms=20_000)
    driver.join("b")
    driver.advance(10_000)
    driver.beat("a", 2)
    driver.advance(19_000)
    driver.beat("a", 2)
    driver.beat("b", 3)
    driver.advance(1_100)
    assert driver.group().member("a") is None
    causes = [(e.member_id, e.cause) for e in driver.events if isinstance(e, MemberExpired)]
    assert causes == [("a", "rebalance timeout")]
    assert driver.beat("b", 3).assignment == owned(orders=range(4))


def test_revoking_in_time_stops_the_clock() -> None:
    """This is rule M16."""
    driver = Driver()
    a, b = Client(driver, "a", rebalance_timeout_ms=20_000).join(), Client(driver, "b").join()
    settle(a, b)
    for _ in range(3):
        driver.advance(20_000)
        settle(a, b)
    assert driver.group().size == 2


def test_a_static_member_comes_back_to_its_partitions() -> None:
    """M20, M21, A16: it leaves with epoch -2 and comes back under a new member id; the epoch does not rise,
    and no partition moves."""
    driver = Driver()
    s, b = Client(driver, "s", instance_id="i").join(), Client(driver, "b").join()
    settle(s, b)
    mine = s.partitions
    s.leave(-2)
    assert driver.group().size == 2
    b.beat()
    assert len(b.partitions) == 2
    t = Client(driver, "t", instance_id="i").join()
    assert (t.epoch, t.partitions, driver.group().group_epoch) == (3, mine, 3)
    assert driver.group().static_ids == {"i": ("t",)}
    driver.refused(ErrorCode.fenced_instance_id, "s", 3, instance_id="i")
    driver.refused(ErrorCode.unknown_member_id, "s", 3)
    settle(t, b)


def test_a_static_member_that_stays_away_is_removed() -> None:
    """M20, M17: its partitions wait for the session timeout."""
    driver = Driver()
    driver.join("s", instance_id="i")
    driver.beat("s", -2, instance_id="i")
    driver.advance(45_100)
    assert driver.group().size == 0
    assert driver.group().static_ids == {}


def test_a_static_leave_in_the_middle_of_a_revocation_is_stable() -> None:
    """M20: Kafka leaves the member UNREVOKED (KAFKA-20641); here it has nothing left to revoke."""
    driver = Driver()
    s = Client(driver, "s", instance_id="i").join()
    b = Client(driver, "b").join()
    s.beat()
    driver.beat("s", -2, instance_id="i")
    current = driver.group().members["s"].current
    assert current is not None
    assert current[:3] == (-2, 2, 0)
    b.beat()
    assert len(b.partitions) == 2
    t = Client(driver, "t", instance_id="i").join()
    settle(t, b)
    assert len(t.partitions) == 2


def test_a_static_member_leaves_for_good_by_instance() -> None:
    """M19, M22: epoch -1 with the member's instance removes it; with that of another it does not."""
    driver = Driver()
    driver.join("s", instance_id="i")
    driver.refused(ErrorCode.fenced_instance_id, "t", -1, instance_id="i")
    driver.refused(ErrorCode.unknown_member_id, "s", -1, instance_id="j")
    driver.beat("s", -1, instance_id="i")
    assert driver.group().size == 0


def test_a_member_in_a_state_of_the_future_is_fenced_until_it_owns_nothing() -> None:
    """This is rule M15."""
    driver = Driver()
    driver.join("a")
    key = next(r.key for r in consumer.AREA.records(driver.state) if r.key[0] == 8)
    driver.shard.apply(key, CurrentAssignmentValue(2, 2, 127, owned(orders=range(4)), ()))
    driver.refused(ErrorCode.fenced_member_epoch, "a", 2)
    driver.refused(ErrorCode.fenced_member_epoch, "a", 2, topic_partitions=owned(orders=[1]))
    assert driver.beat("a", 2, topic_partitions=()).member_epoch == 2
    assert state_of(driver) == "Stable"


def test_failover_is_invisible_to_members() -> None:
    """M26, A21: timers run again, a revocation goes on, and epochs stay."""
    driver = Driver()
    a = Client(driver, "a", rebalance_timeout_ms=30_000).join()
    b = Client(driver, "b", rebalance_timeout_ms=30_000).join()
    a.beat()
    driver.failover()
    a.beat()
    b.beat()
    assert a.partitions | b.partitions == EVERYTHING
    Client(driver, "c").join()
    b.beat()
    a.beat()
    driver.failover()
    driver.advance(29_000)
    assert driver.group().size == 3
    driver.advance(2_000)
    assert driver.group().size == 2, "whoever had to revoke for c did not"
    driver.failover()
    driver.advance(45_100)
    assert driver.group().size == 0


def test_the_preferred_assignor_is_the_most_wanted() -> None:
    """M7, A3: most votes win. Without votes it is the first configured assignor, in a tie the one that is
    configured first."""
    driver = Driver(image=make_image(1, one=3, two=3))
    driver.join("a", "one", "two", server_assignor="range")
    assert views.describe(driver.state, GROUP).assignor_name == "range"
    driver.join("b", "one", "two", server_assignor="uniform")
    assert views.describe(driver.state, GROUP).assignor_name == "uniform"
    driver.join("c", "one", "two", server_assignor="range")
    targets = {i: to_lists(m.target or ()) for i, m in driver.group().members.items()}
    assert all(len(set(target.values())) == 1 for target in targets.values()), "co-partitioned"


def test_epochs_explain_themselves() -> None:
    """Every bump names its cause and its member."""
    driver = Driver()
    driver.join("a")
    driver.beat("a", 2, subscribed_topic_names=("orders", "returns"))
    driver.set_image(make_image(2, orders=5))
    driver.beat("a", 3)
    driver.join("b")
    driver.beat("b", -1)
    driver.advance(45_100)
    bumps = [(e.group_epoch, e.cause) for e in driver.events if isinstance(e, EpochBumped)]
    assert bumps == [
        (2, "member joined"),
        (3, "subscription changed"),
        (4, "topic metadata changed"),
        (5, "member joined"),
        (6, "member left"),
        (7, "session timeout"),
    ]
