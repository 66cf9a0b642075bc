"""The rules of held heartbeats: whose heartbeats are held, for how long, and what ends a hold."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.coordinator.classic.held import CLASSIC_HOLD_MS_MAX
from actors.coordinator.consumer.model.state import consumer_groups
from actors.ground.limits import HELD_LOOKS_PER_TURN_MAX
from actors.leader.held_heartbeats import LOOK_AGAIN_MS, HoldEnd
from actors.protocol.api_keys import JOIN_GROUP, LEAVE_GROUP, OFFSET_FETCH
from actors.protocol.messages import (
    LeaveGroupRequest,
    LeavingMember,
    OffsetFetchGroup,
    OffsetFetchRequest,
)
from tests.coordinator.alone import commit, log_of
from tests.leader.holding import (
    GROUP,
    INTERVAL_MS,
    JAVA,
    SETTINGS,
    SPACING_MS,
    ClassicMember,
    Leader,
    Member,
    image,
    settle,
    settle_classic,
)

LIBRDKAFKA = ("confluent-kafka-python", "2.16.1-rdkafka-2.16.0")
HOLD_MS = 4_000
"""How long a heartbeat is held: 0.8 of the heartbeat interval."""
SLOT_MS = 32
"""The width of a timer's slot: timers are so coarse."""


@pytest.fixture
def leader() -> Leader:
    return Leader()


# Whose heartbeats are held.


@pytest.mark.parametrize(
    ("software", "consumer", "classic"),
    [
        (JAVA, True, True),
        (("librdkafka", "2.16.1"), True, True),
        (LIBRDKAFKA, True, True),
        (("a-binding", "3.0-rdkafka-2.16.0"), True, True),
        (("kafka-python", "3.0.12"), False, False),
        (("kgo", "1.20"), False, False),
        (("sarama", "1.45"), False, False),
        (("", ""), False, False),
    ],
)
def test_only_software_on_the_list_is_held(software: tuple[str, str], consumer: bool, classic: bool) -> None:
    leader = Leader()
    (member,) = settle(leader, 1, software)
    assert (member.beat() is None) is consumer
    leader = Leader()
    (speaker,) = settle_classic(leader, 1, software)
    assert (speaker.beat() is None) is classic


def test_a_pattern_may_be_for_the_classic_protocol_only() -> None:
    settings = SETTINGS._replace(group_heartbeat_hold_clients=("kafka-python:classic",))
    leader = Leader(settings)
    (member,) = settle(leader, 1, ("kafka-python", "3.0.12"))
    assert member.beat() is not None
    leader = Leader(settings)
    (speaker,) = settle_classic(leader, 1, ("kafka-python", "3.0.12"))
    assert speaker.beat() is None


def test_nobody_is_held_without_a_list() -> None:
    leader = Leader(SETTINGS._replace(group_heartbeat_hold_clients=()))
    (member,) = settle(leader, 1)
    assert member.beat() is not None
    assert leader.held.counts.began == 0


# How long heartbeats are held.


def test_a_consumers_heartbeat_is_held_for_four_fifths_of_the_interval_it_was_told(leader: Leader) -> None:
    (member,) = settle(leader, 1)
    assert member.beat() is None
    leader.advance(HOLD_MS - 1)
    assert member.answer is None
    leader.advance(SLOT_MS)
    assert member.answer.error_code == ErrorCode.none
    assert (leader.ended, len(leader.held)) == ({"timeout": leader.ended["timeout"]}, 0)


