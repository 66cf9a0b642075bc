"""Fetch sessions: who has which slot, what is news, and whose turn it is (KIP-227)."""

from __future__ import annotations

import itertools
import uuid

import pytest
from kio.schema.errors import ErrorCode

from actors.topics.errors import LogError
from actors.topics.fetch_sessions import (
    EVICTION_MS,
    NO_SESSION,
    FetchSession,
    FetchSessions,
    Followed,
    Told,
    Topic,
    Wanted,
)

QUIET = Told(high_watermark=5, log_start_offset=0, size_bytes=0, failed=False)
WANTED = Wanted(5, 1_000)


def sessions(slots: int = 10, **bounds: int) -> FetchSessions:
    return FetchSessions(slots, itertools.count(1).__next__, **bounds)


def followed(count: int, topic: Topic = "t") -> list[tuple[Followed, Told]]:
    return [(Followed((topic, index), "t", WANTED), QUIET) for index in range(count)]


def begin(cache: FetchSessions, count: int = 1, now_ms: int = 0, *, by_id: bool = False) -> int:
    return cache.begin(followed(count), by_id=by_id, now_ms=now_ms)


def go_on(cache: FetchSessions, session_id: int, epoch: int, now_ms: int = 0) -> FetchSession:
    return cache.go_on(session_id, epoch, by_id=False, now_ms=now_ms)


def refused(cache: FetchSessions, session_id: int, epoch: int, *, by_id: bool = False) -> ErrorCode:
    with pytest.raises(LogError) as caught:
        cache.go_on(session_id, epoch, by_id=by_id, now_ms=0)
    return caught.value.error_code


def answer(session: FetchSession, told: Told) -> list[int]:
    """The partitions that are told of an answer in which each one has this."""
    pairs = [(each, told) for each in session.partitions.values()]
    return [pairs[index][0].place[1] for index in session.news(pairs)]


def test_each_request_of_a_session_has_the_next_epoch() -> None:
    cache = sessions()
    session_id = begin(cache)
    assert go_on(cache, session_id, 1).epoch == 2
    assert refused(cache, session_id, 1) == ErrorCode.invalid_fetch_session_epoch
    assert refused(cache, session_id, 3) == ErrorCode.invalid_fetch_session_epoch
    assert go_on(cache, session_id, 2).epoch == 3
    assert refused(cache, session_id + 1, 1) == ErrorCode.fetch_session_id_not_found
    cache.end(session_id)
    assert refused(cache, session_id, 3) == ErrorCode.fetch_session_id_not_found


def test_the_highest_epoch_is_followed_by_1() -> None:
    cache = sessions()
    session = go_on(cache, begin(cache), 1)
    session.epoch = 2**31 - 1
    assert go_on(cache, session.session_id, 2**31 - 1).epoch == 1


def test_a_session_with_names_knows_no_ids_and_the_other_way_round() -> None:
    cache = sessions()
    names, ids = begin(cache), begin(cache, by_id=True)
    assert refused(cache, names, 1, by_id=True) == ErrorCode.fetch_session_topic_id_error
    assert refused(cache, ids, 1) == ErrorCode.fetch_session_topic_id_error
    assert refused(cache, ids, 7) == ErrorCode.invalid_fetch_session_epoch, "the epoch is looked at first"
    assert go_on(cache, names, 1).epoch == 2


def test_a_client_is_told_only_what_it_does_not_know() -> None:
    cache = sessions()
    session = go_on(cache, begin(cache, 2), 1)
    assert answer(session, QUIET) == []
    assert answer(session, QUIET._replace(high_watermark=6)) == [0, 1]
    assert answer(session, QUIET._replace(high_watermark=6)) == []
    assert answer(session, QUIET._replace(high_watermark=6, log_start_offset=1)) == [0, 1]
    assert answer(session, QUIET._replace(high_watermark=6, log_start_offset=1, size_bytes=9)) == [0, 1]


