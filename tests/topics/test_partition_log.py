"""A partition's log, fed and read with the batches of real clients."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.topics import partition_log
from actors.topics.batch import one_batch
from actors.topics.errors import LogError, UnknownCodec
from actors.topics.partition_log import FoundOffset, LogSettings, PartitionLog
from actors.topics.record_checks import RecordRules
from tests.topics.batches import GZIP, MemoryRecordsBuilder, batch, contents, with_field

SETTINGS = LogSettings(message_bytes_max=1_000_000, retention_bytes=1_000_000, retention_ms=60_000)


def new_log(settings: LogSettings = SETTINGS, start_offset: int = 0) -> PartitionLog:
    return PartitionLog(settings, start_offset, lambda end: None)


def refused(log: PartitionLog, records: bytes | None) -> ErrorCode:
    before = (log.log_start_offset, log.end_offset, log.size_bytes)
    with pytest.raises(LogError) as caught:
        log.append(one_batch(records), 0)
    assert (log.log_start_offset, log.end_offset, log.size_bytes) == before
    return caught.value.error_code


def lengthened(records: bytes, by: int) -> bytes:
    """The batch with another length in its header."""
    return records[:8] + (len(records) - 12 + by).to_bytes(4, "big", signed=True) + records[12:]


def test_what_is_produced_is_read_back_with_offsets_and_a_valid_crc() -> None:
    log = new_log()
    assert log.append(batch(b"a", b"b"), 0).base_offset == 0
    assert log.append(batch(b"c" * 99, compression=GZIP), 0).base_offset == 2
    assert contents(log.read(0, 10_000)) == [(0, 1_000, b"a"), (1, 1_001, b"b"), (2, 1_000, b"c" * 99)]


def test_a_read_in_the_middle_of_a_batch_gives_the_whole_batch() -> None:
    log = new_log()
    log.append(batch(b"a", b"b", b"c"), 0)
    log.append(batch(b"d"), 0)
    assert contents(log.read(2, 10_000))[0][0] == 0
    assert contents(log.read(3, 10_000)) == [(3, 1_000, b"d")]
    assert log.read(4, 10_000) == b""


def test_reads_stop_at_the_limit_but_give_at_least_one_batch() -> None:
    log = new_log()
    sizes = [log.append(batch(b"x" * 100), 0).size_bytes for _ in range(3)]
    assert len(log.read(0, sizes[0] + sizes[1])) == sizes[0] + sizes[1]
    assert len(log.read(0, sizes[0] + sizes[1] - 1)) == sizes[0]
    assert len(log.read(0, 1)) == sizes[0]
    assert log.read(0, sizes[0] - 1, at_least_one=False) == b""


@pytest.mark.parametrize("offset", [-1, 4, 11, 2**62])
def test_an_offset_outside_the_log_is_out_of_range(offset: int) -> None:
    log = new_log(start_offset=5)
    for _ in range(5):
        log.append(batch(b"x"), 0)
    with pytest.raises(LogError) as caught:
        log.read(offset, 100)
    assert caught.value.error_code == ErrorCode.offset_out_of_range


def test_damaged_or_foreign_batches_are_refused_and_leave_no_trace() -> None:
    log = new_log()
    good = batch(b"a", b"b")
    corrupt = bytearray(good)
    corrupt[-1] ^= 1
    old = MemoryRecordsBuilder(magic=1, compression_type=0, batch_size=1_000)
    old.append(timestamp=1, key=None, value=b"v")
    old.close()
    cases = {
        "null": (None, ErrorCode.invalid_record),
        "empty": (b"", ErrorCode.invalid_record),
        "two batches": (good + good, ErrorCode.invalid_record),
        "cut short": (good[:-1], ErrorCode.invalid_record),
        "half a header": (good[:30], ErrorCode.invalid_record),
        "a few bytes": (good[:10], ErrorCode.invalid_record),
        "other bytes": (b"x" * 11, ErrorCode.invalid_record),
        "longer than it is": (lengthened(good, 1), ErrorCode.invalid_record),
        "shorter than it is": (lengthened(good, -1), ErrorCode.corrupt_message),
        "length of a header that is too short": (
            lengthened(good, 48 - len(good) + 12),
            ErrorCode.corrupt_message,
        ),
        "magic 3": (good[:16] + b"\3" + good[17:], ErrorCode.corrupt_message),
        "a second batch that is none": (good + bytes(20), ErrorCode.corrupt_message),
        "base offset": (b"\0\0\0\0\0\0\0\7" + good[8:], ErrorCode.invalid_record),
        "bad crc": (bytes(corrupt), ErrorCode.corrupt_message),
        "magic 1": (bytes(old.buffer()), ErrorCode.invalid_record),
        "count": (with_field(good, 57, ">i", 3), ErrorCode.invalid_record),
        "more records than bytes": (
            with_field(with_field(good, 57, ">i", 2**30), 23, ">i", 2**30 - 1),
            ErrorCode.invalid_record,
        ),
        "no records": (with_field(good, 57, ">i", 0), ErrorCode.invalid_record),
        "last offset delta": (with_field(good, 23, ">i", 7), ErrorCode.invalid_record),
        "negative length": (with_field(good, 8, ">i", -1), ErrorCode.corrupt_message),
        "control": (with_field(good, 21, ">h", 0x20), ErrorCode.invalid_record),
        "codec": (with_field(good, 21, ">h", 7), ErrorCode.unknown_server_error),
        "sequence": (with_field(good, 43, ">q", 7), ErrorCode.invalid_record),
    }
    for name, (records, code) in cases.items():
        assert refused(log, records) == code, name


def test_a_batch_above_the_topics_limit_is_too_large() -> None:
    log = new_log(SETTINGS._replace(message_bytes_max=200))
    assert refused(log, batch(b"x" * 200)) == ErrorCode.message_too_large
    log.append(batch(b"x" * 100), 0)


def test_an_unknown_codec_of_an_old_producer_is_told_apart_and_one_of_a_newer_left_to_the_log() -> None:
    """W32."""
    strange = with_field(batch(b"a"), 21, ">h", 5)
    with pytest.raises(UnknownCodec):
        one_batch(strange, zstd_allowed=False)
    assert one_batch(strange) == strange
    assert refused(new_log(), strange) == ErrorCode.unknown_server_error


def test_zstd_from_a_producer_too_old_for_it_is_refused() -> None:
    zstd = with_field(batch(b"a"), 21, ">h", 4)
    with pytest.raises(LogError) as caught:
        one_batch(zstd, zstd_allowed=False)
    assert caught.value.error_code == ErrorCode.unsupported_compression_type
    assert new_log().append(one_batch(zstd), 0).base_offset == 0


def test_bytes_behind_a_batch_that_are_no_whole_batch_are_left_out() -> None:
    """Kafka reads batches until one does not end within the bytes."""
    good = batch(b"a", b"b")
    for behind in (b"x", good[:-1], bytes(11)):
        assert one_batch(good + behind) == good


def test_a_producer_without_an_epoch_may_append() -> None:
    """Kafka takes epoch -1 of an idempotent producer, and refuses sequence -1."""
    odd = with_field(batch(b"a", producer_id=7, epoch=0, sequence=3), 51, ">h", -1)
    assert new_log().append(odd, 0).base_offset == 0


@pytest.mark.parametrize(
    ("epoch", "end"), [(-1, (-1, -1)), (0, (0, 4)), (1, (-1, -1)), (9, (-1, -1)), (-2, (-2, 2))]
)
def test_the_log_has_one_epoch_which_ends_where_the_log_ends(epoch: int, end: tuple[int, int]) -> None:
    """What is older than the log's only epoch is gone: its end is where the log starts."""
    log = new_log()
    log.append(batch(b"a", b"b", b"c", b"d"), 0)
    log.delete_records(2)
    assert log.end_of_epoch(epoch) == end


