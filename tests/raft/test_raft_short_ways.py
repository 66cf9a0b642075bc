"""The short ways of what nearly always happens: a follower takes what comes next, a leader applies."""

from __future__ import annotations

import pytest

from storage.raft.disk import KNOWN_SYNCS_MIN
from storage.raft.members import Member, pack
from storage.raft.messages import APPEND_ANSWER, AppendAnswer
from storage.raft.raft import APPLY_LATER_MAX
from storage.raft.skeleton import MEMBERS
from tests.raft.one_replica import CONFIG, Bench, append, entries
from tests.raft.one_replica import MEMBERS as FOUNDERS


@pytest.fixture
def follower() -> Bench:
    """A follower of "b" in term 1, which has `KNOWN_SYNCS_MIN` entries and a disk known not to be slow."""
    bench = Bench()
    bench.syncs.takes_s = 0.002
    for index in range(KNOWN_SYNCS_MIN):
        bench.tell("b", append(1, (index, 1 if index else 0), entries(1, first=index + 1)))
        bench.tick()
    assert bench.raft.last_index == KNOWN_SYNCS_MIN
    return bench


LAST = KNOWN_SYNCS_MIN
NEXT = entries(1, first=LAST + 1)


def answer(match_index: int, previous_index: int, *, success: bool = True, commit: int = 0) -> AppendAnswer:
    last_index = max(match_index, previous_index)
    return AppendAnswer(APPEND_ANSWER, 1, 7.5, success, previous_index, match_index, last_index, commit)


def test_what_comes_next_is_durable_and_acknowledged_without_a_tick(follower: Bench) -> None:
    assert follower.tell("b", append(1, (LAST, 1), NEXT)) == [answer(LAST + 1, LAST)]
    assert follower.is_done
    assert not follower.syncs.tasks
    follower.power_loss()
    assert follower.raft.last_index == LAST + 1


def test_a_heartbeat_is_answered_without_a_tick(follower: Bench) -> None:
    assert follower.tell("b", append(1, (LAST, 1), commit=LAST)) == [answer(LAST, LAST, commit=LAST)]
    assert follower.is_done
    assert follower.raft.commit_index == LAST


def test_what_follows_another_entry_is_refused_as_ever(follower: Bench) -> None:
    assert follower.tell("b", append(2, (LAST, 2), entries(2, first=LAST + 1))) == [
        answer(0, LAST, success=False)._replace(term=2, last_index=LAST)
    ]
    assert not follower.is_done
    assert follower.raft.last_index == LAST


def test_what_another_leader_sends_is_compared_first(follower: Bench) -> None:
    follower.tell("c", append(2, (LAST, 1), entries(2, first=LAST + 1)))
    assert not follower.is_done
    assert follower.raft.leader_id == "c"


def test_a_follower_with_a_slow_disk_leaves_it_to_the_thread(follower: Bench) -> None:
    follower.syncs.takes_s = 0.05
    follower.raft._core.journal._speed.took(0.05, 0.0)
    assert follower.tell("b", append(1, (LAST, 1), NEXT)) == []
    assert not follower.is_done
    assert follower.tick() == [("b", answer(LAST + 1, LAST))]


def test_a_failed_sync_is_not_acknowledged(follower: Bench) -> None:
    follower.disk.failing = True
    assert follower.tell("b", append(1, (LAST, 1), NEXT)) == []
    assert "sync failed" in follower.raft.status()["failure"]


def test_a_membership_that_comes_next_counts_at_once(follower: Bench) -> None:
    members = (*FOUNDERS, Member("d", 1, False))
    follower.tell("b", append(1, (LAST, 1), ((MEMBERS + pack(members), LAST + 1, 1),)))
    assert follower.is_done
    assert follower.raft.members == members


def test_what_is_committed_is_applied_by_the_next_tick_that_is_late_enough(follower: Bench) -> None:
    follower.tell("b", append(1, (LAST, 1), NEXT, commit=LAST))
    assert follower.is_done
    assert follower.sheet.applied == []
    follower.apply_all("b")
    assert len(follower.sheet.applied) == LAST


def test_very_much_that_is_committed_is_applied_at_once(follower: Bench) -> None:
    count = APPLY_LATER_MAX
    follower.tell("b", append(1, (LAST, 1), entries(*[1] * count, first=LAST + 1), commit=LAST + count))
    assert not follower.is_done
    follower.tick()
    assert len(follower.sheet.applied) == LAST + count


@pytest.fixture
def learner() -> Bench:
    """A follower as above, without a vote."""
    bench = Bench((*FOUNDERS[1:], Member("a", 1, False)))
    bench.syncs.takes_s = 0.002
    for index in range(KNOWN_SYNCS_MIN):
        bench.tell("b", append(1, (index, 1 if index else 0), entries(1, first=index + 1)))
        bench.tick()
    return bench


def test_a_learner_which_has_no_timer_asks_for_a_tick_to_apply(learner: Bench) -> None:
    learner.tell("b", append(1, (LAST, 1), NEXT, commit=LAST))
    assert not learner.is_done
    learner.tick()
    assert learner.raft.next_tick_at < learner.now + 1


def test_a_learner_that_gets_a_vote_asks_for_a_tick_which_sets_its_timer(learner: Bench) -> None:
    voters = (*FOUNDERS[1:], Member("a", 1, True))
    learner.tell("b", append(1, (LAST, 1), ((MEMBERS + pack(voters), LAST + 1, 1),)))
    assert not learner.is_done
    learner.tick()
    assert learner.raft.next_tick_at <= learner.now + CONFIG.election_max_s


def test_a_leader_only_has_to_apply_what_an_acknowledgement_commits() -> None:
    bench = Bench()
    bench.lead()
    bench.confirm("c")
    index = bench.raft.propose(b"new")
    bench.tick()
    assert not bench.raft.only_commits
    term, now = bench.raft.term, bench.now
    bench.tell("b", AppendAnswer(APPEND_ANSWER, term, now, True, index - 1, index, index, index - 1))
    assert bench.raft.only_commits
    assert not bench.raft.is_settled
    bench.raft.apply_committed()
    assert bench.sheet.applied == [(index, term, b"new")]
    assert not bench.raft.only_commits
    assert bench.raft.is_settled
