"""One replica and its membership: who counts, who may vote, and what a change waits for."""

from __future__ import annotations

from crc32c import crc32c

from storage.raft.members import Member, pack
from storage.raft.messages import (
    APPEND_ANSWER,
    CHUNK,
    PRE_VOTE,
    PRE_VOTE_ANSWER,
    TIMEOUT_NOW,
    VOTE,
    VOTE_ANSWER,
    Append,
    AppendAnswer,
    Chunk,
    ChunkAnswer,
    PreVote,
    PreVoteAnswer,
    TimeoutNow,
    Vote,
    VoteAnswer,
)
from storage.raft.skeleton import MEMBERS as MEMBERS_KIND
from tests.raft.one_replica import MEMBERS, Bench, append, entries

D_LEARNS = (*MEMBERS, Member("d", 4, False))
D_VOTES = (*MEMBERS, Member("d", 4, True))
A_B = MEMBERS[:2]


def voters(bench: Bench) -> str:
    return "".join(each.member_id for each in bench.raft.members if each.votes)


def members_entry(index: int, term: int, members: tuple[Member, ...]) -> tuple[bytes, int, int]:
    return MEMBERS_KIND + pack(members), index, term


def sent_memberships(bench: Bench) -> list[bytes]:
    found = []
    for _, message in bench.tick():
        if isinstance(message, Append):
            found += [command[1:] for command, _, _ in message.entries if command[:1] == MEMBERS_KIND]
    return list(dict.fromkeys(found))


def catch_up(bench: Bench, peer: str) -> None:
    """Let the peer answer the probe of the log's end: it holds all entries."""
    last, term = bench.raft.last_index, bench.raft.term
    bench.tell(peer, AppendAnswer(APPEND_ANSWER, term, bench.now, True, last, last, last, 0))
    bench.tick()


def test_a_newcomer_never_votes_and_never_campaigns() -> None:
    """A replica that lost its directory comes back as a newcomer: it does not know what it had
    acknowledged."""
    bench = Bench(())
    bench.later(5.0)
    assert bench.tick() == []
    assert bench.tell("b", PreVote(PRE_VOTE, 9, 9, 9)) == [PreVoteAnswer(PRE_VOTE_ANSWER, 0, 10, False)]
    assert bench.tell("b", Vote(VOTE, 9, 9, 9, True)) == [VoteAnswer(VOTE_ANSWER, 0, False)]


def test_a_newcomer_takes_the_log_from_whoever_leads() -> None:
    bench = Bench(())
    added = members_entry(2, 3, (*MEMBERS[1:], Member("a", 1, False)))
    bench.tell("b", append(3, (0, 0), (*entries(3), added)))
    bench.tick()
    assert [each.member_id for each in bench.raft.members] == ["b", "c", "a"]
    assert voters(bench) == "bc"


def test_a_learner_does_not_campaign_and_does_not_stand_when_told() -> None:
    bench = Bench(())
    bench.tell("b", append(3, (0, 0), (members_entry(1, 3, (*MEMBERS[1:], Member("a", 1, False))),)))
    bench.tick()
    bench.later(5.0)
    assert bench.tick() == []
    assert bench.tell("b", TimeoutNow(TIMEOUT_NOW, 3)) == []


def test_a_learner_votes_for_whom_its_log_favours() -> None:
    """The voter's membership may be older than the candidate's, in which it has a vote that is needed."""
    bench = Bench(())
    bench.tell("b", append(3, (0, 0), (members_entry(1, 3, (*MEMBERS[1:], Member("a", 1, False))),)))
    bench.tick()
    bench.later(1.0)
    assert bench.tell("c", Vote(VOTE, 4, 1, 3, False)) == [VoteAnswer(VOTE_ANSWER, 4, True)]


def test_a_learners_copy_does_not_commit_anything() -> None:
    bench = Bench()
    bench.tell("b", append(1, (0, 0), (members_entry(1, 1, D_LEARNS),)))
    bench.lead()
    before = bench.raft.commit_index
    bench.raft.propose(b"x")
    bench.tick()
    bench.confirm("d")
    assert bench.raft.commit_index == before
    bench.confirm("c")
    assert bench.raft.commit_index == before + 1


def test_a_learners_answers_give_no_lease() -> None:
    bench = Bench()
    bench.tell("b", append(1, (0, 0), (members_entry(1, 1, D_LEARNS),)))
    bench.lead()
    bench.later(0.4)
    bench.tick()
    bench.confirm("d")
    assert not bench.raft.has_lease()
    bench.confirm("c")
    assert bench.raft.has_lease()


