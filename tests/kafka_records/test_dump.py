"""Dumps: what is written is read, what is damaged is named."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from actors.coordinator.kafka_records import codec
from actors.coordinator.kafka_records.codec import KafkaRecord
from cluster.kafka_records.dump import FORMATS, JSON, KAFKA, DumpDamaged, latest, read_dump, write_dump
from cluster.tier_file import TierError
from tests.kafka_records.golden import LINES, parts

RECORDS = [codec.decode(*parts(line)) for line in LINES]


def read(path: Path) -> tuple[list[KafkaRecord], Counter[int]]:
    left_out: Counter[int] = Counter()
    return list(read_dump(path, left_out)), left_out


@pytest.mark.parametrize("form", FORMATS)
def test_a_dump_is_read_as_it_was_written(tmp_path: Path, form: str) -> None:
    path = tmp_path / "dump"
    assert write_dump(path, RECORDS, form) == len(RECORDS)
    assert read(path) == (RECORDS, Counter())
    assert [each.name for each in tmp_path.iterdir()] == ["dump"]


@pytest.mark.parametrize("between", ["", "\n", " \n\n"])
def test_json_is_what_kafkas_formatters_print(tmp_path: Path, between: str) -> None:
    """Kafka's console consumer puts nothing between two records."""
    path = tmp_path / "printed"
    path.write_text("".join(json.dumps(line["json"]) + between for line in LINES))
    assert read(path)[0] == RECORDS


def test_kinds_that_are_not_ours_are_counted_and_passed_over(tmp_path: Path) -> None:
    """A Kafka's log has share and streams groups too."""
    share = {"key": {"type": 11, "data": {"groupId": "s"}}, "value": {"version": 0, "data": {"epoch": 1}}}
    path = tmp_path / "printed"
    path.write_text(f"{json.dumps(share)}\n\n{json.dumps(LINES[0]['json'])}\n")
    assert read(path) == (RECORDS[:1], Counter({11: 1}))


def test_the_last_record_of_a_key_stands_unless_it_is_a_tombstone() -> None:
    def offset(partition: int, value: int | None, kind: int = 1) -> KafkaRecord:
        key = {"group": "g", "topic": "t", "partition": partition}
        return KafkaRecord(
            kind, key, -1 if value is None else 2, None if value is None else {"offset": value}
        )

    log = [offset(0, 1, kind=0), offset(1, 1), offset(0, 2), offset(2, 3), offset(1, None)]
    assert latest(log) == [offset(0, 2), offset(2, 3)]


def test_any_flipped_byte_of_a_dump_in_kafkas_bytes_is_found(tmp_path: Path) -> None:
    path = tmp_path / "dump"
    write_dump(path, RECORDS[:3], KAFKA)
    content = path.read_bytes()
    for at in range(4, len(content)):
        damaged = bytearray(content)
        damaged[at] ^= 0x10
        path.write_bytes(bytes(damaged))
        with pytest.raises(DumpDamaged, match=str(path)):
            read(path)


def test_a_dump_that_ends_early_or_late_is_found(tmp_path: Path) -> None:
    path = tmp_path / "dump"
    write_dump(path, RECORDS[:3], KAFKA)
    content = path.read_bytes()
    for damaged in [*(content[:size] for size in range(4, len(content))), content + b"\0"]:
        path.write_bytes(damaged)
        with pytest.raises(DumpDamaged, match=str(path)):
            read(path)


@pytest.mark.parametrize("line", ["no JSON", "[]", '{"key": 1}', "[" * 100_000])
def test_a_line_that_is_no_record_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "dump"
    path.write_text(f"{json.dumps(LINES[0]['json'])}\n{line}\n")
    with pytest.raises(DumpDamaged, match=r"dump, record 2"):
        read(path)


def test_a_dump_replaces_no_file_and_leaves_none_half_written(tmp_path: Path) -> None:
    path = tmp_path / "dump"
    path.write_text("mine")
    with pytest.raises(TierError, match="is there already"):
        write_dump(path, RECORDS, JSON)
    assert path.read_text() == "mine"
    bad = KafkaRecord(3, {"groupId": "g"}, 0, {"epoch": 2**40})
    with pytest.raises(codec.RecordError):
        write_dump(tmp_path / "other", [bad], KAFKA)
    assert [each.name for each in tmp_path.iterdir()] == ["dump"]
