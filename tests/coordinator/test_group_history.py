"""The history of groups of both types tells of rebalances and commits: phases, moves, and which members were
late (issue 8)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, TypeVar

from actors.coordinator.offsets import tallies as commit_tallies
from actors.coordinator.told.consumer_events import AssignmentComputed, EpochBumped, MemberReconciled
from actors.coordinator.told.events import (
    CommitRegressed,
    Commits,
    GroupDeleted,
    MemberExpired,
    MemberFenced,
    MemberJoined,
    MemberLeft,
    OffsetsDeleted,
    RebalanceBegan,
    RebalanceEnded,
    StateChanged,
    line,
)
from actors.ground.image import MetadataImage
from actors.protocol.consumer_protocol import Assignment, write_assignment
from storage.history.schema import Move
from tests.coordinator.classic.driver import Driver as ClassicDriver
from tests.coordinator.consumer.driver import GROUP, Client, Driver, make_image, settle
from tests.coordinator.consumer.migration.driver import SESSION_MS, Both
from tests.coordinator.driver import START_MS
from tests.coordinator.driver import Driver as ShardDriver

T = TypeVar("T")


def told(driver: Any, cls: type[T]) -> list[T]:
    return [event for event in driver.events if isinstance(event, cls)]


def assigned(**topics: tuple[int, ...]) -> bytes:
    return write_assignment(Assignment(tuple(topics.items())), 0)


# Classic groups.


def test_a_classic_rebalance_tells_phases_moves_and_who_was_last() -> None:
    driver = ClassicDriver()
    a, b = driver.stable_group("a", "b")
    generation = driver.group.generation
    driver.rejoin_all()
    driver.sync(a, generation + 1, assignments={a: assigned(t=(0, 1)), b: assigned(t=(2,))})
    driver.sync(b, generation + 1)
    driver.events.clear()
    driver.join(a, protocols=(("range", b"other"),), reason="a topic came")
    driver.advance(300)
    driver.join(b, protocols=(("range", b"other"),))
    driver.advance(50)
    driver.sync(a, generation + 2, assignments={a: assigned(t=(0,)), b: assigned(t=(1, 2))})
    [ended] = told(driver, RebalanceEnded)
    assert (ended.cause, ended.rule, ended.member_id) == ("member changed its protocols", "C9", a)
    assert (ended.duration_ms, ended.joining_ms, ended.syncing_ms) == (350, 300, 50)
    assert (ended.partitions, ended.moved, ended.moves) == (3, 1, (Move("t", 1, a, b),))
    assert (ended.state, ended.members, ended.waited_for) == ("Stable", 2, (b,))
    states = [(event.previous_state, event.state) for event in told(driver, StateChanged)]
    assert states == [
        ("Stable", "PreparingRebalance"),
        ("PreparingRebalance", "CompletingRebalance"),
        ("CompletingRebalance", "Stable"),
    ]


def test_what_a_member_had_that_is_gone_moves_from_it() -> None:
    driver = ClassicDriver()
    a, b = driver.stable_group("a", "b")
    driver.rejoin_all()
    driver.sync(a, 3, assignments={a: assigned(t=(0,)), b: assigned(t=(1,))})
    driver.events.clear()
    driver.leave(b)
    driver.join(a)
    driver.sync(a, 4, assignments={a: assigned(t=(0, 1))})
    [left], [ended] = told(driver, MemberLeft), told(driver, RebalanceEnded)
    assert (left.member_id, left.client_id, left.rule, left.members) == (b, "b", "C23", 1)
    assert ended.moves == (Move("t", 1, b, a),)


def test_a_member_that_never_rejoins_was_waited_for() -> None:
    """C13: the member is removed, and the rebalance's event says so."""
    driver = ClassicDriver()
    a, b = driver.stable_group("a", "b", session_timeout_ms=100_000)
    driver.join(a, protocols=(("range", b"other"),), session_timeout_ms=100_000)
    driver.events.clear()
    driver.advance(driver.group.join_deadline_ms - driver.now_ms + 20)
    driver.sync(a, driver.group.generation, assignments={a: assigned(t=(0,))})
    [expired], [ended] = told(driver, MemberExpired), told(driver, RebalanceEnded)
    assert (expired.member_id, expired.cause, expired.rule) == (b, "did not rejoin in time", "C13")
    assert ended.waited_for == (b, a)


