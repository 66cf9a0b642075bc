"""What a leader's answers to one round of fetches mean."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.upstream.offsets_round import Anew, Fetched, LookForEnds, Take, Wait, outcome_of, outside

FINE, MORE = Fetched(records=b"ab", high_watermark=7), Fetched(records=b"abcd", high_watermark=6)
UNKNOWN = Fetched(ErrorCode.unknown_leader_epoch)


def test_the_most_that_came_is_taken() -> None:
    assert outcome_of({1: FINE, 2: MORE}) == (Take(b"abcd", 7), None)


def test_a_replica_that_is_refused_keeps_nobody_from_going_on() -> None:
    outcome, problem = outcome_of({1: UNKNOWN, 2: FINE, 3: Fetched(lost="it hung up")})
    assert outcome == Take(b"ab", 7)
    assert problem is not None
    assert problem.startswith("broker 1: the leader does not know yet that it is a replica")
    assert problem.endswith("(UNKNOWN_LEADER_EPOCH); broker 3: it hung up")


def test_another_history_counts_more_than_what_came() -> None:
    assert outcome_of({1: FINE, 2: Fetched(diverges_at=5)})[0] == Anew(5)


def test_an_offset_outside_of_the_log_is_looked_into_if_nobody_got_anything() -> None:
    beyond = Fetched(ErrorCode.offset_out_of_range)
    assert outcome_of({1: beyond, 2: UNKNOWN}) == (
        LookForEnds(),
        "broker 1: OFFSET_OUT_OF_RANGE; broker 2: the leader does not know yet that it is a replica, or in "
        "which epoch (UNKNOWN_LEADER_EPOCH)",
    )
    assert outcome_of({1: beyond, 2: FINE})[0] == Take(b"ab", 7)


def test_who_gets_nothing_asks_again() -> None:
    assert outcome_of({1: UNKNOWN, 2: Fetched(lost="it hung up")})[0] == Wait()


def test_an_empty_copy_begins_where_the_log_does() -> None:
    assert outside(0, 40) == 40


def test_what_lost_its_place_in_the_log_begins_anew() -> None:
    for next_offset, start in ((30, 40), (50, 40), (0, 0)):
        assert outside(next_offset, start) == Anew()
