"""Kafka's batches become pieces: nothing is lost, nothing comes twice, and what is damaged is named."""

from __future__ import annotations

import random
import struct
from contextlib import suppress

import pytest
from crc32c import crc32c

from actors.coordinator.take_over.inside import EndMarker, LogPiece
from actors.ground.limits import TAKEN_RECORDS_MAX
from actors.upstream.offsets_log.errors import LogUnreadable
from actors.upstream.offsets_log.reading import pieces
from tests.upstream.offsets_log.logs import EPOCH, TIME_MS, KafkaLog, commit, packed

PRODUCER = (7, 1)


def offsets(piece: LogPiece) -> list[int]:
    return [each.offset for each in piece.records]


def log_of(batches: int, records: int = 2) -> KafkaLog:
    log = KafkaLog()
    for number in range(batches):
        log.append([commit("g", partition, number) for partition in range(records)])
    return log


def test_plain_batches_behind_each_other_are_one_piece() -> None:
    [piece] = pieces(log_of(3).raw(), 0)
    assert piece._replace(records=()) == LogPiece(0, 6, EPOCH)
    assert offsets(piece) == [0, 1, 2, 3, 4, 5]
    assert piece.records[3][1:] == commit("g", 1, 1)


def test_a_batch_of_a_transaction_and_a_marker_are_pieces_of_their_own() -> None:
    log = log_of(1)
    log.pend(PRODUCER, commit("g", 0, 5), commit("g", 1, 5))
    log.pend(PRODUCER, commit("g", 2, 5))
    log.mark((7, 2), committed=True, coordinator_epoch=11)
    log.append([commit("g", 3, 1)])
    found = list(pieces(log.raw(), 0))
    assert [(each.first_offset, each.next_offset, each.producer) for each in found] == [
        (0, 2, (-1, -1)),
        (2, 4, PRODUCER),
        (4, 5, PRODUCER),
        (5, 6, (7, 2)),
        (6, 7, (-1, -1)),
    ]
    assert [each.marker for each in found] == [None, None, None, EndMarker(True, 11, TIME_MS), None]


def test_many_records_are_cut_into_pieces_that_follow_each_other() -> None:
    log = log_of(1, records=2 * TAKEN_RECORDS_MAX + 1)
    found = list(pieces(log.raw(), 0))
    assert [len(each.records) for each in found] == [TAKEN_RECORDS_MAX, TAKEN_RECORDS_MAX, 1]
    assert [each.first_offset for each in found[1:]] == [each.next_offset for each in found[:-1]]
    assert [offset for each in found for offset in offsets(each)] == list(range(log.end))


def test_what_is_known_already_is_left_out() -> None:
    """A broker answers with the whole batch that the offset is in."""
    [piece] = pieces(log_of(3).raw(), 3)
    assert (piece.first_offset, offsets(piece)) == (3, [3, 4, 5])


def test_the_gaps_of_a_compacted_log_are_no_gaps_between_pieces() -> None:
    """Whole batches may be gone, and others may be empty."""
    log = log_of(3).compacted()
    assert [len(batch.records) for batch in log.batches] == [0, 0, 2]
    del log.batches[0]
    [piece] = pieces(log.raw(), 0)
    assert (piece.first_offset, piece.next_offset, offsets(piece)) == (0, 6, [4, 5])


def test_a_log_that_ends_with_an_empty_batch_goes_on_behind_it() -> None:
    log = log_of(1)
    log.batches.append(log.batches[0]._replace(base_offset=2, records=(), end=9))
    [piece] = pieces(log.raw(), 0)
    assert piece.next_offset == 9


def test_a_last_batch_that_is_cut_short_comes_with_the_next_fetch() -> None:
    log = log_of(2)
    raw = log.raw()
    first_bytes = len(packed(log.batches[0]))
    for end in range(first_bytes, len(raw)):
        [piece] = pieces(raw[:end], 0)
        assert piece.next_offset == 2
    assert [each.next_offset for each in pieces(raw[first_bytes:], 2)] == [4]


def test_a_fetch_that_is_too_small_for_one_batch_is_told_so() -> None:
    with pytest.raises(LogUnreadable, match=r"no batch behind offset 0 ends within the 80 bytes.*larger"):
        list(pieces(log_of(1).raw()[:80], 0))


def test_every_flipped_bit_behind_the_crc_is_found() -> None:
    log = log_of(2)
    raw, first_bytes = log.raw(), len(packed(log.batches[0]))
    for at in range(first_bytes + 17, len(raw)):
        damaged = bytearray(raw)
        damaged[at] ^= 1 << at % 8
        found = pieces(bytes(damaged), 0)
        assert next(found).next_offset == 2
        with pytest.raises(LogUnreadable, match="the batch at offset 2 does not match its CRC"):
            list(found)


@pytest.mark.parametrize("seed", range(300))
def test_damaged_bytes_are_never_anything_but_unreadable(seed: int) -> None:
    """The CRC is made right again: so the parser sees what a CRC would hide."""
    chance = random.Random(seed)
    log = log_of(1, records=3)
    raw = bytearray(packed(log.batches[0], chance.choice((0, 0, 1, 2, 3, 4))))
    for _ in range(chance.randrange(1, 4)):
        raw[chance.randrange(21, len(raw))] = chance.randrange(256)
    struct.pack_into(">I", raw, 17, crc32c(bytes(raw[21:])))
    with suppress(LogUnreadable):
        list(pieces(bytes(raw), 0))


def test_a_format_of_before_0_11_is_named() -> None:
    raw = bytearray(log_of(1).raw())
    raw[16] = 1
    with pytest.raises(LogUnreadable, match="offset 0 has format 1, and 2 is read here"):
        list(pieces(bytes(raw), 0))


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_every_codec_of_kafka_is_read(codec: int) -> None:
    log = log_of(3, records=50)
    assert list(pieces(log.raw(codec), 0)) == list(pieces(log.raw(), 0))


def test_an_unknown_codec_is_named() -> None:
    batch = log_of(1).batches[0]
    with pytest.raises(
        LogUnreadable, match="compressed by codec 5, and this release reads gzip, snappy, lz4"
    ):
        list(pieces(packed(batch._replace(attributes=5)), 0))


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_batch_that_unpacks_to_too_much_is_refused(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.upstream.offsets_log.unpacking.UNPACKED_BYTES_MAX", 1_000)
    with pytest.raises(LogUnreadable, match="they have more than 1000 bytes"):
        list(pieces(log_of(1, records=50).raw(codec), 0))


@pytest.mark.parametrize("seed", range(20))
def test_however_a_log_is_fetched_the_same_comes_out(seed: int) -> None:
    chance = random.Random(seed)
    log = KafkaLog()
    for number in range(30):
        pairs = [commit("g", partition, number) for partition in range(chance.randrange(1, 6))]
        match chance.randrange(4):
            case 0:
                log.pend(PRODUCER, *pairs)
            case 1:
                log.mark(PRODUCER, committed=chance.random() < 0.5)
            case _:
                log.append(pairs)
    log = log.compacted() if chance.random() < 0.5 else log
    whole = [each for piece in pieces(log.raw(), 0) for each in piece.records]
    found, at = [], 0
    while at < log.end:
        fetched = b"".join(packed(batch) for batch in log.batches if batch.end > at)
        cut = fetched[: chance.randrange(600, 2_000)]
        for piece in pieces(cut, at):
            assert piece.first_offset == at
            found += piece.records
            at = piece.next_offset
    assert found == whole
