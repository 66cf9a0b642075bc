"""Joins and leaves in quick succession are taken into one rebalance; a calm group is as Kafka's (C10, C12,
C23)."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.coordinator.classic.group import EMPTY, PREPARING_REBALANCE, STABLE
from actors.coordinator.ground.batching import FIRST_DELAY_MS, MEMBER_MS, UNDELAYED
from actors.coordinator.ground.timers import SLOT_MS
from actors.coordinator.told.events import CLASSIC, RebalanceBegan, RebalanceDelayed
from tests.coordinator.classic.driver import BATCHING, GROUP, PROTOCOLS, REBALANCE_MS, SESSION_MS, Driver

HOST = "/127.0.0.1"
LONGEST_MS = BATCHING.group_rebalance_batch_max_ms
FLEET = LONGEST_MS // MEMBER_MS
"""The size of the smallest group that may wait for the longest delay."""


def settle(driver: Driver) -> None:
    """Let all members rejoin and sync, whether they were told to or not."""
    driver.rejoin_all()
    driver.sync_all()
    assert driver.group.state is STABLE


def advance_alive(driver: Driver, by_ms: int, but: str = "") -> None:
    """Let a little more than `by_ms` pass, while all members but one heartbeat."""
    end_ms = driver.now_ms + by_ms + SLOT_MS
    while driver.now_ms < end_ms:
        driver.advance(min(SESSION_MS // 4, end_ms - driver.now_ms))
        for member in list(driver.group.members.values()):
            if not member.is_new and member.member_id != but:
                driver.beat(member.member_id, driver.group.generation)


def storm(driver: Driver, restarts: int, size: int = FLEET) -> list[str]:
    """Make a Stable group that so many members have joined and left, one after the other."""
    members = driver.stable_group(*(f"m{number}" for number in range(size)))
    for _ in range(restarts):
        driver.advance(100)
        driver.new_member(client_id="c")
        settle(driver)
        driver.advance(100)
        driver.leave(list(driver.group.members)[-1])
        settle(driver)
    driver.events.clear()
    return members


def in_a_storm(size: int = FLEET) -> tuple[Driver, list[str]]:
    """Make a group in which the next change waits for others."""
    driver = Driver(BATCHING)
    members = storm(driver, restarts=1, size=size)
    driver.advance(100)
    driver.new_member(client_id="c")
    settle(driver)
    assert driver.group.storm.rebalances == UNDELAYED
    driver.events.clear()
    driver.advance(100)
    return driver, members


def test_the_first_changes_are_carried_out_at_once() -> None:
    driver, _ = in_a_storm()
    assert not any(isinstance(event, RebalanceDelayed) for event in driver.events)


def test_a_newcomer_in_a_storm_waits_while_the_group_works_on() -> None:
    """The join is parked. The other members go on until the delay is over; then one generation takes the
    newcomer in."""
    driver, members = in_a_storm()
    generation = driver.group.generation
    token = driver.new_member(client_id="d")
    assert (driver.group.state, driver.waits(token)) == (STABLE, True)
    assert driver.beat(members[0], generation) is ErrorCode.none
    driver.advance(FIRST_DELAY_MS + SLOT_MS)
    assert driver.beat(members[0], generation) is ErrorCode.rebalance_in_progress
    settle(driver)
    assert driver.joined(token).generation_id == driver.group.generation == generation + 1


def test_the_delay_explains_itself() -> None:
    driver, _ = in_a_storm()
    generation, now_ms = driver.group.generation, driver.now_ms
    token = driver.new_member(client_id="d", reason="scaled out")
    newcomer = list(driver.group.members)[-1]
    driver.leave(next(iter(driver.group.members)))
    driver.advance(FIRST_DELAY_MS + SLOT_MS)
    delayed, began = (e for e in driver.events if isinstance(e, RebalanceDelayed | RebalanceBegan))
    assert delayed == RebalanceDelayed(
        *(now_ms, GROUP, CLASSIC, generation, "new member", "C8", newcomer, "d", HOST, "scaled out"),
        *(FIRST_DELAY_MS, FLEET + 2),
    )
    assert isinstance(began, RebalanceBegan)
    assert (began.group_epoch, began.cause) == (generation, "2 joins and leaves, taken together")
    assert (began.member_id, began.client_id, began.reason) == (newcomer, "d", "scaled out")
    assert driver.waits(token)


def test_one_change_that_waited_in_vain_is_told_as_what_it_is() -> None:
    """The member that left is gone, but its client is still named."""
    driver, _ = in_a_storm()
    gone = list(driver.group.members)[-1]
    driver.leave(gone)
    advance_alive(driver, FIRST_DELAY_MS)
    [began] = [event for event in driver.events if isinstance(event, RebalanceBegan)]
    assert (began.cause, began.rule, began.member_id) == ("member left", "C23", gone)
    assert (began.client_id, began.client_host) == ("c", HOST)


def test_of_several_that_left_the_first_is_named_with_its_client() -> None:
    driver, members = in_a_storm()
    first = list(driver.group.members)[-1]
    driver.leave(first)
    driver.leave(members[0])
    driver.advance(FIRST_DELAY_MS + SLOT_MS)
    [began] = [event for event in driver.events if isinstance(event, RebalanceBegan)]
    assert (began.cause, began.member_id) == ("2 joins and leaves, taken together", first)
    assert (began.client_id, began.client_host) == ("c", HOST)


def test_the_delay_doubles_up_to_the_bound() -> None:
    driver, _ = in_a_storm()
    delays = []
    for number in range(8):
        driver.events.clear()
        driver.new_member(client_id=f"d{number}")
        [delayed] = [event for event in driver.events if isinstance(event, RebalanceDelayed)]
        delays.append(delayed.duration_ms)
        advance_alive(driver, delayed.duration_ms)
        settle(driver)
    assert delays == [1_000, 2_000, 4_000, 8_000, 16_000, LONGEST_MS, LONGEST_MS, LONGEST_MS]


@pytest.mark.parametrize(("size", "delay_ms"), [(2, 2 * MEMBER_MS), (3, 3 * MEMBER_MS), (8, FIRST_DELAY_MS)])
def test_the_delay_is_in_proportion_to_the_group(size: int, delay_ms: int) -> None:
    """The partitions of a member that left are not read meanwhile, and in a small group it has a large
    share."""
    driver, _ = in_a_storm(size)
    driver.leave(next(iter(driver.group.members)))
    assert len(driver.group.members) == size
    [delayed] = [event for event in driver.events if isinstance(event, RebalanceDelayed)]
    assert delayed.duration_ms == delay_ms


def test_a_small_group_is_calm_soon() -> None:
    """A group of three, of which one member restarts every few seconds, rebalances as in Kafka."""
    driver, members = in_a_storm(size=2)
    advance_alive(driver, 3 * MEMBER_MS)
    driver.leave(members[0])
    assert driver.group.state is PREPARING_REBALANCE


def test_a_calm_group_is_not_delayed() -> None:
    driver, members = in_a_storm()
    advance_alive(driver, LONGEST_MS)
    driver.leave(members[0])
    assert driver.group.state is PREPARING_REBALANCE


def test_a_session_that_ends_in_a_storm_waits_too() -> None:
    driver, members = in_a_storm()
    advance_alive(driver, SESSION_MS, but=members[1])
    assert members[1] not in driver.group.members
    assert (driver.group.state, driver.group.changes) == (STABLE, 1)


def test_a_rejoin_is_never_delayed() -> None:
    """Members that gave partitions up, and a leader that saw new ones, need the next assignment; it takes
    the newcomers along."""
    driver, members = in_a_storm()
    token = driver.new_member(client_id="d")
    leader = driver.group.leader
    assert leader == members[0]
    driver.join(leader)
    assert (driver.group.state, driver.group.changes) == (PREPARING_REBALANCE, 0)
    settle(driver)
    assert driver.joined(token).generation_id == driver.group.generation


def test_the_last_settled_member_goes_and_nobody_waits() -> None:
    driver, _ = in_a_storm()
    token = driver.new_member(client_id="d")
    driver.leave(*[member.member_id for member in driver.group.members.values() if not member.is_new])
    assert driver.joined(token).generation_id == driver.group.generation
    driver.leave(*driver.group.members)
    assert driver.group.state is EMPTY


def test_a_newcomers_retry_keeps_its_place() -> None:
    """The newcomer is answered with no generation that it is not in: its old join is superseded, and the new
    one parked."""
    driver, _ = in_a_storm()
    parked = driver.new_member(client_id="d")
    newcomer = list(driver.group.members)[-1]
    again = driver.join(newcomer)
    assert driver.joined(parked).error_code is ErrorCode.rebalance_in_progress
    assert (driver.waits(again), driver.group.changes) == (True, 1)


def test_a_static_newcomer_that_restarts_gets_an_assignment() -> None:
    """C21 gives a restarted instance its old assignment, but this one has none."""
    driver, _ = in_a_storm()
    parked = driver.new_member(client_id="d", instance="i")
    again = driver.new_member(client_id="d", instance="i")
    assert driver.joined(parked).error_code is ErrorCode.fenced_instance_id
    assert driver.waits(again)
    settle(driver)
    assert driver.joined(again).generation_id == driver.group.generation


def test_newcomers_are_in_no_stored_generation() -> None:
    """A static member's restart writes the generation down; after a failover the newcomer is unknown and
    joins anew, instead of being found in a generation that gave it nothing."""
    driver = Driver(BATCHING)
    driver.stable_group("s", instance="s")
    for client_id in ("a", "b", "c"):
        driver.new_member(client_id=client_id)
        settle(driver)
    driver.new_member(client_id="late")
    newcomer = list(driver.group.members)[-1]
    assert driver.group.changes == 1
    driver.new_member(client_id="s", instance="s")
    driver.fail_over()
    assert newcomer not in driver.group.members
    assert (len(driver.group.members), driver.group.storm.rebalances) == (4, 0)


def test_half_of_the_shortest_rebalance_timeout_bounds_the_delay() -> None:
    """The newcomer's client waits for its rebalance timeout, and members need time to rejoin."""
    driver, _ = in_a_storm()
    driver.new_member(client_id="d")
    driver.new_member(client_id="e", rebalance_timeout_ms=400)
    driver.advance(200 + SLOT_MS)
    assert driver.group.state is PREPARING_REBALANCE


