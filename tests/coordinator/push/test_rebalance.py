"""The rebalance of a group whose coordinator pushes: stop, wait, start, wait, and what comes in between (D7,
D8, D9)."""

from __future__ import annotations

import pytest

from actors.coordinator.told.events import MemberExpired, RebalanceEnded, RebalanceFailed
from actors.ground.settings import GroupSettings
from actors.protocol.api_keys import PING, START_FETCHER, STOP_FETCHER
from actors.protocol.push_messages import ConsumerAnswer, StartFetcherRequest, TopicCount
from tests.coordinator.driver import image_of
from tests.coordinator.push.pushing import GROUP, SESSION_MS, Pushing


@pytest.fixture
def group() -> Pushing:
    return Pushing()


def kinds(group: Pushing, consumer_id: str) -> list[int]:
    """The requests that a consumer's last connection has seen."""
    return [each.api_key for each in group.channels_of(consumer_id)[-1].pushed]


def test_the_first_consumer_is_started_with_all_partitions(group: Pushing) -> None:
    member = group.register("a")
    assert kinds(group, "a") == [STOP_FETCHER, START_FETCHER]
    assert group.owners() == {("t", partition): "a" for partition in range(4)}
    assert (group.state_name, member.generation_id) == ("Stable", 1)


def test_a_second_consumer_stops_the_first_and_takes_half(group: Pushing) -> None:
    """4.1 to 4.6 of the design: what the first had read is committed before the second starts there."""
    group.register("a")
    group.read("a", 10)
    second = group.register("b")
    assert group.shares() == {"a": 2, "b": 2}
    assert second.positions == {("t", 2): 10, ("t", 3): 10}
    assert group.committed() == {("t", partition): 10 for partition in range(4)}
    assert kinds(group, "a") == [STOP_FETCHER, START_FETCHER] * 2


def test_who_waits_for_partitions_is_not_started_before_all_have_stopped(group: Pushing) -> None:
    group.register("a")
    group.is_deaf.add("a")
    group.register("b")
    assert group.state_name == "PreparingRebalance"
    assert kinds(group, "b") == [STOP_FETCHER]
    assert group.owners() == {("t", partition): "a" for partition in range(4)}


def test_many_consumers_that_come_at_once_make_few_rebalances(group: Pushing) -> None:
    """D9: the bit is set once, however much happens while the first rebalance waits."""
    group.register("a")
    group.is_deaf.add("a")
    for name in "bcdef":
        group.register(name)
    group.is_deaf.clear()
    group.disconnect("a")
    group.register("a")
    assert group.epoch == 2
    assert group.state_name == "Stable"
    assert sum(group.shares().values()) == 4


def test_nothing_is_done_where_nothing_is_necessary(group: Pushing) -> None:
    """A topic that nobody reads comes and grows: no fetcher is stopped."""
    group.register("a")
    group.set_topics(t=4, other=2)
    group.set_topics(t=4, other=3)
    assert kinds(group, "a") == [STOP_FETCHER, START_FETCHER]
    assert group.epoch == 1


def test_new_partitions_are_owned(group: Pushing) -> None:
    """handlePartitionChange."""
    group.register("a")
    group.set_topics(t=6)
    assert group.shares() == {"a": 6}


def test_a_wildcard_finds_a_topic_that_is_created_later(group: Pushing) -> None:
    """handleTopicChange."""
    group.register("a", TopicCount("u.*", True, 1))
    assert group.shares() == {}
    group.set_topics(t=4, u1=3)
    assert group.shares() == {"a": 3}


def test_a_topic_may_be_named_before_it_exists(group: Pushing) -> None:
    group.register("a", "late")
    group.set_topics(t=4, late=2)
    assert group.shares() == {"a": 2}


def test_partitions_that_do_not_exist_any_longer_are_not_owned(group: Pushing) -> None:
    group.register("a", "t", "u")
    group.set_topics(t=4, u=2)
    assert group.shares() == {"a": 6}
    group.set_topics(t=4)
    assert group.shares() == {"a": 4}