def test_bytes_that_are_no_assignment_move_nobody_knows_what() -> None:
    driver = ClassicDriver()
    driver.stable_group("a")
    ended = told(driver, RebalanceEnded)[-1]
    assert (ended.partitions, ended.moved, ended.moves) == (None, None, None)
    assert "moves" not in line(ended)


def test_a_static_member_that_restarts_is_fenced_and_joins() -> None:
    """C21: there is no rebalance, but the history knows whose place the member took."""
    driver = ClassicDriver()
    driver.join(instance="s")
    driver.advance(9_000)
    driver.sync_all()
    old = next(iter(driver.group.members))
    driver.events.clear()
    driver.join(instance="s")
    [fenced], [joined] = told(driver, MemberFenced), told(driver, MemberJoined)
    assert (fenced.member_id, fenced.rule, joined.group_instance_id) == (old, "C21", "s")
    assert told(driver, RebalanceBegan) == []


def test_a_classic_member_joins_with_its_session_timeout() -> None:
    driver = ClassicDriver()
    driver.join(client_id="a", session_timeout_ms=7_000, version=3)
    driver.join(instance="s", session_timeout_ms=30_000)
    driver.advance(10_000)
    driver.sync_all()
    driver.join(instance="s", session_timeout_ms=31_000)
    assert [joined.session_timeout_ms for joined in told(driver, MemberJoined)] == [7_000, 30_000, 31_000]


# Consumer groups.


def test_a_member_of_a_consumer_group_joins_with_the_groups_session_timeout() -> None:
    """A19: what is in force, the config of the group or else the broker's setting."""
    own = {GROUP: {"consumer.session.timeout.ms": "50000"}}
    topics = tuple(make_image(1, orders=4).topics.values())
    for configs, timeout_ms in (({}, 45_000), (own, 50_000)):
        driver = Driver(image=MetadataImage(version=1, topics=topics, group_configs=configs))
        Client(driver, "a").join()
        [joined] = told(driver, MemberJoined)
        assert joined.session_timeout_ms == timeout_ms


def test_a_classic_member_of_a_consumer_group_joins_with_its_own_session_timeout() -> None:
    """G3."""
    both = Both()
    both.beat_in()
    both.join()
    assert [joined.session_timeout_ms for joined in told(both, MemberJoined)] == [45_000, SESSION_MS]


def test_a_consumer_rebalance_lasts_until_the_last_member_has_its_target() -> None:
    driver = Driver(image=make_image(1, orders=4))
    a = Client(driver, "a").join()
    settle(a)
    driver.events.clear()
    b = Client(driver, "b").join()
    driver.advance(2_000)
    settle(a, b)
    [bump], [ended] = told(driver, EpochBumped), told(driver, RebalanceEnded)
    assert (bump.cause, bump.rule, bump.member_id, bump.members) == ("member joined", "M6", "b", 2)
    assert (ended.group_type, ended.state, ended.group_epoch) == ("consumer", "Stable", bump.group_epoch)
    assert (ended.partitions, ended.moved) == (4, 2)
    assert {(move.from_member, move.to_member) for move in ended.moves or ()} == {("a", "b")}
    assert ended.duration_ms == 2_000
    reconciled = [event.member_id for event in told(driver, MemberReconciled)]
    assert sorted(reconciled) == ["a", "b"]
    assert ended.waited_for == (reconciled[-1],)