def test_the_interval_last_told_bounds_the_hold(leader: Leader) -> None:
    (member,) = settle(leader, 1)
    for version, interval_ms in ((2, 10_000), (3, 5_000)):
        configs = {GROUP: {"consumer.heartbeat.interval.ms": str(interval_ms)}}
        leader.set_image(image(version, 6, group_configs=configs))
        assert member.beat().heartbeat_interval_ms == interval_ms
        assert member.beat() is None
        leader.advance(interval_ms * 4 // 5 - 1)
        assert member.answer is None
        leader.advance(SLOT_MS)
        assert member.answer is not None


def test_a_member_that_was_told_nothing_on_this_connection_is_answered_at_once(leader: Leader) -> None:
    (member,) = settle(leader, 1)
    again = Member(leader, member.member_id)
    again.epoch = member.epoch
    assert again.beat(topic_partitions=member.assigned) is not None
    assert again.beat() is None


def test_a_classic_heartbeat_is_held_for_four_fifths_of_the_clients_own_spacing(leader: Leader) -> None:
    (member,) = settle_classic(leader, 1)
    assert member.beat() is None
    leader.advance(CLASSIC_HOLD_MS_MAX - 1)
    assert member.answer is None
    leader.advance(SLOT_MS)
    assert member.answer.error_code == ErrorCode.none


def test_a_classic_client_that_speaks_every_second_is_held_for_less(leader: Leader) -> None:
    (member,) = settle_classic(leader, 1)
    member.beat()
    leader.advance(1_500)
    assert member.beat() is None
    leader.advance(1_200 + SLOT_MS)
    assert member.answer is not None


def test_a_classic_client_that_speaks_more_often_is_not_held(leader: Leader) -> None:
    (member,) = settle_classic(leader, 1)
    member.beat()
    leader.advance(500)
    assert member.beat() is not None


def test_a_hold_is_a_quarter_of_a_short_session_at_most(leader: Leader) -> None:
    (member,) = settle_classic(leader, 1, session_ms=6_000)
    assert member.beat() is None
    leader.advance(1_500 - 1)
    assert member.answer is None
    leader.advance(SLOT_MS)
    assert member.answer is not None


def test_a_member_that_speaks_on_after_a_hold_is_never_expired_and_a_silent_one_is(leader: Leader) -> None:
    member, silent = settle(leader, 2)
    for _ in range(20):
        member.beat()
        leader.advance(INTERVAL_MS)
        member.acknowledge()
    assert consumer_groups(leader.replica.shard.state)[GROUP].members.keys() == {member.member_id}  # type: ignore[attr-defined]
    assert silent.beat().error_code == ErrorCode.unknown_member_id


# Only settled members are held.


def test_a_member_that_has_not_said_that_it_has_its_partitions_is_not_held(leader: Leader) -> None:
    """An acknowledgement that is due must not have to wait for a held answer."""
    member = Member(leader, "m0")
    member.join()
    leader.advance(1_000)  # a group that forms waits for more members
    assert member.numbers == (0, 1, 2, 3, 4, 5)
    assert member.beat() is not None
    assert member.acknowledge() is None


def test_a_member_that_has_partitions_to_give_up_is_not_held(leader: Leader) -> None:
    (member,) = settle(leader, 1)
    Member(leader, "m1", ("", "")).join()
    assert member.beat().assignment is not None
    assert member.beat() is not None
    assert leader.held.counts.began > 0
    assert len(leader.held) == 0


def test_a_classic_member_that_owes_a_sync_is_not_held(leader: Leader) -> None:
    first, second = settle_classic(leader, 2)
    for member in (first, second):
        member.join()
    first.sync()
    leader.advance(SPACING_MS)
    assert first.beat() is None
    assert second.beat().error_code == ErrorCode.none


def test_a_heartbeat_of_an_old_generation_is_refused_at_once(leader: Leader) -> None:
    (member,) = settle_classic(leader, 1)
    member.generation -= 1
    assert member.beat().error_code == ErrorCode.illegal_generation


# News ends a hold.


def test_a_join_is_known_to_held_members_at_once_and_costs_no_more_heartbeats(leader: Leader) -> None:
    members = settle(leader, 3)
    for member in members:
        assert member.beat() is None
    newcomer = Member(leader, "new")
    newcomer.join()
    assert all(member.answer is not None for member in members)
    lost = [member for member in members if member.answer.assignment is not None]
    assert lost
    assert leader.ended["news"] == 3
    assert leader.held.counts.saved_ms == 3 * INTERVAL_MS
    for member in lost:
        member.acknowledge()
    newcomer.acknowledge()
    assert sorted(number for each in (*members, newcomer) for number in each.numbers) == [0, 1, 2, 3, 4, 5]


def test_a_newcomers_wait_for_partitions_is_held_until_they_are_free(leader: Leader) -> None:
    """The newcomer's interval is 1,000 ms, so its heartbeat is held for 800 ms at most."""
    (member,) = settle(leader, 1)
    newcomer = Member(leader, "new")
    assert newcomer.join() is None
    leader.advance(800 + SLOT_MS)
    assert (newcomer.interval_ms, newcomer.numbers) == (1_000, ())
    assert newcomer.acknowledge() is None
    member.beat()
    leader.advance(LOOK_AGAIN_MS + SLOT_MS)
    assert newcomer.answer is None
    member.acknowledge()
    leader.advance(LOOK_AGAIN_MS + SLOT_MS)
    assert newcomer.answer.heartbeat_interval_ms == INTERVAL_MS
    assert len(newcomer.numbers) == 3


def test_a_newcomers_first_answer_is_its_assignment_if_the_others_are_quick(leader: Leader) -> None:
    (member,) = settle(leader, 1)
    assert member.beat() is None
    newcomer = Member(leader, "new")
    assert newcomer.join() is None
    member.acknowledge()
    leader.advance(LOOK_AGAIN_MS + SLOT_MS)
    assert (newcomer.epoch, newcomer.interval_ms) == (member.epoch, INTERVAL_MS)
    assert sorted((*member.numbers, *newcomer.numbers)) == [0, 1, 2, 3, 4, 5]


def test_a_newcomer_that_says_more_is_answered_at_once(leader: Leader) -> None:
    settle(leader, 1)
    newcomer = Member(leader, "new")
    assert newcomer.join() is None
    held = newcomer.last_token
    newcomer.beat(-1)
    assert leader.answers[held].assignment == ()
    assert newcomer.answer.member_epoch == -1


def test_a_newcomer_that_is_not_held_is_answered_at_once(leader: Leader) -> None:
    settle(leader, 1)
    assert Member(leader, "new", ("", "")).join().heartbeat_interval_ms == 1_000


def test_a_newcomers_wait_ends_before_it_is_to_speak_again(leader: Leader) -> None:
    settle(leader, 1)
    newcomer = Member(leader, "new")
    newcomer.join()
    leader.advance(800 + SLOT_MS)
    assert newcomer.acknowledge() is None
    leader.advance(800 + SLOT_MS)
    assert newcomer.answer.assignment is None
    assert newcomer.interval_ms == 1_000


def test_a_leave_is_known_to_held_members_at_once(leader: Leader) -> None:
    stays, leaves = settle(leader, 2)
    assert stays.beat() is None
    assert leaves.beat() is None
    leaves.beat(-1)
    assert stays.numbers == (0, 1, 2, 3, 4, 5)
    assert leader.ended["news"] == 1


def test_held_members_wait_for_the_assignment_interval_and_are_then_told_the_target(leader: Leader) -> None:
    """A group that has to wait for its next target has no news for its members."""
    stays, leaves, late = settle(leader, 3)
    assert stays.beat() is None
    leaves.beat(-1)
    stays.acknowledge()
    assert stays.beat() is None
    late.beat(-1)
    leader.advance(LOOK_AGAIN_MS)
    assert stays.answer is None
    leader.advance(1_000)
    assert stays.answer is not None
    assert stays.numbers == (0, 1, 2, 3, 4, 5)


def test_an_expired_session_is_known_to_held_members_at_once(leader: Leader) -> None:
    stays, _ = settle(leader, 2)
    for _ in range(7):
        stays.beat()
        leader.advance(INTERVAL_MS)
    stays.beat()
    leader.advance(HOLD_MS - 1)
    stays.acknowledge()
    leader.advance(INTERVAL_MS)
    assert stays.numbers == (0, 1, 2, 3, 4, 5)
    assert leader.ended["news"] == 1


def test_new_partitions_of_a_topic_are_known_at_once_and_another_topic_is_no_news(leader: Leader) -> None:
    first, second = settle(leader, 2)
    for member in (first, second):
        assert member.beat() is None
    leader.set_image(image(2, 6, offsets_leaders=(1,)))
    assert (first.answer, second.answer) == (None, None)
    leader.set_image(image(3, 8))
    assert sorted((*first.numbers, *second.numbers)) == list(range(8))
    assert leader.ended["news"] == 2


def test_a_changed_group_config_is_news(leader: Leader) -> None:
    (member,) = settle(leader, 1)
    assert member.beat() is None
    configs = {GROUP: {"consumer.heartbeat.interval.ms": "10000"}}
    leader.set_image(image(2, 6, group_configs=configs))
    assert member.answer.heartbeat_interval_ms == 10_000


def test_a_consumer_that_an_administrator_removes_is_told_at_once(leader: Leader) -> None:
    (member,) = settle(leader, 1)
    assert member.beat() is None
    leaving = LeaveGroupRequest(GROUP, (LeavingMember(member.member_id),))
    leader.connect().send(LEAVE_GROUP, 4, leaving)
    assert member.answer.error_code == ErrorCode.unknown_member_id


def test_a_classic_rebalance_is_known_to_held_members_at_once(leader: Leader) -> None:
    members = settle_classic(leader, 3)
    for member in members:
        assert member.beat() is None
    newcomer = ClassicMember(leader, "")
    newcomer.join()
    assert [member.answer.error_code for member in members] == [ErrorCode.rebalance_in_progress] * 3
    assert leader.ended == {"news": 3}


def test_a_classic_member_that_is_removed_by_another_is_told_at_once(leader: Leader) -> None:
    first, second = settle_classic(leader, 2)
    assert second.beat() is None
    leaving = LeaveGroupRequest(GROUP, (LeavingMember(second.member_id),))
    first.send(LEAVE_GROUP, 4, leaving)
    assert second.answer.error_code == ErrorCode.unknown_member_id


def test_a_static_member_whose_place_is_taken_is_told_at_once(leader: Leader) -> None:
    (member,) = settle_classic(leader, 1, instance_id="one")
    assert member.beat() is None
    ClassicMember(leader, "", instance_id="one").join()
    assert member.answer.error_code == ErrorCode.fenced_instance_id


def test_a_commit_of_offsets_is_no_news(leader: Leader) -> None:
    (member,) = settle_classic(leader, 1)
    assert member.beat() is None
    other = leader.connect()
    fetch = OffsetFetchRequest((OffsetFetchGroup(GROUP, None),))
    other.send(OFFSET_FETCH, 9, fetch)
    leader.advance(100)
    assert member.answer is None


# What else ends a hold.


def test_any_further_request_on_the_connection_frees_the_answer_before_its_own(leader: Leader) -> None:
    (member,) = settle(leader, 1)
    assert member.beat() is None
    held = member.last_token
    member.send(OFFSET_FETCH, 9, OffsetFetchRequest((OffsetFetchGroup(GROUP, None),)))
    assert leader.answers[held].error_code == ErrorCode.none
    assert list(leader.answers)[-2:] == [held, member.last_token]
    assert leader.ended["request"] >= 1


def test_an_answer_that_is_freed_tells_what_is_so_by_then() -> None:
    """The group is so big that the news has not come round to this member yet."""
    leader = Leader()
    members = settle_classic(leader, HELD_LOOKS_PER_TURN_MAX + 1)
    for member in members:
        assert member.beat() is None
    newcomer = ClassicMember(leader, "")
    leader.replica.submit(newcomer.request(JOIN_GROUP, 3, newcomer.joining()), leader.now_ms)
    commit(leader.replica)
    leader.replica.run_timers(leader.now_ms)
    last = members[-1]
    assert last.answer is None
    assert last.holding is not None
    leader.held.end(last.holding, HoldEnd.REQUEST)
    assert last.answer.error_code == ErrorCode.rebalance_in_progress
    assert leader.ended["request"] == 1


def test_the_newest_heartbeat_of_a_member_is_the_one_that_is_held(leader: Leader) -> None:
    (member,) = settle(leader, 1)
    assert member.beat() is None
    other = Member(leader, member.member_id)
    other.epoch = member.epoch
    other.beat(topic_partitions=member.assigned)
    assert member.answer is not None
    assert len(leader.held) == 0


def test_what_is_known_of_one_member_is_not_taken_for_another_on_the_same_connection(
    leader: Leader,
) -> None:
    first, second = settle(leader, 2)
    second.holding = first.holding
    assert first.beat() is None
    assert second.beat() is not None
    assert first.answer is not None


def test_whoever_is_held_when_leadership_is_lost_is_told_at_once(leader: Leader) -> None:
    members = settle(leader, 2)
    for member in members:
        member.beat()
    log_of(leader.replica).is_leader = False
    leader.replica.on_fallen()
    assert [member.answer.error_code for member in members] == [ErrorCode.not_coordinator] * 2
    assert leader.ended["moved"] == 2


def test_a_held_answer_is_owed_by_nobody_and_every_hold_is_counted(leader: Leader) -> None:
    """The metric of waiting requests does not count answers that are held."""
    members = settle(leader, 3)
    for member in members:
        assert member.beat() is None
    assert leader.replica.owed == 0
    assert leader.held.counts.began == sum(leader.ended.values()) + len(members)


def test_a_closed_connections_heartbeat_is_forgotten(leader: Leader) -> None:
    (member,) = settle(leader, 1)
    assert member.beat() is None
    member.close()
    leader.advance(INTERVAL_MS)
    assert member.answer is None
    assert leader.ended["closed"] == 1


# Members of big groups hear of news one after the other.


def test_the_answers_of_a_big_group_leave_in_slices() -> None:
    size = 3 * HELD_LOOKS_PER_TURN_MAX
    leader = Leader(partition_count=size)
    members = settle_classic(leader, size)
    for member in members:
        assert member.beat() is None
    leader.turns.clear()
    ClassicMember(leader, "").join()
    assert max(leader.turns) == HELD_LOOKS_PER_TURN_MAX
    assert sum(leader.turns) == size
