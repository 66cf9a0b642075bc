"""A leader that nobody asks for anything rests: it is heard rarely, and nobody takes it for dead."""

from __future__ import annotations

from dataclasses import replace

import pytest

from storage.raft.errors import BadMessage
from storage.raft.messages import (
    APPEND_ANSWER,
    PRE_VOTE,
    PRE_VOTE_ANSWER,
    REST,
    REST_S_MAX,
    Append,
    AppendAnswer,
    PreVote,
    PreVoteAnswer,
    Rest,
    decode,
)
from tests.raft import one_replica
from tests.raft.one_replica import CONFIG, Bench, append, entries

AFTER_S = 5.0
REST_S = CONFIG.election_max_s
BEAT_S = CONFIG.heartbeat_s


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A replica that may rest after five seconds."""
    monkeypatch.setattr(one_replica, "CONFIG", replace(CONFIG, rest_after_s=AFTER_S))
    bench = Bench()
    bench.raft.learn_to_rest()
    return bench


def answer(bench: Bench, *peers: str) -> None:
    """Let the peers answer what they were sent last."""
    for peer, message in list(bench.wire.sent):
        if peer in (peers or ("b", "c")) and isinstance(message, (Append, Rest)):
            last = message.previous_index + len(getattr(message, "entries", ()))
            bench.tell(
                peer,
                AppendAnswer(
                    APPEND_ANSWER, message.term, message.sent_at, True, message.previous_index, last, last, 0
                ),
            )


def pass_time(bench: Bench, seconds: float) -> list[tuple[float, type]]:
    """Let time pass with peers that answer at once. Return when "b" was sent what."""
    sent: list[tuple[float, type]] = []
    until = bench.now + seconds
    while bench.now < until:
        bench.later(BEAT_S)
        messages = [message for peer, message in bench.tick() if peer == "b"]
        sent += [(bench.now, type(message)) for message in messages]
        if messages:
            answer(bench)
    return sent


def at_rest(bench: Bench) -> Bench:
    bench.lead()
    answer(bench)
    pass_time(bench, AFTER_S + 2 * REST_S)
    assert bench.raft.is_resting
    return bench


def test_a_leader_that_is_not_asked_is_heard_rarely(bench: Bench) -> None:
    at_rest(bench)
    sent = pass_time(bench, 10 * REST_S)
    assert {kind for _, kind in sent} == {Rest}
    assert 9 <= len(sent) <= 11
    assert bench.raft.is_leader


def test_whoever_asks_wakes_it_and_has_the_lease_with_the_answers(bench: Bench) -> None:
    at_rest(bench)
    pass_time(bench, REST_S)
    bench.later(0.95 * CONFIG.election_min_s)
    assert bench.raft.is_settled
    assert not bench.raft.has_lease()
    assert not bench.raft.is_settled
    assert bench.raft.next_tick_at <= bench.now
    sent = bench.tick()
    assert {(peer, type(message)) for peer, message in sent} == {("b", Append), ("c", Append)}
    answer(bench)
    assert bench.raft.has_lease()
    assert not bench.raft.is_resting
    assert len(pass_time(bench, 1.0)) == pytest.approx(1.0 / BEAT_S, abs=1)


def test_a_proposal_wakes_it(bench: Bench) -> None:
    at_rest(bench)
    bench.raft.propose(b"command")
    sent = [message for _, message in bench.tick()]
    assert sum(len(message.entries) for message in sent if type(message) is Append) >= 1
    assert not bench.raft.is_resting


def test_a_lease_does_not_last_through_a_rest(bench: Bench) -> None:
    """Followers that start anew have forgotten how long their leader wanted to be silent."""
    at_rest(bench)
    while bench.raft.next_tick_at > bench.now + BEAT_S:
        bench.later(BEAT_S)
    assert not bench.raft.has_lease()


def test_it_does_not_rest_before_all_know_what_that_is(bench: Bench) -> None:
    bench.start()
    bench.lead()
    answer(bench)
    assert {kind for _, kind in pass_time(bench, AFTER_S + 1.0)} == {Append}


def test_it_does_not_rest_while_a_peer_lacks_something(bench: Bench) -> None:
    bench.lead()
    pass_time(bench, 1.0)
    bench.raft.propose(b"command")
    until = bench.now + AFTER_S + 1.0
    while bench.now < until:
        bench.tick()
        answer(bench, "b")
        bench.later(BEAT_S)
    assert bench.raft.is_leader
    assert not bench.raft.is_resting


def test_a_leader_at_rest_that_nobody_answers_falls(bench: Bench) -> None:
    at_rest(bench)
    asleep_at = bench.now
    while bench.raft.is_leader:
        bench.later(BEAT_S)
        bench.tick()
        assert bench.now < asleep_at + 4 * REST_S
    assert bench.now - asleep_at > REST_S


def test_the_silence_of_a_rest_is_held_against_nobody_when_it_ends(bench: Bench) -> None:
    at_rest(bench)
    bench.later(0.9 * REST_S)
    bench.raft.has_lease()
    bench.tick()
    bench.later(BEAT_S)
    bench.tick()
    assert bench.raft.is_leader


def rest(bench: Bench, rest_s: float = REST_S, term: int = 1) -> Rest:
    return Rest(REST, term, 7.5, 0, 0, 0, rest_s)


def test_a_follower_waits_for_a_leader_that_rests(bench: Bench) -> None:
    assert bench.tell("b", rest(bench)) == [AppendAnswer(APPEND_ANSWER, 1, 7.5, True, 0, 0, 0, 0)]
    bench.later(REST_S + 0.9 * CONFIG.election_min_s)
    assert bench.raft.next_tick_at > bench.now
    assert bench.tell("c", PreVote(PRE_VOTE, 1, 9, 9)) == [PreVoteAnswer(PRE_VOTE_ANSWER, 1, 2, False)]
    bench.later(CONFIG.election_max_s)
    assert [type(message) for _, message in bench.tick()] == [PreVote, PreVote]


def test_what_a_leader_says_next_ends_its_rest(bench: Bench) -> None:
    bench.tell("b", rest(bench))
    bench.tell("b", append(1, (0, 0), entries(1)))
    bench.tick()
    assert bench.raft.next_tick_at <= bench.now + CONFIG.election_max_s


def test_a_leader_that_ended_is_not_waited_for(bench: Bench) -> None:
    bench.tell("b", rest(bench))
    bench.tick()
    bench.raft.peer_lost("b")
    bench.later(0.02)
    assert [type(message) for _, message in bench.tick()] == [PreVote, PreVote]


def test_a_rest_of_an_older_term_makes_nobody_wait(bench: Bench) -> None:
    bench.tell("b", append(3, (0, 0)))
    until = bench.raft.next_tick_at
    (answered,) = bench.tell("c", rest(bench, term=2))
    assert not answered.success
    assert bench.raft.next_tick_at == until


@pytest.mark.parametrize("rest_s", [-1.0, REST_S_MAX + 1, float("nan"), float("inf"), 1])
def test_a_rest_has_a_bound(rest_s: float) -> None:
    with pytest.raises(BadMessage):
        decode((REST, 1, 7.5, 0, 0, 0, rest_s))
