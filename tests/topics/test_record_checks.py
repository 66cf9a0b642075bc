"""Which records a topic takes: with keys, and with times near the broker's (W39)."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.ground.limits import RECORD_ERRORS_MAX
from actors.topics.batch import one_batch
from actors.topics.errors import LogError
from actors.topics.partition_log import LogSettings, PartitionLog
from actors.topics.record_checks import RecordRules
from tests.topics.batches import GZIP, batch, with_field

NOW_MS = 10_000_000
HOUR_MS = 3_600_000
COMPACTED = RecordRules(needs_keys=True)
APPENDED = RecordRules(log_append_time=True)
YOUNG = RecordRules(older_ms_max=1_000)
NO_KEY = "A record of a compacted topic needs a key."


def new_log(rules: RecordRules) -> PartitionLog:
    settings = LogSettings(message_bytes_max=10**7, retention_bytes=10**7, retention_ms=None, records=rules)
    return PartitionLog(settings, 0, lambda end: None)


def refused(rules: RecordRules, records: bytes) -> tuple[ErrorCode, list[int]]:
    """The error of a batch that a log refuses, and the records that it names."""
    log = new_log(rules)
    with pytest.raises(LogError) as caught:
        log.append(one_batch(records), NOW_MS)
    assert (log.end_offset, log.size_bytes) == (0, 0)
    return caught.value.error_code, [each.batch_index for each in caught.value.record_errors]


def taken(rules: RecordRules, records: bytes) -> bool:
    return new_log(rules).append(one_batch(records), NOW_MS).base_offset == 0


def timed(*timestamps: int, compression: int = 0) -> bytes:
    return batch(*[b"v" * 50] * len(timestamps), timestamps=timestamps, compression=compression)


def test_w39_a_compacted_topic_names_each_record_without_a_key() -> None:
    records = batch(b"a", b"b", b"c", b"d", keys=[None, b"k", None, b""])
    assert refused(COMPACTED, records) == (ErrorCode.invalid_record, [0, 2])
    assert taken(RecordRules(), records), "where nothing is compacted nobody needs a key"
    assert taken(COMPACTED, batch(b"a", b"b", keys=[b"", b"k" * 300]))


def test_w39_a_batch_that_counts_other_records_than_it_has_is_refused_where_they_are_looked_at() -> None:
    """Kafka names no record then, though one has no key."""
    good = batch(b"a", b"b", keys=[b"k", None])
    for count in (1, 3):
        wrong = with_field(with_field(good, 57, ">i", count), 23, ">i", count - 1)
        assert refused(COMPACTED, wrong) == (ErrorCode.invalid_record, [])
    for tail in (b"\xff" * 9, b"\x01" * 9, b"\x00" * 9):
        keyed = batch(b"a" * 40, keys=[b"k"])
        assert refused(COMPACTED, with_field(keyed[:61] + tail + keyed[70:], 57, ">i", 1))[1] == []


@pytest.mark.parametrize("compression", [0, GZIP])
def test_w39_times_may_be_an_hour_ahead_and_no_more(compression: int) -> None:
    latest = NOW_MS + HOUR_MS
    assert taken(RecordRules(), timed(*[latest] * 5, compression=compression))
    late = timed(*[latest + 1] * 5, compression=compression)
    code, named = refused(RecordRules(), late)
    assert (code, named) == (ErrorCode.invalid_timestamp, [0] if compression else [0, 1, 2, 3, 4])
    assert taken(RecordRules(newer_ms_max=HOUR_MS + 1), late)


def test_w39_one_record_from_the_future_refuses_its_batch_and_is_named_if_the_batch_is_plain() -> None:
    times = (NOW_MS, NOW_MS + 2 * HOUR_MS, NOW_MS)
    assert refused(RecordRules(), timed(*times)) == (ErrorCode.invalid_timestamp, [1])
    assert refused(RecordRules(), timed(*times, compression=GZIP)) == (ErrorCode.invalid_timestamp, [])


def test_w39_a_highest_time_that_no_record_has_refuses_nothing() -> None:
    """The header of a plain batch only raises the suspicion."""
    assert taken(RecordRules(), with_field(timed(NOW_MS), 35, ">q", NOW_MS + 2 * HOUR_MS))


def test_w39_records_may_be_of_any_age_unless_the_topic_says_otherwise() -> None:
    assert taken(RecordRules(), timed(0, -5))
    assert taken(YOUNG, timed(NOW_MS - 1_000, NOW_MS))
    assert refused(YOUNG, timed(NOW_MS, NOW_MS - 1_001, NOW_MS)) == (ErrorCode.invalid_timestamp, [1])
    assert refused(YOUNG, timed(*[5] * 5, compression=GZIP)) == (ErrorCode.invalid_timestamp, [0])
    assert taken(YOUNG, timed(-1, -1)), "-1 is no time at all"


def test_w39_only_the_broker_sets_the_time_of_an_append() -> None:
    claims = with_field(timed(NOW_MS, NOW_MS), 21, ">h", 0x08)
    assert refused(APPENDED, claims) == (ErrorCode.invalid_timestamp, [0, 1])
    assert taken(RecordRules(), claims), "where records have their producers' times it is one more of them"
    assert taken(APPENDED, timed(0, 2**50)), "other times of producers are replaced"


def test_w39_a_wrong_time_goes_before_a_missing_key() -> None:
    records = batch(b"a", b"b", keys=[None, b"k"], timestamps=[NOW_MS, NOW_MS + 2 * HOUR_MS])
    assert refused(COMPACTED, records) == (ErrorCode.invalid_timestamp, [0, 1])
    claims = with_field(batch(b"a", b"b", keys=[b"k", None]), 21, ">h", 0x08)
    both = RecordRules(log_append_time=True, needs_keys=True)
    assert refused(both, claims) == (ErrorCode.invalid_timestamp, [0, 1])


def test_w39_no_more_records_are_named_than_an_answer_has_room_for() -> None:
    """A compressed batch may claim two thousand million records."""
    many = with_field(timed(*[NOW_MS] * 5, compression=GZIP), 57, ">i", 2**31 - 1)
    claims = with_field(with_field(many, 23, ">i", 2**31 - 2), 21, ">h", 0x08 | GZIP)
    assert len(refused(APPENDED, claims)[1]) == RECORD_ERRORS_MAX
    keyless = batch(*[b"v"] * (RECORD_ERRORS_MAX + 5))
    assert refused(COMPACTED, keyless) == (ErrorCode.invalid_record, list(range(RECORD_ERRORS_MAX)))


def test_w39_why_a_record_is_refused_is_told_in_words() -> None:
    log = new_log(COMPACTED)
    with pytest.raises(LogError) as caught:
        log.append(batch(b"a"), NOW_MS)
    assert caught.value.record_errors[0].message == NO_KEY
    assert caught.value.message == f"The batch has records that this topic does not take: {NO_KEY}"
