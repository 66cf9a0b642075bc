"""Read and write a file of records of `__consumer_offsets`, in either of two forms.

`kafka`, all big-endian, keys and values in the bytes that Kafka keeps:

    file   = header | records
    header = magic "GKOD" (4) | format version (2) | records (8) | bytes of all records (8)
             | crc32c of all records (4) | crc32c of the header so far (4)
    record = key length (4) | key | value length (4), -1 for a tombstone | value

`json`, as Kafka's own formatters print them: one object a line (see `json_form`). When it is read, line
ends do not matter.

A dump may hold a key more than once, as Kafka's log does: the last record counts, and a tombstone removes.
"""

from __future__ import annotations

import json
import os
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from crc32c import crc32c

from actors.coordinator.kafka_records.codec import KafkaRecord, RecordError, decode, encode, kind_of
from actors.coordinator.kafka_records.convert import OFFSET_COMMIT_KINDS
from actors.coordinator.kafka_records.schemas import SCHEMAS
from actors.ground.limits import MIB
from cluster.kafka_records import json_form
from cluster.tier_file import TierError

KAFKA: Final = "kafka"
JSON: Final = "json"
FORMATS: Final = (KAFKA, JSON)
MAGIC: Final = b"GKOD"
FORMAT_VERSION: Final = 1
HEADER: Final = struct.Struct(">4sHqqI")
CRC: Final = struct.Struct(">I")
LENGTH: Final = struct.Struct(">i")
HEADER_BYTES: Final = HEADER.size + CRC.size
_JSON: Final = json.JSONDecoder()
RECORD_BYTES_MAX: Final = 64 * MIB
"""The most bytes of a record: what claims to be larger is damage."""


class DumpDamaged(TierError):
    """Raised if a dump is damaged; the text names the file and the place in it."""


def write_dump(path: Path, records: Iterable[KafkaRecord], form: str) -> int:
    """Write all records or nothing, and return how many. Raises TierError, also if the file exists
    already."""
    if path.exists():
        raise TierError(f"{path} is there already: name a file that is not")
    partial = path.with_name(f"{path.name}.partial")
    try:
        try:
            with partial.open("xb") as file:
                count = (_write_kafka if form == KAFKA else _write_json)(file, records)
                file.flush()
                os.fsync(file.fileno())
            partial.rename(path)
        except FileExistsError:
            raise TierError(f"{partial} is there: an export that was interrupted; remove it") from None
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise TierError(f"{path} cannot be written: {error.strerror or error}") from None
    return count


def read_dump(path: Path, left_out: Counter[int]) -> Iterator[KafkaRecord]:
    """Yield the records of a dump of either form, in their order. `left_out` counts those of kinds that are
    not of classic or consumer groups, by Kafka's type. Raises DumpDamaged."""
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) == MAGIC:
                yield from _read_kafka(path, file, left_out)
            else:
                file.seek(0)
                yield from _read_json(path, file, left_out)
    except OSError as error:
        raise DumpDamaged(f"{path} cannot be read: {error.strerror or error}") from None


def latest(records: Iterable[KafkaRecord]) -> list[KafkaRecord]:
    """Return the records that count when all were read: the last of each key, without tombstones."""
    standing: dict[tuple[object, ...], KafkaRecord] = {}
    for record in records:
        kind = 1 if record.kind in OFFSET_COMMIT_KINDS else record.kind
        key = (kind, *record.key.values())
        standing.pop(key, None)
        if record.value is not None:
            standing[key] = record
    return list(standing.values())


def _write_kafka(file: BinaryIO, records: Iterable[KafkaRecord]) -> int:
    file.write(bytes(HEADER_BYTES))
    count = size_bytes = crc = 0
    for record in records:
        key, value = encode(record)
        content = LENGTH.pack(len(key)) + key
        content += LENGTH.pack(-1) if value is None else LENGTH.pack(len(value)) + value
        file.write(content)
        count, size_bytes, crc = count + 1, size_bytes + len(content), crc32c(content, crc)
    header = HEADER.pack(MAGIC, FORMAT_VERSION, count, size_bytes, crc)
    file.seek(0)
    file.write(header + CRC.pack(crc32c(header)))
    return count


def _write_json(file: BinaryIO, records: Iterable[KafkaRecord]) -> int:
    count = 0
    for record in records:
        file.write(json.dumps(json_form.to_json(record), ensure_ascii=False).encode() + b"\n")
        count += 1
    return count


def _read_kafka(path: Path, file: BinaryIO, left_out: Counter[int]) -> Iterator[KafkaRecord]:
    header = MAGIC + file.read(HEADER_BYTES - len(MAGIC))
    if len(header) < HEADER_BYTES or CRC.unpack_from(header, HEADER.size)[0] != crc32c(header[: HEADER.size]):
        raise DumpDamaged(f"{path} is damaged: its header does not match its checksum")
    _, version, records, size_bytes, expected_crc = HEADER.unpack_from(header)
    if version != FORMAT_VERSION:
        raise DumpDamaged(f"{path} has format version {version}; this groupd reads {FORMAT_VERSION}")
    crc = 0
    for number in range(1, records + 1):
        where = f"{path}, record {number} of {records}"
        prefix, key = _part(file, where)
        crc = crc32c(key or b"", crc32c(prefix, crc))
        if key is None:
            raise DumpDamaged(f"{where} is damaged: it has no key")
        prefix, value = _part(file, where)
        crc = crc32c(value or b"", crc32c(prefix, crc))
        try:
            kind = kind_of(key)
            if kind in SCHEMAS:
                yield decode(key, value)
            else:
                left_out[kind] += 1
        except RecordError as error:
            raise DumpDamaged(f"{where}: {error}") from None
    if crc != expected_crc or file.read(1) or file.tell() != HEADER_BYTES + size_bytes:
        raise DumpDamaged(f"{path} is damaged: its records do not match the checksum in its header")


def _part(file: BinaryIO, where: str) -> tuple[bytes, bytes | None]:
    """Read a length and what follows it."""
    prefix = file.read(LENGTH.size)
    length = LENGTH.unpack(prefix)[0] if len(prefix) == LENGTH.size else RECORD_BYTES_MAX + 1
    if length < 0:
        return prefix, None
    content = file.read(length) if length <= RECORD_BYTES_MAX else b""
    if len(content) != length:
        raise DumpDamaged(f"{where} is damaged: it is not whole")
    return prefix, content


def _read_json(path: Path, file: BinaryIO, left_out: Counter[int]) -> Iterator[KafkaRecord]:
    number = 1
    try:
        for line in file:
            for shown in objects(line.decode()):
                kind = shown["key"]["type"]
                if isinstance(kind, int) and kind not in SCHEMAS:
                    left_out[kind] += 1
                else:
                    yield json_form.from_json(shown)
                number += 1
    except RecordError as error:
        raise DumpDamaged(f"{path}, record {number}: {error}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DumpDamaged(
            f"{path}, record {number} is no record: JSON as Kafka's formatters print it, or a file of "
            "`groupd offsets export` is expected"
        ) from None


def objects(line: str) -> Iterator[Any]:
    """Yield the objects of a line: Kafka's console consumer prints all objects in one, with nothing between
    them."""
    line, at = line.rstrip(), 0
    while at < len(line):
        shown, at = _JSON.raw_decode(line, at)
        yield shown
        while line[at : at + 1].isspace():
            at += 1
