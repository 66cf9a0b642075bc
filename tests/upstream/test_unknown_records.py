"""Records of a newer Kafka are told by name and counted; those around them count as ever."""

from __future__ import annotations

import random

import pytest

from actors.upstream.image import UNKNOWN_KINDS_MAX, Unknown
from actors.upstream.levels import metadata_version_name, not_understood
from actors.upstream.records import UnknownRecord, decode
from tests.upstream.log import Log, framed, record, registered, topic_id

NEWER = record("feature_level", name="metadata.version", feature_level=40)


def test_a_new_type_of_record_is_counted_with_the_level_that_brought_it() -> None:
    log = Log()
    log.write(NEWER, framed(30, 0), framed(30, 0), record("topic", name="a", topic_id=topic_id(1)))
    what = Unknown("record type 30 version 0; the type is not known here", 40)
    assert dict(log.image.unknown) == {what: 2}
    assert list(log.image.topic_ids) == ["a"]
    assert not_understood(log.image.features) == {"metadata.version": 40}


def test_a_new_version_of_a_record_is_counted_by_name() -> None:
    log = Log()
    log.write(framed(3, 3))
    assert dict(log.image.unknown) == {
        Unknown("PartitionRecord version 3; versions 0 to 2 are read here", 0): 1
    }


def test_a_transaction_with_unknown_records_counts_them_when_it_ends() -> None:
    log = Log()
    log.write(record("begin_transaction"), framed(99, 1))
    assert not log.image.unknown
    log.write(record("end_transaction"))
    assert sum(log.image.unknown.values()) == 1


def test_ever_new_kinds_take_bounded_memory() -> None:
    log = Log()
    for number in range(200):
        log.write(framed(1_000 + number, 0))
    assert len(log.image.unknown) == UNKNOWN_KINDS_MAX + 1
    assert sum(log.image.unknown.values()) == 200


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "a record without a value"),
        (b"", "a damaged record"),
        (b"\x01", "a damaged record"),
        (b"\x02\x02\x00", "frame version 2; version 1 is read here"),
        (framed(2, 0, b"\x05ab"), "a damaged record"),
        (
            record("topic", name="a", topic_id=topic_id(1)) + b"x",
            "TopicRecord version 0 with 1 bytes too many",
        ),
    ],
)
def test_what_is_no_record(value: bytes | None, words: str) -> None:
    assert decode(value) == UnknownRecord(words)


def test_a_tagged_field_of_a_newer_kafka_is_passed_over() -> None:
    value = record("no_op")
    assert not isinstance(decode(value[:-1] + b"\x01\x07\x02ab"), UnknownRecord)


def test_no_bytes_crash_the_reader() -> None:
    rng = random.Random(20)
    valid = [registered(1, 2, rack="r"), record("topic", name="a", topic_id=topic_id(1))]
    for _ in range(5_000):
        value = bytearray(rng.choice(valid))
        for _ in range(rng.randint(1, 3)):
            value[rng.randrange(len(value))] = rng.randrange(256)
        decode(bytes(value[: rng.randint(0, len(value))]))


@pytest.mark.parametrize(("level", "name"), [(30, "4.3-IV0"), (33, "4.4-IV2"), (99, "level 99")])
def test_levels_have_the_names_of_kafkas_tools(level: int, name: str) -> None:
    assert metadata_version_name(level) == name
