"""A session counts from when the heartbeat came: no hold prolongs one, and none ends one (C12, M17)."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.coordinator.told.events import MemberExpired
from actors.protocol.api_keys import OFFSET_COMMIT
from actors.protocol.messages import OffsetCommitRequest
from tests.leader.holding import (
    GROUP,
    SETTINGS,
    ClassicMember,
    Leader,
    Member,
    settle,
    settle_classic,
)


@pytest.fixture
def leader() -> Leader:
    return Leader()


def gone_after_ms(leader: Leader) -> int:
    """Let time pass until a member's session ends, and return how long that takes."""
    since_ms = leader.now_ms
    leader.events.clear()
    while not (told := [event for event in leader.events if isinstance(event, MemberExpired)]):
        leader.advance(1)
    return int(told[0].at_ms) - since_ms


@pytest.mark.parametrize("instance_id", [None, "one"])
def test_a_classic_member_that_falls_silent_while_it_is_held_is_out_in_time(
    leader: Leader, instance_id: str | None
) -> None:
    """C12: in the millisecond, as if nobody had been held."""
    (member,) = settle_classic(leader, 1, session_ms=5_000, instance_id=instance_id)
    assert member.beat() is None
    assert gone_after_ms(leader) == 5_000
    assert leader.ended == {"timeout": 1}


@pytest.mark.parametrize("instance_id", [None, "one"])
def test_a_consumer_that_falls_silent_while_it_is_held_is_out_in_time(instance_id: str | None) -> None:
    """M17: in the millisecond, as if nobody had been held."""
    leader = Leader(SETTINGS._replace(group_consumer_session_timeout_ms=6_000))
    member = Member(leader, "m0")
    member.join(instance_id=instance_id)
    leader.advance(1_000)
    member.acknowledge()
    leader.advance(1_000)
    assert member.beat() is None
    assert gone_after_ms(leader) == 6_000
    assert leader.ended.keys() == {"timeout"}


def test_news_that_frees_an_answer_prolongs_no_session(leader: Leader) -> None:
    """C12: a join is known to the held members, and one of them does not react."""
    silent, member = settle_classic(leader, 2, session_ms=5_000)
    for each in (silent, member):
        assert each.beat() is None
    leader.advance(1_000)
    ClassicMember(leader, "").join()
    member.join()
    assert silent.answer.error_code == ErrorCode.rebalance_in_progress
    assert gone_after_ms(leader) == 4_000


def test_a_later_request_on_another_connection_keeps_the_session_that_it_began(leader: Leader) -> None:
    """O1: a commit counts as a heartbeat; the answer that is freed later takes nothing away from it."""
    (member,) = settle_classic(leader, 1, session_ms=6_000)
    assert member.beat() is None
    leader.advance(1_000)
    topics = (("orders", ((0, 1, -1, ""),)),)
    committed = OffsetCommitRequest(GROUP, member.generation, member.member_id, None, -1, topics)
    leader.connect().send(OFFSET_COMMIT, 8, committed)
    assert gone_after_ms(leader) == 6_000


@pytest.mark.parametrize(
    ("spacing_ms", "session_ms"), [(3_000, 45_000), (2_000, 6_000), (1_500, 5_000), (5_000, 6_000)]
)
@pytest.mark.parametrize("is_from_answer", [False, True], ids=["from sending", "from the answer"])
def test_a_classic_member_that_is_held_and_alive_is_never_expired(
    leader: Leader, spacing_ms: int, session_ms: int, is_from_answer: bool
) -> None:
    """Java counts its interval from sending, other clients count from the answer."""
    (member,) = settle_classic(leader, 1, session_ms=session_ms)
    member.beat()
    leader.advance(spacing_ms)
    for _ in range(50):
        member.beat()
        if is_from_answer:
            while member.answer is None:
                leader.advance(10)
        leader.advance(spacing_ms)
        if not is_from_answer:
            assert member.answer is not None, "a hold ends before the next heartbeat"
    assert leader.held.counts.began >= 50
    assert [event for event in leader.events if isinstance(event, MemberExpired)] == []


@pytest.mark.parametrize(
    ("interval_ms", "session_ms"), [(5_000, 45_000), (2_000, 6_000), (5_000, 6_000), (3_000, 45_000)]
)
@pytest.mark.parametrize("is_from_answer", [False, True], ids=["from sending", "from the answer"])
def test_a_consumer_that_is_held_and_alive_is_never_expired(
    interval_ms: int, session_ms: int, is_from_answer: bool
) -> None:
    times = {
        "group_consumer_session_timeout_ms": session_ms,
        "group_consumer_heartbeat_interval_ms": interval_ms,
    }
    leader = Leader(SETTINGS._replace(**times))
    (member,) = settle(leader, 1)
    for _ in range(50):
        member.beat()
        if is_from_answer:
            while member.answer is None:
                leader.advance(10)
        leader.advance(interval_ms)
        if not is_from_answer:
            assert member.answer is not None, "a hold ends before the next heartbeat"
    assert leader.held.counts.began >= 50
    assert [event for event in leader.events if isinstance(event, MemberExpired)] == []