def test_an_error_is_told_until_it_is_gone_and_then_that_it_is_gone() -> None:
    cache = sessions()
    session = go_on(cache, begin(cache), 1)
    wrong = Told(-1, -1, 0, failed=True)
    assert answer(session, wrong) == answer(session, wrong) == [0]
    assert answer(session, QUIET) == [0]
    assert answer(session, QUIET) == []


def test_a_partition_that_gave_records_goes_behind_the_others() -> None:
    cache = sessions()
    session = go_on(cache, begin(cache, 3), 1)
    first = next(iter(session.partitions.values()))
    session.news([(first, QUIET._replace(size_bytes=9))])
    assert [index for _, index in session.partitions] == [1, 2, 0]


def test_partitions_come_and_go_and_the_last_takes_the_session_along() -> None:
    cache = sessions()
    session = go_on(cache, begin(cache, 2), 1)
    again = Wanted(9, 500)
    cache.change(
        session, [Followed(("t", 1), "t", again), Followed(("t", 7), "t", WANTED)], [("t", 0), ("u", 3)]
    )
    assert {index: each.wanted for (_, index), each in session.partitions.items()} == {1: again, 7: WANTED}
    cache.change(session, [], [("t", 1), ("t", 7)])
    assert refused(cache, session.session_id, 2) == ErrorCode.fetch_session_id_not_found
    assert (len(cache), cache.size_bytes) == (0, 0)


def test_without_a_free_slot_there_is_no_session() -> None:
    cache = sessions(slots=2)
    assert begin(cache) != NO_SESSION
    assert begin(cache) != NO_SESSION
    assert begin(cache, 9) == NO_SESSION
    assert begin(sessions(slots=0)) == NO_SESSION


def test_a_session_that_was_idle_for_two_minutes_gives_up_its_slot() -> None:
    cache = sessions(slots=2)
    idle, busy = begin(cache), begin(cache)
    go_on(cache, busy, 1, EVICTION_MS)
    assert begin(cache, now_ms=EVICTION_MS) == NO_SESSION
    assert begin(cache, now_ms=EVICTION_MS + 1) != NO_SESSION
    assert refused(cache, idle, 1) == ErrorCode.fetch_session_id_not_found
    assert go_on(cache, busy, 2).session_id == busy


def test_the_smallest_of_the_older_sessions_gives_up_its_slot_to_a_larger_one() -> None:
    cache = sessions(slots=3)
    large, small, young = begin(cache, 3), begin(cache, 2), begin(cache, 1, EVICTION_MS)
    now_ms = EVICTION_MS + 1
    for session_id in (large, small, young):
        go_on(cache, session_id, 1, now_ms)
    assert begin(cache, 2, now_ms) == NO_SESSION
    assert begin(cache, 3, now_ms) != NO_SESSION
    assert refused(cache, small, 2) == ErrorCode.fetch_session_id_not_found
    assert {go_on(cache, each, 2, now_ms).session_id for each in (large, young)} == {large, young}


def test_all_sessions_together_take_a_bounded_amount_of_memory() -> None:
    cache = sessions(bytes_max=10_000)
    session = go_on(cache, begin(cache, 10), 1)
    assert begin(cache, 20) == NO_SESSION
    grown = [Followed(("t" * 100, index), "t", WANTED) for index in range(20)]
    with pytest.raises(LogError) as caught:
        cache.change(session, grown, ())
    assert caught.value.error_code == ErrorCode.fetch_session_id_not_found
    assert (len(cache), cache.size_bytes) == (0, 0)
    assert begin(cache, 20) != NO_SESSION


def test_no_two_sessions_have_the_same_id() -> None:
    ids = iter([4, 4, 4, 7])
    cache = FetchSessions(10, ids.__next__)
    assert (begin(cache), begin(cache)) == (4, 7)


def test_ids_and_names_of_topics_are_different_places() -> None:
    cache = sessions()
    session_id = cache.begin(followed(1, uuid.UUID(int=1)), by_id=True, now_ms=0)
    session = cache.go_on(session_id, 1, by_id=True, now_ms=0)
    cache.change(session, (), [("t", 0), (None, 0)])
    assert list(session.partitions) == [(uuid.UUID(int=1), 0)]