def test_zero_is_as_kafka() -> None:
    driver = Driver(BATCHING._replace(group_rebalance_batch_max_ms=0))
    storm(driver, restarts=10)
    driver.new_member(client_id="c")
    assert driver.group.state is PREPARING_REBALANCE


@pytest.mark.parametrize(("batch_max_ms", "generations"), [(25_000, 2), (0, 5)])
def test_a_fleet_that_starts_at_once_is_waited_for(batch_max_ms: int, generations: int) -> None:
    """Newcomers come every 10 ms: a join phase goes on for them, though for a moment no member is missing."""
    driver = Driver(BATCHING._replace(group_rebalance_batch_max_ms=batch_max_ms))
    driver.stable_group("first")
    for number in range(40):
        driver.new_member(client_id=f"n{number}")
        driver.advance(10)
        if number % 10 == 9:
            driver.rejoin_all()
            driver.advance(10)
    driver.advance(REBALANCE_MS // 10)
    assert driver.group.generation == generations
    assert len(driver.group.members) == 41


def test_a_fleets_member_id_that_was_given_out_is_waited_for() -> None:
    """C7: the wait for newcomers may end while one comes back with its id; it is not left out."""
    driver = Driver(BATCHING)
    driver.stable_group("first")
    for number in range(10):
        driver.new_member(client_id=f"n{number}")
        driver.advance(10)
    driver.rejoin_all()
    pending = driver.joined(driver.join(client_id="last", protocols=PROTOCOLS)).member_id
    driver.advance(1_000)
    assert driver.group.state is PREPARING_REBALANCE
    token = driver.join(pending)
    driver.advance(1_000)
    assert driver.joined(token).generation_id == 2
