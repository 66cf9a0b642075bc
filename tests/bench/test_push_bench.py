"""The parts of the consumer, the swarm and the bench of a coordinator that pushes that need no tier."""

from __future__ import annotations

from actors.protocol import api_keys
from actors.protocol.push_codec import read_push, written_push
from actors.protocol.push_messages import (
    Owned,
    PingRequest,
    Pushed,
    StartFetcherRequest,
    StartPosition,
    StopFetcherRequest,
    TopicCount,
)
from actors.topics.batch import placed, plain_batch
from bench.consumers.records import COMPRESSED, values
from bench.member.push import PushMember, PushTerms
from bench.push.judge import PushJudge
from bench.swarm.records.batches import batch
from tests.topics.batches import with_field

SESSION_MS = 10_000


def member(consumer_id: str, judge: PushJudge, number: int) -> PushMember:
    made = PushMember(
        PushTerms("g", (TopicCount("t", False, 1),), session_timeout_ms=SESSION_MS), consumer_id
    )
    made.register()
    judge.joined(number, made)
    made.registered(0)
    return made


def asked(judge: PushJudge, number: int, api_key: int, request: object, now_ms: int = 0) -> list[str]:
    """Ask a consumer something. Returns what the judge finds wrong."""
    frame = written_push(-1, Pushed(api_key, 1, 0, request))[4:]  # type: ignore[arg-type]
    answer = judge.members[number].take(frame, now_ms)[4:]
    return list(judge.answered(number, api_key, read_push(frame)[2], answer, now_ms))


def start(consumer_id: str, offset: int) -> StartFetcherRequest:
    owned = Owned(f"{consumer_id}-0", (StartPosition("t", 0, offset),))
    return StartFetcherRequest("g", consumer_id, 1, (owned,), ())


def test_values_are_read_from_where_the_consumer_is() -> None:
    first = placed(
        plain_batch([(b"k", b"one"), (b"k", None), (b"", b"three")], 1_700_000_000_000), 10, 0, None
    )
    second = placed(plain_batch([(b"k", b"four")], 1_700_000_000_001), 13, 0, None)
    assert list(values(first + second, 11)) == [(11, None), (12, b"three"), (13, b"four")]
    assert list(values(first + second[:-1], 12)) == [(12, b"three")]
    assert list(values(None, 0)) == []


def test_a_batch_without_keys_is_read() -> None:
    assert [offset for offset, _ in values(batch(3, 40, 1_700_000_000_000), 1)] == [1, 2]


def test_records_of_a_compressed_batch_are_counted() -> None:
    raw = with_field(plain_batch([(b"k", b"v"), (b"k", b"w")], 0), 21, ">h", 1)
    assert list(values(raw, 0)) == [(0, COMPRESSED), (1, COMPRESSED)]


def test_the_judge_sees_two_owners_and_none_where_one_is_silent() -> None:
    judge = PushJudge()
    member("a", judge, 0), member("b", judge, 1)
    assert asked(judge, 0, api_keys.START_FETCHER, start("a", -1)) == []
    [words] = asked(judge, 1, api_keys.START_FETCHER, start("b", -1))
    assert "is read by a and b" in words
    judge.members[1].heard_ms = SESSION_MS
    assert list(judge.owners(SESSION_MS)) == []


def test_the_judge_sees_a_start_from_before_what_was_committed() -> None:
    """The stop's offsets are committed when its consumer is started again."""
    judge = PushJudge()
    first = member("a", judge, 0)
    asked(judge, 0, api_keys.START_FETCHER, start("a", -1))
    first.consumed(("t", 0), 7)
    asked(judge, 0, api_keys.STOP_FETCHER, StopFetcherRequest("g", "a"))
    assert asked(judge, 0, api_keys.START_FETCHER, start("a", 7)) == []
    [words] = asked(judge, 0, api_keys.START_FETCHER, start("a", 6))
    assert "at 6, after 7" in words


def test_what_a_ping_told_is_committed_when_the_next_one_comes() -> None:
    judge = PushJudge()
    first = member("a", judge, 0)
    asked(judge, 0, api_keys.START_FETCHER, start("a", -1))
    first.consumed(("t", 0), 3)
    asked(judge, 0, api_keys.PING, PingRequest("g", "a", 0))
    assert judge.floors == {}
    asked(judge, 0, api_keys.PING, PingRequest("g", "a", 1))
    assert judge.floors == {}
    asked(judge, 0, api_keys.PING, PingRequest("g", "a", 0))
    assert judge.floors == {("g", "t", 0): 3}


def test_a_closing_consumer_is_done_after_its_second_answer() -> None:
    judge = PushJudge()
    first = member("a", judge, 0)
    asked(judge, 0, api_keys.START_FETCHER, start("a", 5))
    first.close()
    assert not first.is_fetching
    asked(judge, 0, api_keys.PING, PingRequest("g", "a", 0))
    assert not first.is_done
    asked(judge, 0, api_keys.PING, PingRequest("g", "a", 0))
    assert first.is_done
