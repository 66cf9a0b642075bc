"""One replica against scripted peers: each test is one rule that keeps acknowledged entries or reads safe."""

from __future__ import annotations

from typing import Any

import pytest
from crc32c import crc32c

from storage.raft.errors import BadMessage, NotLeader, RaftFatal
from storage.raft.members import Member, pack
from storage.raft.messages import (
    APPEND,
    APPEND_ANSWER,
    CHUNK,
    CHUNK_ANSWER,
    PRE_VOTE,
    PRE_VOTE_ANSWER,
    TIMEOUT_NOW,
    VOTE,
    VOTE_ANSWER,
    AppendAnswer,
    Chunk,
    ChunkAnswer,
    PreVote,
    PreVoteAnswer,
    TimeoutNow,
    Vote,
    VoteAnswer,
)
from storage.raft.raft import APPLY_LATER_MAX
from storage.raft.replication import LATER_ENTRIES_MAX
from storage.raft.skeleton import NO_OP, Node
from tests.raft.one_replica import CONFIG, MEMBERS, Bench, append, entries


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_vote_is_on_disk_before_it_is_told(bench: Bench) -> None:
    assert bench.tell("b", Vote(VOTE, 1, 0, 0, False)) == [VoteAnswer(VOTE_ANSWER, 1, True)]
    bench.power_loss()
    bench.later(1.0)
    assert bench.tell("c", Vote(VOTE, 1, 0, 0, False)) == [VoteAnswer(VOTE_ANSWER, 1, False)]
    assert bench.tell("b", Vote(VOTE, 1, 0, 0, False)) == [VoteAnswer(VOTE_ANSWER, 1, True)]


def test_nobody_votes_against_a_leader_it_has_just_heard(bench: Bench) -> None:
    bench.tell("b", append(1, (0, 0)))
    bench.later(0.24)
    assert bench.tell("c", PreVote(PRE_VOTE, 1, 9, 9)) == [PreVoteAnswer(PRE_VOTE_ANSWER, 1, 2, False)]
    assert bench.tell("c", Vote(VOTE, 5, 9, 9, False)) == [VoteAnswer(VOTE_ANSWER, 1, False)]
    assert bench.raft.term == 1, "the term is not taken over, or the leader would be deposed"
    bench.later(0.02)
    assert bench.tell("c", PreVote(PRE_VOTE, 1, 9, 9)) == [PreVoteAnswer(PRE_VOTE_ANSWER, 1, 2, True)]
    assert bench.tell("c", Vote(VOTE, 5, 9, 9, False)) == [VoteAnswer(VOTE_ANSWER, 5, True)]


def test_a_leader_that_hands_over_releases_the_promise(bench: Bench) -> None:
    bench.tell("b", append(1, (0, 0)))
    assert bench.tell("c", Vote(VOTE, 2, 9, 9, True)) == [VoteAnswer(VOTE_ANSWER, 2, True)]


def test_a_restarted_replica_keeps_the_promise_it_forgot(bench: Bench) -> None:
    bench.tell("b", append(1, (0, 0)))
    bench.power_loss()
    bench.later(0.24)
    assert bench.tell("c", Vote(VOTE, 2, 9, 9, False)) == [VoteAnswer(VOTE_ANSWER, 1, False)]
    bench.later(0.02)
    assert bench.tell("c", Vote(VOTE, 2, 9, 9, False)) == [VoteAnswer(VOTE_ANSWER, 2, True)]


def test_a_leader_whose_host_closed_its_connection_is_replaced_within_20_ms(bench: Bench) -> None:
    bench.tell("b", append(1, (0, 0)))
    bench.wire._disconnected(Node("b"))
    bench.raft.peer_lost("b")
    assert bench.raft.next_tick_at <= bench.now + 0.02
    bench.later(0.021)
    assert PreVote(PRE_VOTE, 1, 0, 0) in [message for _, message in bench.tick()]