def test_with_log_append_time_every_record_gets_the_time_of_its_append() -> None:
    log = new_log(SETTINGS._replace(records=RecordRules(log_append_time=True)))
    assert log.append(batch(b"a", b"b"), 7_777).log_append_time_ms == 7_777
    assert contents(log.read(0, 1_000)) == [(0, 7_777, b"a"), (1, 7_777, b"b")]
    assert log.offset_for_time(7_000) == FoundOffset(0, 7_777)


def test_records_expire_by_the_time_since_their_append_not_by_their_timestamp() -> None:
    log = new_log()
    log.append(batch(b"old"), 1_000_000)
    log.append(batch(b"new"), 1_050_000)
    log.expire(1_060_000)
    assert log.log_start_offset == 0
    log.expire(1_060_001)
    assert (log.log_start_offset, log.end_offset) == (1, 2)
    log.expire(9_999_999)
    assert (log.log_start_offset, log.end_offset, log.size_bytes) == (2, 2, 0)
    assert log.read(2, 100) == b""


def test_retention_by_bytes_drops_the_oldest_and_never_the_newest() -> None:
    size = len(batch(b"x" * 100))
    log = new_log(SETTINGS._replace(retention_bytes=3 * size, retention_ms=None))
    for _ in range(10):
        log.append(batch(b"x" * 100), 0)
    assert (log.log_start_offset, log.end_offset, log.size_bytes) == (7, 10, 3 * size)
    log.append(batch(b"y" * 10_000), 0)
    assert (log.log_start_offset, log.end_offset) == (10, 11)


