"""Records of Kafka's internal topics, byte by byte as a real Kafka keeps them: A20, W53."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from actors.coordinator.kafka_records import codec
from actors.coordinator.kafka_records.codec import KafkaRecord, RecordError
from actors.coordinator.kafka_records.schemas import TRANSACTION_SCHEMAS, Schemas
from cluster.kafka_records import json_form
from tests.kafka_records.golden import ALL, ALL_NAMES, TOPICS, Line, parts


@pytest.mark.parametrize(("schemas", "line"), ALL, ids=ALL_NAMES)
def test_kafkas_bytes_say_what_kafka_reads_in_them_and_are_written_alike(
    schemas: Schemas, line: Line
) -> None:
    record = codec.decode(*parts(line), schemas)
    assert json_form.to_json(record, schemas) == line["json"]
    assert codec.encode(record, schemas) == parts(line)
    assert json_form.from_json(line["json"], schemas) == record


@pytest.mark.parametrize(("schemas", "lines"), TOPICS)
def test_every_kind_and_version_has_golden_bytes(schemas: Schemas, lines: list[Line]) -> None:
    seen = {
        (line["json"]["key"]["type"], line["json"]["value"]["version"])
        for line in lines
        if line["json"]["value"] is not None
    }
    assert seen == {
        (schema.kind, version) for schema in schemas.values() for version in range(schema.version_max + 1)
    }


@pytest.mark.parametrize(("schemas", "line"), ALL, ids=ALL_NAMES)
def test_a_record_that_ends_early_is_refused(schemas: Schemas, line: Line) -> None:
    key, value = parts(line)
    for size_bytes in range(len(key)):
        with pytest.raises(RecordError):
            codec.decode(key[:size_bytes], value, schemas)
    for size_bytes in range(len(value or b"")):
        with pytest.raises(RecordError):
            codec.decode(key, value and value[:size_bytes], schemas)


@pytest.mark.parametrize(("schemas", "line"), ALL, ids=ALL_NAMES)
def test_a_flipped_byte_gives_a_record_or_is_refused(schemas: Schemas, line: Line) -> None:
    key, value = parts(line)
    for content in (key, value or b""):
        for at in range(len(content)):
            damaged = bytearray(content)
            damaged[at] ^= 0xFF
            pair = (bytes(damaged), value) if content is key else (key, bytes(damaged))
            with contextlib.suppress(RecordError):
                codec.decode(*pair, schemas)


def test_what_a_newer_kafka_tags_is_passed_over() -> None:
    epoch, tags = bytes.fromhex("0000 00000007"), bytes.fromhex("01 05 03 aabbcc")
    record = codec.decode(b"\x00\x03\x00\x01g", epoch + tags)
    assert record.value == {"epoch": 7, "metadataHash": 0}


@pytest.mark.parametrize(
    ("shown", "says"),
    [
        ({}, "not of the form"),
        ({"key": {"type": 1}, "value": None}, "not of the form"),
        ({"key": {"type": 11, "data": {}}, "value": None}, "type 11 is none of classic or consumer groups"),
        (
            {"key": {"type": 3, "data": {"groupId": "g"}}, "value": {"version": 9, "data": {}}},
            "version 9: this groupd reads 0 to 0",
        ),
        ({"key": {"type": 3, "data": {"groupId": 7}}, "value": None}, "groupId = 7: text is expected"),
        ({"key": {"type": 3, "data": {"group": "g"}}, "value": None}, "needs groupId"),
        (
            {"key": {"type": 3, "data": {"groupId": "g"}}, "value": {"version": 0, "data": {"epoch": "1"}}},
            "epoch = '1': a number of 32 bits is expected",
        ),
        (
            {"key": {"type": 3, "data": {"groupId": "g"}}, "value": {"version": 0, "data": {"epoch": 2**31}}},
            "epoch = 2147483648: a number of 32 bits is expected",
        ),
        ({"key": {"type": 3, "data": {"groupId": "g" * 32_768}}, "value": None}, "has 32768 bytes"),
        ({"key": {"type": 3, "data": {"groupId": "\ud800"}}, "value": None}, "surrogates not allowed"),
    ],
)
def test_json_that_is_no_record_is_refused_by_name(shown: Any, says: str) -> None:
    with pytest.raises(RecordError, match=says):
        json_form.from_json(shown)


def test_a_type_that_is_not_of_transactions_is_refused_by_name() -> None:
    with pytest.raises(RecordError, match="type 1 is none of transactions"):
        codec.decode(b"\0\1\0\1t", None, TRANSACTION_SCHEMAS)


def test_what_a_field_cannot_hold_is_refused_by_name() -> None:
    record = KafkaRecord(3, {"groupId": "g"}, 0, {"epoch": 2**31})
    with pytest.raises(RecordError, match=r"ConsumerGroupMetadata value version 0, epoch = 2147483648"):
        codec.encode(record)
