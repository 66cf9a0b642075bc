"""Committed offsets are written without the codec as it would write them (W52)."""

from __future__ import annotations

import pytest

from actors.coordinator.kafka_records.codec import KafkaRecord, RecordBytes, encode
from actors.coordinator.kafka_records.committed import singles_of_rows, whole_in_itself
from actors.coordinator.kafka_records.convert import single_to_kafka
from actors.coordinator.kafka_records.offset_bytes import ONE_BYTE_MAX, records_of
from actors.coordinator.kafka_records.schemas import NO_ID
from actors.ground.records import NO_EXPIRY, OFFSET_BATCH, OFFSET_COMMIT, OFFSET_ROWS
from actors.protocol.offset_rows import packed

ROWS = packed([(0, 7, 3), (2, 2**40, -1), (2**31 - 1, -1, 0)])
TOPIC_ID = bytes(range(16))
TIMES = (1_700_000_000_000, NO_EXPIRY, TOPIC_ID)
LONG = "x" * ONE_BYTE_MAX


def by_codec(group_id: str, topic: str, metadata: str, times: tuple[int, int, bytes]) -> list[RecordBytes]:
    records = []
    for key, value in singles_of_rows((OFFSET_ROWS, group_id, topic), (((ROWS, *times),),)):
        assert value is not None
        offset, epoch = value[:2]
        record = single_to_kafka(key, (offset, epoch, metadata, *times))
        assert record is not None
        records.append(RecordBytes(*encode(record)))
    return records


@pytest.mark.parametrize("metadata", ["", "m", "é€", "x" * (ONE_BYTE_MAX - 1)])
@pytest.mark.parametrize("topic_id", [TOPIC_ID, NO_ID])
@pytest.mark.parametrize(("group_id", "topic"), [("g", "t"), ("", "t"), ("ü" * 300, "t" * 249)])
def test_bytes_are_those_of_the_codec(group_id: str, topic: str, metadata: str, topic_id: bytes) -> None:
    times = (TIMES[0], NO_EXPIRY, topic_id)
    found = records_of(group_id, topic, ROWS, metadata, times)
    assert found is not None
    assert list(found) == by_codec(group_id, topic, metadata, times)


@pytest.mark.parametrize(
    ("group_id", "metadata", "times"),
    [
        ("g", LONG, TIMES),
        ("g", "", (TIMES[0], 1_800_000_000_000, TOPIC_ID)),
        ("g" * 2**15, "", TIMES),
        ("\ud800", "", TIMES),
    ],
    ids=["long metadata", "an expiry", "a long group id", "no text"],
)
def test_what_is_not_as_usual_is_left_to_the_codec(
    group_id: str, metadata: str, times: tuple[int, int, bytes]
) -> None:
    assert records_of(group_id, "t", ROWS, metadata, times) is None
    value = (7, 3, metadata, *times)
    (record,) = whole_in_itself((OFFSET_COMMIT, group_id, "t", 0), value)
    assert record == single_to_kafka((OFFSET_COMMIT, group_id, "t", 0), value)
    rows = list(whole_in_itself((OFFSET_ROWS, group_id, "t"), (((ROWS, *times),),)))
    assert len(rows) == 3
    assert all(isinstance(each, KafkaRecord) for each in rows) or metadata == LONG, "rows have no metadata"


def test_all_forms_of_a_commit_are_the_same_records() -> None:
    rows = list(whole_in_itself((OFFSET_ROWS, "g", "t"), (((ROWS, *TIMES), (ROWS, *TIMES)),)))
    batch = ((0, 2, 2**31 - 1), (7, 2**40, -1), (3, -1, 0), *TIMES)
    singles = singles_of_rows((OFFSET_ROWS, "g", "t"), (((ROWS, *TIMES),),))
    one_by_one = [each for single in singles for each in whole_in_itself(*single)]
    assert rows[:3] == rows[3:] == list(whole_in_itself((OFFSET_BATCH, "g", "t"), batch)) == one_by_one