def test_a_long_lived_log_holds_no_more_than_it_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_log, "BATCHES_MAX", 50)
    log = new_log()
    small = batch(b"x")
    for number in range(5_000):
        assert log.append(small, 0).base_offset == number
    assert log.log_start_offset == 4_950
    assert [offset for offset, _, _ in contents(log.read(4_950, 10**6))] == list(range(4_950, 5_000))
    assert log.size_bytes == 50 * len(small)


def test_delete_records_moves_the_start_also_into_the_middle_of_a_batch() -> None:
    log = new_log()
    log.append(batch(b"a", b"b", b"c"), 0)
    log.append(batch(b"d"), 0)
    assert log.delete_records(2) == 2
    assert contents(log.read(2, 1_000))[0][0] == 0
    assert log.delete_records(1) == 2
    for beyond in (5, -2):
        with pytest.raises(LogError) as caught:
            log.delete_records(beyond)
        assert caught.value.error_code == ErrorCode.offset_out_of_range
    assert log.delete_records(-1) == 4
    assert log.size_bytes == 0
    assert log.append(batch(b"e"), 0).base_offset == 4


def test_offsets_by_time_are_exact_in_plain_batches() -> None:
    log = new_log()
    log.append(batch(b"a", b"b", b"c", timestamps=[100, 300, 200]), 0)
    log.append(batch(b"d", timestamps=[400]), 0)
    assert log.offset_for_time(0) == FoundOffset(0, 100)
    assert log.offset_for_time(150) == FoundOffset(1, 300)
    assert log.offset_for_time(400) == FoundOffset(3, 400)
    assert log.offset_for_time(401) is None
    log.delete_records(2)
    assert log.offset_for_time(250) == FoundOffset(3, 400)
    assert log.offset_of_max_timestamp() == FoundOffset(3, 400)


def test_offsets_by_time_in_compressed_batches_are_never_too_late() -> None:
    log = new_log()
    log.append(batch(b"a" * 99, b"b" * 99, timestamps=[100, 300], compression=GZIP), 0)
    assert log.offset_for_time(200) == FoundOffset(0, 300)
    assert log.offset_of_max_timestamp() == FoundOffset(1, 300)
    assert log.offset_for_time(301) is None


def test_an_empty_log_has_no_times() -> None:
    log = new_log(start_offset=9)
    assert (log.offset_for_time(0), log.offset_of_max_timestamp()) == (None, None)


def test_bytes_that_only_pretend_to_be_records_do_no_harm() -> None:
    log = new_log()
    for tail in (b"\xff" * 40, b"\x01" * 40, b"\x00" * 40):
        good = batch(b"x" * 33, b"y")
        log.append(with_field(good[:61] + tail + good[101:], 35, ">q", 9_000), 0)
    assert log.offset_for_time(8_000) == FoundOffset(0, 9_000)
    assert log.offset_of_max_timestamp() is not None