def test_a_candidate_with_an_older_log_gets_no_vote(bench: Bench) -> None:
    bench.tell("b", append(3, (0, 0), entries(1, 3)))
    bench.later(1.0)
    for last in ((2, 2), (9, 2), (1, 3)):
        assert bench.tell("c", Vote(VOTE, 4, *last, False)) == [VoteAnswer(VOTE_ANSWER, 4, False)]
    assert bench.tell("c", Vote(VOTE, 4, 2, 3, False)) == [VoteAnswer(VOTE_ANSWER, 4, True)]


def test_votes_are_counted_by_replica_not_by_message() -> None:
    """One voter of a group of five that says yes three times has one vote."""
    bench = Bench(tuple(Member(name, 1, True) for name in "abcde"))
    bench.later(1.0)
    bench.tick()
    for _ in range(3):
        bench.tell("b", PreVoteAnswer(PRE_VOTE_ANSWER, 0, 1, True))
    assert bench.raft.term == 0
    bench.tell("c", PreVoteAnswer(PRE_VOTE_ANSWER, 0, 1, True))
    for _ in range(3):
        bench.tell("b", VoteAnswer(VOTE_ANSWER, 1, True))
    assert (bench.raft.term, bench.raft.is_leader) == (1, False)


def test_a_vote_of_another_term_elects_nobody(bench: Bench) -> None:
    for _ in range(2):
        bench.later(1.0)
        bench.tick()
        term = bench.raft.term
        bench.tell("b", PreVoteAnswer(PRE_VOTE_ANSWER, term, term + 1, True))
    assert bench.raft.term == 2
    bench.tell("b", VoteAnswer(VOTE_ANSWER, 1, True))
    assert not bench.raft.is_leader
    bench.tell("b", VoteAnswer(VOTE_ANSWER, 2, True))
    assert bench.raft.is_leader


def test_entries_are_acknowledged_only_when_they_are_durable(bench: Bench) -> None:
    bench.tell("b", append(1, (0, 0), entries(1, 1)))
    assert bench.tick(sync=False) == []
    bench.later(0.03)
    assert bench.tick(sync=False) == [("b", AppendAnswer(APPEND_ANSWER, 1, 7.5, True, 0, 0, 2, 0))]
    bench.syncs.finish()
    assert bench.tick() == [("b", AppendAnswer(APPEND_ANSWER, 1, 7.5, True, 0, 2, 2, 0))]


def test_what_matches_is_kept_when_an_older_message_comes_again(bench: Bench) -> None:
    bench.tell("b", append(1, (0, 0), entries(1, 1, 1)))
    bench.tick()
    bench.tell("b", append(1, (0, 0), entries(1)))
    assert bench.raft.last_index == 3
    assert bench.tell("b", append(1, (3, 1))) == [AppendAnswer(APPEND_ANSWER, 1, 7.5, True, 3, 3, 3, 0)]


def test_a_conflicting_tail_is_replaced(bench: Bench) -> None:
    bench.tell("b", append(1, (0, 0), entries(1, 1, 1)))
    bench.tick()
    bench.tell("c", append(2, (1, 1), entries(2, first=2, mark=b"y")))
    bench.tick()
    bench.tell("c", append(2, (2, 2), (), commit=2))
    bench.apply_all("c")
    assert bench.sheet.applied == [(1, 1, b"x"), (2, 2, b"y")]


def test_a_conflict_with_a_committed_entry_ends_the_process(bench: Bench) -> None:
    bench.tell("b", append(1, (0, 0), entries(1, 1), commit=2))
    bench.tell("c", append(2, (1, 1), entries(2, first=2)))
    with pytest.raises(RaftFatal, match="entry 2 is committed with term 1"):
        bench.tick()