def test_a_bump_ends_the_rebalance_under_way() -> None:
    driver = Driver(image=make_image(1, orders=4))
    a = Client(driver, "a").join()
    settle(a)
    driver.events.clear()
    Client(driver, "b").join()
    Client(driver, "c").join()
    kinds = [type(event) for event in driver.events if isinstance(event, RebalanceBegan | RebalanceEnded)]
    assert kinds == [RebalanceBegan, RebalanceEnded, RebalanceBegan]
    [unfinished] = told(driver, RebalanceEnded)
    assert unfinished.state in ("Assigning", "Reconciling")


def test_the_last_member_that_leaves_gives_all_to_nobody() -> None:
    driver = Driver(image=make_image(1, orders=3))
    a = Client(driver, "a").join()
    settle(a)
    driver.events.clear()
    driver.beat("a", -1)
    [left], [ended] = told(driver, MemberLeft), told(driver, RebalanceEnded)
    assert (left.member_id, left.rule, ended.state, ended.members) == ("a", "M19", "Empty", 0)
    assert ended.moves == tuple(Move("orders", number, "a", None) for number in range(3))


def test_every_rebalance_that_ends_began() -> None:
    """Members come and go in disorder: beginnings and ends alternate, epochs rise, and the last rebalance is
    over."""
    driver = Driver(image=make_image(1, orders=12))
    clients = [Client(driver, f"m{number}").join() for number in range(4)]
    for round_number in range(6):
        driver.advance(3_000)
        settle(*clients)
        gone = clients.pop(round_number % len(clients))
        driver.beat(gone.member_id, -1)
        clients.append(Client(driver, f"n{round_number}").join())
    driver.advance(3_000)
    settle(*clients)
    turns = [event for event in driver.events if isinstance(event, RebalanceBegan | RebalanceEnded)]
    assert all(type(one) is not type(other) for one, other in pairwise(turns))
    assert isinstance(turns[-1], RebalanceEnded)
    epochs = [event.group_epoch for event in turns if isinstance(event, RebalanceBegan)]
    assert epochs == sorted(set(epochs))
    assert driver.state.rebalances == {}


def test_moves_of_targets_lead_from_one_owner_to_the_next() -> None:
    """The moves of all targets, played one after the other, tell which member was to own which partition."""
    driver = Driver(image=make_image(1, orders=12))
    clients = [Client(driver, f"m{number}").join() for number in range(3)]
    driver.advance(3_000)
    settle(*clients)
    driver.beat(clients.pop(0).member_id, -1)
    driver.advance(3_000)
    settle(*clients)
    owners: dict[tuple[str, int], str | None] = {}
    for event in told(driver, AssignmentComputed):
        for topic, partition, before, after in event.moves or ():
            assert owners.get((topic, partition)) == before
            owners[topic, partition] = after
    targets = {("orders", number): client.member_id for client in clients for _, number in client.partitions}
    assert owners == targets


# Offsets.


def test_commits_are_summed_up_and_what_goes_back_is_told() -> None:
    driver = ShardDriver(t=3)
    driver.commit_offsets("g", offsets={0: 10, 1: 10, 2: 10})
    driver.advance(500)
    driver.commit_offsets("g", offsets={0: 9})
    driver.commit_offsets("g", offsets={0: 20, 1: 5, 2: 30})
    back = [
        (event.partition, event.committed_offset, event.end_offset) for event in told(driver, CommitRegressed)
    ]
    assert back == [(0, 9, 10), (1, 5, 10)]
    [summed] = commit_tallies.taken(driver.shard.state, driver.now_ms)
    assert summed == Commits(driver.now_ms, "g", START_MS, START_MS + 500, 3, 7, 2)
    assert list(commit_tallies.taken(driver.shard.state, driver.now_ms)) == []


def test_offsets_and_groups_that_are_deleted_are_told() -> None:
    driver = ShardDriver(t=2)
    driver.commit_offsets("g", offsets={0: 1, 1: 1})
    driver.delete_offsets("g", "t", 0)
    driver.delete_groups("g", "unknown")
    [offsets], [group] = told(driver, OffsetsDeleted), told(driver, GroupDeleted)
    assert (offsets.count, group.group_id, group.rule) == (1, "g", "O13")