def test_streams_are_threads_with_ranges_of_their_own(group: Pushing) -> None:
    """The partitions of a topic are divided over all threads, sorted by consumer and number."""
    group.register("b", TopicCount("t", False, 2))
    group.register("a", TopicCount("t", False, 1))
    [start] = [
        each.request
        for each in group.channels_of("b")[0].pushed
        if each.api_key == START_FETCHER
        and each.number == max(other.number for other in group.channels_of("b")[0].pushed)
    ]
    assert isinstance(start, StartFetcherRequest)
    assert [(each.thread_id, [place[1] for place in each.partitions]) for each in start.ownership] == [
        ("b-0", [2]),
        ("b-1", [3]),
    ]
    assert group.shares() == {"a": 2, "b": 2}


def test_a_consumer_that_does_not_stop_makes_the_attempt_fail_and_goes(group: Pushing) -> None:
    """5 of the design: a time-out, a back-off, and another attempt; the silent consumer is out when its
    session is over, and the others go on."""
    group.register("a")
    group.register("b")
    group.is_deaf.add("a")
    group.register("c")
    group.advance(SESSION_MS * 2 // 3)
    assert "attempts to rebalance have failed" in group.says()
    group.advance(SESSION_MS)
    assert set(group.owners().values()) == {"b", "c"}
    assert [each.member_id for each in group.events if isinstance(each, MemberExpired)] == ["a"]
    assert group.state_name == "Stable"


def test_a_consumer_that_fails_while_others_start_makes_the_attempt_fail(group: Pushing) -> None:
    """handleConsumerFailure, 4: a rebalance that goes on fails at once, and is tried again."""
    group.register("a")
    group.register("b")
    group.is_mute.add("b")
    group.register("c")
    group.advance(2 * SESSION_MS)
    assert set(group.owners().values()) == {"a", "c"}


def test_a_rebalance_that_fails_too_often_is_told_and_tried_on() -> None:
    """ConsumerRebalanceFailed, and D13: the next attempt comes after the longest session."""
    settings = GroupSettings(group_push_pings_missed_max=100, group_push_rebalance_retries_max=1)
    group = Pushing(image_of(t=4), settings)
    group.register("a")
    group.is_mute.add("a")
    group.register("b")
    group.advance(2 * SESSION_MS)
    assert len([each for each in group.events if isinstance(each, RebalanceFailed)]) == 1
    group.is_mute.clear()
    group.advance(2 * SESSION_MS)
    assert group.state_name == "Stable"
    assert group.shares() == {"a": 2, "b": 2}


def test_the_last_consumer_leaves_an_empty_group(group: Pushing) -> None:
    group.register("a")
    group.read("a", 7)
    group.members["a"].close()
    group.advance(SESSION_MS // 3)
    assert group.members["a"].is_done
    assert group.state_name == "Empty"
    assert group.committed() == {("t", partition): 7 for partition in range(4)}


def test_history_tells_of_each_rebalance(group: Pushing) -> None:
    group.register("a")
    group.register("b")
    ended = [each for each in group.events if isinstance(each, RebalanceEnded)]
    assert [(each.cause, each.members, each.moved) for each in ended] == [
        ("consumer registered: nobody owns anything", 1, 4),
        ("consumer registered: partitions that others are to own", 2, 2),
    ]


def test_pings_go_on_while_others_are_waited_for(group: Pushing) -> None:
    group.register("a")
    group.advance(SESSION_MS)
    assert kinds(group, "a")[2:] == [PING] * 3


def test_what_happens_while_others_start_makes_the_next_rebalance(group: Pushing) -> None:
    """D9: the ownership is decided already, so the bit stays set until all have started."""
    group.register("a")
    group.is_mute.add("b")
    group.register("b")
    group.is_mute.add("a")
    session = group.channels_of("b")[0]
    stop = session.pushed[0]
    group.tell(STOP_FETCHER, ConsumerAnswer(GROUP, "b", session.session, stop.number))
    group.settle()
    assert group.state_name == "CompletingRebalance"
    group.set_topics(t=6)
    group.is_mute.clear()
    for name in "ab":
        channel = group.channels_of(name)[0]
        group.tell(START_FETCHER, ConsumerAnswer(GROUP, name, channel.session, channel.pushed[-1].number))
    group.settle()
    assert group.shares() == {"a": 3, "b": 3}
    assert group.epoch == 3