def test_the_commit_index_stays_below_what_this_leader_verified(bench: Bench) -> None:
    """The tail of the old term must not commit because the new leader has committed as many entries."""
    bench.tell("b", append(1, (0, 0), entries(1, 1, 1)))
    bench.tell("c", append(2, (1, 1), (), commit=3))
    bench.apply_all("c")
    assert bench.raft.commit_index == 1
    assert bench.sheet.applied == [(1, 1, b"x")]


def test_a_rejection_says_where_to_try_next(bench: Bench) -> None:
    bench.tell("b", append(1, (0, 0), entries(1, 1), commit=1))
    assert bench.tell("b", append(1, (9, 1))) == [AppendAnswer(APPEND_ANSWER, 1, 7.5, False, 9, 0, 2, 1)]


def test_a_message_of_an_older_term_is_answered_with_the_present_one(bench: Bench) -> None:
    bench.tell("b", append(5, (0, 0)))
    (answer,) = bench.tell("c", append(4, (0, 0), entries(4)))
    assert (answer.term, answer.success) == (5, False)
    assert bench.raft.last_index == 0


def test_a_leader_counts_itself_only_when_its_own_disk_has_the_entry(bench: Bench) -> None:
    bench.lead()
    assert bench.sheet.leads == 1
    index = bench.raft.propose(b"new")
    bench.tick(sync=False)
    answer = AppendAnswer(APPEND_ANSWER, bench.raft.term, bench.now, True, index - 1, index, index, 0)
    bench.tell("b", answer)
    bench.tick(sync=False)
    assert bench.raft.commit_index == index - 1
    bench.syncs.finish()
    bench.tick()
    assert bench.sheet.applied == [(index, bench.raft.term, b"new")]


def test_a_follower_applies_what_is_committed_some_time_later(bench: Bench) -> None:
    bench.tell("b", append(1, (0, 0), entries(1, 1), commit=2))
    bench.tick()
    assert bench.raft.commit_index == 2
    assert bench.sheet.applied == []
    bench.apply_all("b")
    assert bench.sheet.applied == [(1, 1, b"x"), (2, 1, b"x")]


def test_a_follower_applies_many_entries_at_once(bench: Bench) -> None:
    many = entries(*[1] * APPLY_LATER_MAX)
    bench.tell("b", append(1, (0, 0), many, commit=len(many) - 1))
    bench.tick()
    assert bench.sheet.applied == []
    bench.tell("b", append(1, (len(many), 1), commit=len(many)))
    bench.tick()
    assert len(bench.sheet.applied) == len(many)


def test_all_that_is_committed_is_applied_before_a_leader_serves(bench: Bench) -> None:
    bench.tell("b", append(1, (0, 0), entries(1, 1), commit=2))
    bench.tick()
    bench.lead()
    assert bench.raft.serving
    assert bench.sheet.applied == [(1, 1, b"x"), (2, 1, b"x")]


def with_entries(sent: list[tuple[str, Any]]) -> list[str]:
    return [peer for peer, message in sent if message.kind == APPEND and message.entries]


def test_entries_go_at_once_to_a_majority_and_to_the_others_with_the_next_heartbeat(bench: Bench) -> None:
    bench.lead()
    bench.confirm("b")
    bench.confirm("c")
    bench.raft.propose(b"x")
    assert with_entries(bench.tick()) == ["b"]
    bench.raft.propose(b"y")
    assert with_entries(bench.tick()) == ["b"]
    bench.later(CONFIG.heartbeat_s)
    late = [message for peer, message in bench.tick() if peer == "c"]
    assert [len(message.entries) for message in late] == [2]


def test_a_voter_that_falls_behind_is_waited_for_no_more(bench: Bench) -> None:
    bench.lead()
    bench.confirm("b")
    bench.confirm("c")
    bench.raft.propose(b"x")
    bench.tick()
    bench.wire._disconnected(Node("b"))
    bench.raft.propose(b"y")
    assert with_entries(bench.tick()) == ["c"]


