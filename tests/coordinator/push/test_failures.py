"""Pings, sessions and failovers of groups whose coordinator pushes (D4, D6, D10, D11, D12)."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.coordinator.push import rebalance
from actors.coordinator.push.group import STABLE, TRANSITIONS, PushGroup, Step
from actors.coordinator.push.ownership import Ownership, divided
from actors.coordinator.told.events import MemberExpired, MemberLeft
from actors.ground.settings import GroupSettings
from actors.protocol import api_keys
from actors.protocol.api_keys import PING, START_FETCHER, STOP_FETCHER
from actors.protocol.messages import LeaveGroupRequest, LeavingMember
from actors.protocol.push_messages import ConsumerAnswer, PingRequest
from tests.coordinator.driver import image_of
from tests.coordinator.push.pushing import GROUP, SESSION_MS, Pushing


@pytest.fixture
def group() -> Pushing:
    return Pushing()


def kinds(group: Pushing, consumer_id: str) -> list[int]:
    return [each.api_key for each in group.channels_of(consumer_id)[-1].pushed]


# Pings.


def test_a_ping_comes_every_third_of_the_session(group: Pushing) -> None:
    group.register("a")
    group.advance(SESSION_MS // 3 - 1)
    assert PING not in kinds(group, "a")
    group.advance(1)
    assert kinds(group, "a").count(PING) == 1
    group.advance(SESSION_MS)
    assert kinds(group, "a").count(PING) == 4


def test_no_ping_is_sent_while_one_is_owed_and_a_missed_one_is_counted() -> None:
    """The watcher expires after two thirds of the session; the next ping says how many were missed."""
    group = Pushing(image_of(t=4), GroupSettings(group_push_pings_missed_max=3))
    group.register("a")
    group.is_mute.add("a")
    group.advance(SESSION_MS)
    pings = [each.request for each in group.channels_of("a")[-1].pushed if each.api_key == PING]
    assert pings == [PingRequest(GROUP, "a", 0), PingRequest(GROUP, "a", 1)]


def test_d4_a_ping_counts_though_the_answer_to_the_start_before_it_never_came() -> None:
    """The consumer reads. When it is started once more it goes on where its pings have told that it is."""
    group = Pushing(image_of(t=4), GroupSettings(group_push_pings_missed_max=3))
    group.register("a")
    group.disconnect("a")
    group.is_mute.add("a")
    group.register("a")
    group.is_mute.clear()
    group.read("a", 9)
    group.advance(2 * SESSION_MS)
    assert group.committed() == {("t", partition): 9 for partition in range(4)}
    first, *_, last = (
        each.request for each in group.channels_of("a")[-1].pushed if each.api_key == START_FETCHER
    )
    assert [offset for owned in first.ownership for _, _, offset in owned.partitions] == [-1] * 4
    assert [offset for owned in last.ownership for _, _, offset in owned.partitions] == [9] * 4


def test_an_answer_forgets_missed_pings() -> None:
    group = Pushing(image_of(t=4), GroupSettings(group_push_pings_missed_max=2))
    group.register("a")
    for _ in range(4):
        group.is_mute.add("a")
        group.advance(SESSION_MS // 3)
        group.is_mute.clear()
        group.advance(SESSION_MS * 5 // 3)
    assert group.owners()


def test_a_silent_consumer_is_cut_off_and_removed_when_it_must_have_stopped(group: Pushing) -> None:
    """The others are not started while it may still read: it stops by itself a session after the last ping
    that it may have heard."""
    group.register("a")
    group.register("b")
    group.is_deaf.add("a")
    group.advance(SESSION_MS)
    assert not group.channels_of("a")
    assert group.shares() == {"a": 2, "b": 2}
    group.advance(SESSION_MS)
    assert set(group.owners().values()) == {"b"}
    [gone] = [each for each in group.events if isinstance(each, MemberExpired)]
    assert (gone.member_id, gone.rule) == ("a", "D4")


def test_a_request_that_is_late_is_not_sent(group: Pushing) -> None:
    """What has waited for its commit for too long would be heard after the coordinator had given up."""
    group.register("a")
    channel = group.channels_of("a")[0]
    assert all(each.until_ms - group.now_ms == SESSION_MS // 10 for each in channel.pushed)


def test_answers_of_another_connection_or_to_nothing_change_nothing(group: Pushing) -> None:
    group.register("a")
    group.read("a", 5)
    session = group.channels_of("a")[0].session
    before = list(group.shard.records())
    told = (("t", ((0, 5),)),)
    for api_key in (PING, STOP_FETCHER, START_FETCHER):
        for each_session in (session, session + 1_000):
            group.tell(api_key, ConsumerAnswer(GROUP, "a", each_session, 99, 0, told, True))
    group.settle()
    assert list(group.shard.records()) == before


# Offsets that come with answers.


def test_offsets_of_pings_are_committed_if_the_consumer_commits_by_itself(group: Pushing) -> None:
    group.register("a")
    group.read("a", 5)
    group.advance(SESSION_MS // 3)
    assert group.committed() == {("t", partition): 5 for partition in range(4)}


def test_offsets_of_what_others_own_are_not_taken(group: Pushing) -> None:
    group.register("a")
    group.register("b")
    group.members["a"].positions[("t", 3)] = 99
    group.members["a"].positions[("t", 77)] = 99
    group.members["a"].positions[("u", 0)] = 99
    group.members["b"].lose()
    group.read("a", 1)
    group.advance(SESSION_MS // 3)
    assert group.committed() == {("t", 0): 1, ("t", 1): 1}


def test_without_auto_commit_no_answer_commits(group: Pushing) -> None:
    group.register("a", auto_commit=False)
    group.read("a", 5)
    group.advance(SESSION_MS)
    assert group.committed() == {}


# Closing.


def test_closing_waits_for_one_more_ping(group: Pushing) -> None:
    """D11: the second ping leaves when the offsets of the first one's answer are committed."""
    member = group.register("a")
    group.register("b")
    group.read("a", 5)
    member.close()
    group.advance(SESSION_MS // 3)
    assert member.is_done
    assert kinds_of_closed(group, "a").count(PING) == 2
    assert group.committed()[("t", 0)] == 5
    assert group.shares() == {"b": 4}
    [gone] = [each for each in group.events if isinstance(each, MemberLeft)]
    assert (gone.member_id, gone.rule) == ("a", "D11")


def kinds_of_closed(group: Pushing, consumer_id: str) -> list[int]:
    channels = [each for each in group.channels.values() if each.member.consumer_id == consumer_id]
    return [each.api_key for each in channels[-1].pushed]


def test_without_auto_commit_closing_takes_one_ping(group: Pushing) -> None:
    member = group.register("a", auto_commit=False)
    member.close()
    group.advance(SESSION_MS // 3)
    assert member.is_done
    assert group.state_name == "Empty"


def test_whom_an_administrator_removes_stops_first(group: Pushing) -> None:
    """LeaveGroup: partitions of a consumer that reads them are given to others when it has stopped."""
    group.register("a")
    group.register("b")
    group.read("a", 3)
    body = LeaveGroupRequest(GROUP, (LeavingMember("a"), LeavingMember("nobody")))
    left = group.ask(api_keys.LEAVE_GROUP, body, 5)
    assert [each.error_code for each in left.members] == [0, ErrorCode.unknown_member_id]
    assert group.shares() == {"b": 4}
    assert group.committed()[("t", 0)] == 3
    assert not group.channels_of("a")


# Failovers.


def test_the_next_leader_lets_each_consumer_go_on_as_it_comes(group: Pushing) -> None:
    """D13, the spike: nobody waits for the others, and nobody is stopped."""
    group.register("a")
    group.register("b")
    group.fail_over()
    assert (group.owners(), group.state_name) == ({}, "Stable")
    group.register("b")
    assert set(group.owners().values()) == {"b"}
    assert kinds(group, "b") == [START_FETCHER]
    group.register("a")
    assert group.epoch == 2
    assert group.shares() == {"a": 2, "b": 2}


def test_partitions_are_divided_once_however_many_come_back(
    group: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D10: who is back is started, and what all own is not computed anew for each of them."""
    names = [f"c{number}" for number in range(20)]
    for name in names:
        group.register(name)
    divisions = 0

    def counted(*given: Any) -> Ownership:
        nonlocal divisions
        divisions += 1
        return divided(*given)

    group.fail_over()
    monkeypatch.setattr(rebalance, "divided", counted)
    for name in names:
        group.register(name)
    assert len(group.owners()) == 4
    assert divisions == 0


def test_who_does_not_come_back_is_removed_by_the_next_leader(group: Pushing) -> None:
    group.register("a")
    group.register("b")
    group.is_deaf.add("a")
    group.fail_over()
    group.register("b")
    group.advance(SESSION_MS)
    assert group.shares() == {"a": 2, "b": 2}
    group.advance(SESSION_MS // 4)
    assert set(group.owners().values()) == {"b"}
    assert group.shares() == {"b": 4}


def test_a_rebalance_that_a_leader_has_begun_is_done_again_by_the_next(group: Pushing) -> None:
    """It fell while consumers were being stopped: the record says so, and the next one waits for all."""
    group.register("a")
    group.is_mute.add("a")
    group.register("b")
    assert group.state_name == "PreparingRebalance"
    group.is_mute.clear()
    group.fail_over()
    assert group.state_name == "PreparingRebalance"
    group.register("a")
    assert group.owners() == {}
    group.register("b")
    assert group.shares() == {"a": 2, "b": 2}


def test_who_may_have_started_is_waited_for_by_the_next_leader(group: Pushing) -> None:
    """The first leader fell while consumers were being started: one of them reads what was the other's."""
    group.register("a")
    group.is_mute.add("b")
    group.register("b")
    group.advance(1)
    assert group.state_name == "PreparingRebalance"
    group.is_mute.clear()
    group.disconnect("b")
    group.is_mute.add("a")
    group.register("b")
    assert group.state_name == "CompletingRebalance"
    group.is_deaf.add("b")
    group.is_mute.clear()
    group.fail_over()
    group.register("a")
    assert set(group.owners().values()) == {"b"}
    group.advance(2 * SESSION_MS)
    assert set(group.owners().values()) == {"a"}


def test_offsets_outlive_the_leader(group: Pushing) -> None:
    group.register("a")
    group.read("a", 5)
    group.advance(SESSION_MS // 3)
    group.fail_over()
    assert group.register("a").positions[("t", 0)] == 5


def test_a_step_that_the_table_does_not_have_is_a_bug() -> None:
    group = PushGroup("g", 0)
    with pytest.raises(KeyError):
        group.move(Step.ALL_STARTED, 0)
    assert (STABLE, Step.ALL_STOPPED) not in TRANSITIONS