def test_a_learners_vote_is_not_counted() -> None:
    bench = Bench()
    bench.tell("b", append(1, (0, 0), (members_entry(1, 1, D_LEARNS),)))
    bench.later(1.0)
    asked = [target for target, message in bench.tick() if isinstance(message, PreVote)]
    assert asked == ["b", "c"]
    bench.tell("d", PreVoteAnswer(PRE_VOTE_ANSWER, 1, 2, True))
    assert bench.raft.term == 1


def test_a_membership_counts_before_it_is_committed() -> None:
    """Two of four voters are no majority any more."""
    bench = Bench()
    bench.tell("b", append(1, (0, 0), (members_entry(1, 1, D_VOTES),)))
    bench.later(1.0)
    bench.tick()
    bench.tell("b", PreVoteAnswer(PRE_VOTE_ANSWER, 1, 2, True))
    assert bench.raft.term == 1
    bench.tell("d", PreVoteAnswer(PRE_VOTE_ANSWER, 1, 2, True))
    assert bench.raft.term == 2


def test_a_membership_that_is_cut_off_counts_no_more() -> None:
    bench = Bench()
    bench.tell("b", append(1, (0, 0), (*entries(1), members_entry(2, 1, A_B))))
    assert voters(bench) == "ab"
    bench.tell("c", append(2, (1, 1), entries(2, first=2)))
    assert voters(bench) == "abc"
    assert bench.wire.members == MEMBERS, "the links follow"


def test_a_membership_survives_a_restart() -> None:
    bench = Bench()
    bench.tell("b", append(1, (0, 0), (members_entry(1, 1, A_B),)))
    bench.tick()
    bench.power_loss()
    assert voters(bench) == "ab"


def test_a_membership_comes_with_a_snapshot() -> None:
    bench = Bench(())
    data = b"state"
    chunk = Chunk(CHUNK, 3, 7.5, 20, 2, len(data), crc32c(data), pack(A_B), 0, data)
    [answer] = [each for each in bench.tell("b", chunk) if isinstance(each, ChunkAnswer)]
    assert answer.covered
    bench.power_loss()
    assert voters(bench) == "ab"


def test_a_newcomer_learns_then_votes_one_committed_change_after_the_other() -> None:
    bench = Bench()
    bench.lead()
    bench.raft.set_target({"a": 1, "b": 1, "c": 1, "d": 4})
    assert sent_memberships(bench) == [pack(D_LEARNS)]
    catch_up(bench, "d")
    assert sent_memberships(bench) == [], "the learner is not committed yet"
    bench.confirm("b")
    catch_up(bench, "d")
    assert voters(bench) == "abcd"


def test_nothing_changes_before_the_leaders_term_has_committed_something() -> None:
    """Ongaro, 2015: two leaders in turn could otherwise each commit with a majority of their own."""
    bench = Bench()
    bench.later(1.0)
    bench.tick()
    bench.tell("b", PreVoteAnswer(PRE_VOTE_ANSWER, 0, 1, True))
    bench.tell("b", VoteAnswer(VOTE_ANSWER, 1, True))
    assert bench.raft.is_leader
    bench.raft.set_target({"a": 1, "b": 1})
    assert sent_memberships(bench) == []


def test_a_leader_that_is_to_leave_hands_over() -> None:
    bench = Bench()
    bench.lead()
    bench.confirm("c")
    bench.raft.set_target({"b": 1, "c": 1})
    assert [target for target, message in bench.tick() if isinstance(message, TimeoutNow)] == ["b"]


def test_one_voter_alone_has_a_lease_and_commits_while_another_learns() -> None:
    bench = Bench(MEMBERS[:1])
    bench.tick()
    bench.raft.set_target({"a": 1, "d": 4})
    bench.tick()
    assert bench.raft.has_lease()
    bench.raft.propose(b"x")
    bench.tick()
    assert bench.raft.commit_index == bench.raft.last_index


def test_a_sender_that_is_no_member_can_lead() -> None:
    """A replica that lags behind may not know its leader yet."""
    bench = Bench()
    [answer] = bench.tell("d", append(4, (0, 0)))
    assert isinstance(answer, AppendAnswer)
    assert (answer.kind, answer.success) == (APPEND_ANSWER, True)
    assert bench.raft.leader_id == "d"