def test_a_voter_that_lost_what_it_had_acknowledged_is_found_out(bench: Bench) -> None:
    """Somebody emptied its disk and started it under its old name, under which nobody can help it."""
    bench.lead()
    bench.confirm("c")
    bench.wire._disconnected(Node("c"))
    bench.wire._connected(Node("c"))
    bench.later(CONFIG.heartbeat_s)
    bench.tick()
    last, term = bench.raft.last_index, bench.raft.term
    bench.tell("c", AppendAnswer(APPEND_ANSWER, term, bench.now, False, last, 0, 0, 0))
    has_lost = {peer: each["has_lost"] for peer, each in bench.raft.status()["peers"].items()}
    assert has_lost == {"b": False, "c": True}


def test_an_answer_from_before_an_acknowledgement_accuses_nobody(bench: Bench) -> None:
    bench.lead()
    before, last, term = bench.now, bench.raft.last_index, bench.raft.term
    bench.later(CONFIG.heartbeat_s)
    bench.confirm("c")
    bench.tell("c", AppendAnswer(APPEND_ANSWER, term, before, False, last, 0, 0, 0))
    assert not bench.raft.status()["peers"]["c"]["has_lost"]


def test_a_voter_that_lags_gets_entries_at_once_before_it_lags_too_far(bench: Bench) -> None:
    bench.lead()
    bench.confirm("b")
    bench.confirm("c")
    for _ in range(LATER_ENTRIES_MAX):
        bench.raft.propose(b"x")
        assert "c" not in with_entries(bench.tick())
    bench.raft.propose(b"x")
    assert "c" in with_entries(bench.tick())


def test_a_probe_that_ends_late_does_not_send_again_what_is_acknowledged(bench: Bench) -> None:
    """A simulation found this: what was sent twice stayed in the window, until nothing was sent any more."""
    bench.lead()
    bench.confirm("c")
    term, first = bench.raft.term, bench.raft.last_index + 1
    for _ in range(3):
        bench.raft.propose(b"x")
    bench.tick()
    last = bench.raft.last_index

    def answer(*, success: bool, previous: int, match: int) -> AppendAnswer:
        return AppendAnswer(APPEND_ANSWER, term, bench.now, success, previous, match, last, first)

    bench.tell("c", answer(success=False, previous=last, match=0))
    bench.tick()
    bench.tell("c", answer(success=True, previous=-1, match=last))
    bench.tell("c", answer(success=True, previous=first, match=last))
    bench.raft.propose(b"new")
    bench.later(CONFIG.heartbeat_s)
    sent = [m for peer, m in bench.tick() if peer == "c" and m.kind == APPEND and m.entries]
    assert [entry[1] for message in sent for entry in message.entries] == [last + 1]


def test_entries_of_older_terms_commit_only_under_one_of_the_present_term(bench: Bench) -> None:
    """This is figure 8 of the Raft paper."""
    bench.tell("b", append(1, (0, 0), entries(1, 1)))
    bench.tick()
    bench.later(1.0)
    bench.tick()
    bench.tell("b", PreVoteAnswer(PRE_VOTE_ANSWER, 1, 2, True))
    bench.tell("b", VoteAnswer(VOTE_ANSWER, 2, True))
    bench.tick()
    assert bench.raft.is_leader
    bench.tell("b", AppendAnswer(APPEND_ANSWER, 2, bench.now, True, 2, 2, 2, 0))
    bench.tick()
    assert (bench.raft.commit_index, bench.raft.serving) == (0, False)
    bench.confirm("b")
    assert (bench.raft.commit_index, bench.raft.serving) == (3, True)


def test_the_lease_runs_from_sending_not_from_hearing_back(bench: Bench) -> None:
    bench.lead()
    bench.later(0.05)
    sent_at = bench.now
    bench.later(0.2)
    bench.tell("b", AppendAnswer(APPEND_ANSWER, bench.raft.term, sent_at, True, -1, 1, 1, 1))
    assert bench.raft.has_lease()
    bench.later(0.9 * 0.25 - 0.2 + 0.001)
    assert not bench.raft.has_lease()


def test_no_lease_from_a_peer_that_was_hung_up_on(bench: Bench) -> None:
    bench.lead()
    assert bench.raft.has_lease()
    bench.wire._disconnected(Node("b"))
    assert not bench.raft.has_lease()
    before = bench.now
    bench.later(0.001)
    bench.wire._connected(Node("b"))
    bench.tell("b", AppendAnswer(APPEND_ANSWER, bench.raft.term, before, True, -1, 1, 1, 1))
    assert not bench.raft.has_lease(), "it was sent over the old connection"


def test_a_follower_echoes_a_send_time_only_to_the_leader_whose_clock_it_is(bench: Bench) -> None:
    """A simulation found this: an old leader's time, echoed to its successor, gave that one a lease."""
    bench.tell("b", append(1, (0, 0), entries(1, 1))._replace(sent_at=1e9))
    bench.tick()
    bench.tell("c", append(2, (2, 1))._replace(sent_at=3.5))
    bench.later(0.6)
    bench.tick()
    bench.tell("c", append(2, (9, 2))._replace(sent_at=4.5))
    assert bench.tick() == [("c", AppendAnswer(APPEND_ANSWER, 2, float("-inf"), True, -1, 2, 2, 0))]


def test_a_send_time_that_is_not_our_own_gives_no_lease(bench: Bench) -> None:
    bench.lead()
    bench.later(0.24)
    answer = AppendAnswer(APPEND_ANSWER, bench.raft.term, bench.now + 500.0, True, -1, 1, 1, 1)
    bench.tell("b", answer)
    assert not bench.raft.has_lease()


def test_no_lease_once_leadership_is_being_handed_over(bench: Bench) -> None:
    bench.lead()
    assert bench.raft.transfer("b")
    assert (("b", TimeoutNow(TIMEOUT_NOW, bench.raft.term))) in bench.tick()
    assert not bench.raft.has_lease()
    bench.confirm("b")
    assert not bench.raft.has_lease(), "for the rest of the term"
    bench.later(0.51)
    bench.tick()
    assert not bench.raft.is_leader, "a leader without a lease until the end of its term is of no use"


def test_the_target_of_a_transfer_stands_at_once(bench: Bench) -> None:
    bench.tell("b", append(1, (0, 0)))
    assert bench.tell("b", TimeoutNow(TIMEOUT_NOW, 1)) == [Vote(VOTE, 2, 0, 0, True)]
    assert bench.tell("c", TimeoutNow(TIMEOUT_NOW, 2)) == [], "only the leader may ask"


def test_a_snapshot_is_installed_from_checked_chunks(bench: Bench) -> None:
    data = b"whole state"
    crc = crc32c(data)

    def chunk(offset: int, piece: bytes, index: int = 20) -> Chunk:
        return Chunk(CHUNK, 3, 7.5, index, 2, len(data), crc, pack(MEMBERS), offset, piece)

    assert bench.tell("b", chunk(5, data[5:])) == [ChunkAnswer(CHUNK_ANSWER, 3, 7.5, 20, 0, False)]
    assert bench.tell("b", chunk(0, data[:5])) == [ChunkAnswer(CHUNK_ANSWER, 3, 7.5, 20, 5, False)]
    assert bench.raft.commit_index == 0, "nothing is committed by pieces"
    assert bench.tell("b", chunk(5, b"wrong!")) == [ChunkAnswer(CHUNK_ANSWER, 3, 7.5, 20, 0, False)]
    bench.tell("b", chunk(0, data[:5]))
    assert bench.tell("b", chunk(5, data[5:])) == [ChunkAnswer(CHUNK_ANSWER, 3, 7.5, 20, len(data), True)]
    assert (bench.sheet.restored, bench.raft.commit_index, bench.raft.last_index) == (
        [data],
        20,
        20,
    )
    assert bench.tell("b", chunk(0, data, index=19))[0].covered
    assert bench.sheet.restored == [data], "a stale one must not turn the state back"
    bench.power_loss()
    assert (bench.sheet.restored, bench.raft.applied_index) == ([data], 20)


def test_a_crash_between_saving_a_snapshot_and_resetting_the_log_is_repaired(bench: Bench) -> None:
    bench.tell("b", append(1, (0, 0), entries(1, 1)))
    bench.tick()
    other = Bench()
    data = b"state"
    other.tell("b", Chunk(CHUNK, 3, 7.5, 20, 2, len(data), crc32c(data), pack(MEMBERS), 0, data))
    for name in other.disk.list("s"):
        bench.disk.open_append(f"s/{name}").append(other.disk.read(f"s/{name}"))
        bench.disk.open_append(f"s/{name}").sync()
    bench.disk.sync_directory("s")
    bench.power_loss()
    assert (bench.sheet.restored, bench.raft.last_index, bench.raft.applied_index) == (
        [data],
        20,
        20,
    )
    bench.tell("b", append(3, (20, 2), entries(3, first=21)))
    assert bench.raft.last_index == 21


def test_after_a_failed_write_a_replica_says_nothing_more(bench: Bench) -> None:
    bench.lead()
    bench.disk.full = True
    bench.raft.propose(b"too much")
    bench.tick()
    assert (bench.raft.is_leader, bench.sheet.leads) == (False, 0)
    assert "No space left" in bench.raft.status()["failure"]
    with pytest.raises(NotLeader):
        bench.raft.propose(b"more")
    bench.disk.full = False
    bench.later(5.0)
    assert bench.tick() == []
    assert bench.tell("b", Vote(VOTE, 9, 99, 9, False)) == []


def test_a_snapshot_that_could_not_be_saved_is_not_acknowledged(bench: Bench) -> None:
    data = b"state"
    bench.tell("b", append(3, (0, 0)))
    bench.disk.full = True
    chunk = Chunk(CHUNK, 3, 7.5, 20, 2, len(data), crc32c(data), pack(MEMBERS), 0, data)
    assert bench.tell("b", chunk) == []
    assert "save failed" in bench.raft.status()["failure"]


def test_a_leader_without_the_snapshot_that_its_log_rests_on_steps_down(bench: Bench) -> None:
    data = b"state"
    bench.tell("b", Chunk(CHUNK, 3, 7.5, 20, 2, len(data), crc32c(data), pack(MEMBERS), 0, data))
    bench.lead()
    for name in bench.disk.list("s"):
        bench.disk.remove(f"s/{name}")
    term, now = bench.raft.term, bench.now
    bench.tell("c", AppendAnswer(APPEND_ANSWER, term, now, False, 20, 0, 0, 0))
    bench.tick()
    assert not bench.raft.is_leader
    assert "the snapshot is gone" in bench.raft.status()["failure"]


@pytest.mark.parametrize(
    "message",
    [
        None,
        (),
        (99, 1),
        (VOTE, 1),
        (VOTE, 1, 0, 0, "yes"),
        ([], 1),
        (APPEND, 1, 1.0, 0, 0, 0, ((NO_OP, 2, 1),)),
    ],
)
def test_a_malformed_message_is_refused_and_changes_nothing(bench: Bench, message: Any) -> None:
    before = bench.raft.status()
    with pytest.raises(BadMessage):
        bench.tell("b", message)
    assert bench.raft.status() == before


def test_whoever_owes_an_answer_to_a_leader_that_is_gone_waits_for_the_next_one(bench: Bench) -> None:
    """Else its loop would turn without a pause until somebody leads, with every core it finds."""
    bench.tell("b", append(1, (0, 0), entries(1, 1)))
    bench.later(0.3)
    assert bench.tell("c", Vote(VOTE, 2, 9, 9, False)) == [VoteAnswer(VOTE_ANSWER, 2, True)]
    assert bench.raft.next_tick_at > bench.now
