"""Logs of `__consumer_offsets` as Kafka would write them, batch by batch, whole or compacted."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from crc32c import crc32c

from actors.coordinator.kafka_records.codec import NO_VERSION, KafkaRecord, encode
from actors.topics.batch import HEADER_BYTES, LENGTH_FROM

NO_PRODUCER = (-1, -1)
TRANSACTIONAL = 0x10
CONTROL = 0x20
EPOCH = 3
"""The epoch of the leader that has written all batches, unless a test says otherwise."""
TIME_MS = 1_700_000_000_000
OFFSET, CLASSIC_GROUP, MEMBER = 1, 2, 5

Pair = tuple[bytes, bytes | None]


class Batch(NamedTuple):
    base_offset: int
    records: tuple[tuple[int, bytes, bytes | None], ...]
    """(offset, key, value) of each record that is left."""
    end: int
    """The offset behind the batch as it was written."""
    producer: tuple[int, int] = NO_PRODUCER
    attributes: int = 0
    leader_epoch: int = EPOCH

    @property
    def is_marker(self) -> bool:
        return bool(self.attributes & CONTROL)


class KafkaLog:
    """A log that grows as a test says."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    @property
    def end(self) -> int:
        return self.batches[-1].end if self.batches else 0

    def append(
        self,
        pairs: Sequence[Pair],
        producer: tuple[int, int] = NO_PRODUCER,
        attributes: int = 0,
        leader_epoch: int = EPOCH,
    ) -> None:
        begin = self.end
        records = tuple((begin + number, *pair) for number, pair in enumerate(pairs))
        self.batches.append(Batch(begin, records, begin + len(pairs), producer, attributes, leader_epoch))

    def pend(self, producer: tuple[int, int], *pairs: Pair) -> None:
        """Append a batch of an open transaction."""
        self.append(pairs, producer, TRANSACTIONAL)

    def mark(self, producer: tuple[int, int], *, committed: bool, coordinator_epoch: int = 0) -> None:
        """Append the marker that ends a transaction."""
        key, value = struct.pack(">hh", 0, int(committed)), struct.pack(">hi", 0, coordinator_epoch)
        self.append([(key, value)], producer, TRANSACTIONAL | CONTROL)

    def raw(self, codec: int = 0) -> bytes:
        return b"".join(packed(batch, codec) for batch in self.batches)

    def compacted(self) -> KafkaLog:
        """Return the log as Kafka's cleaner leaves it: of each key the last record that counts. Batches keep
        their offsets, markers stay, and nothing is cleaned behind the beginning of an open transaction."""
        clean_end, aborted = self._clean()
        last: dict[bytes, int] = {}
        for batch in self.batches:
            if batch.end <= clean_end and not batch.is_marker:
                last |= {key: offset for offset, key, _ in batch.records if offset not in aborted}
        log = KafkaLog()
        for batch in self.batches:
            if batch.end <= clean_end and not batch.is_marker:
                kept = tuple(each for each in batch.records if last.get(each[1]) == each[0])
                batch = batch._replace(records=kept)
            log.batches.append(batch)
        return log

    def _clean(self) -> tuple[int, set[int]]:
        """Return where the first open transaction begins, and the offsets of what was aborted."""
        open_batches: dict[int, list[Batch]] = {}
        aborted: set[int] = set()
        for batch in self.batches:
            if batch.is_marker:
                ended = open_batches.pop(batch.producer[0], [])
                if not int.from_bytes(batch.records[0][1][2:4], "big"):
                    aborted |= {offset for each in ended for offset, _, _ in each.records}
            elif batch.producer != NO_PRODUCER:
                open_batches.setdefault(batch.producer[0], []).append(batch)
        begins = [each[0].base_offset for each in open_batches.values()]
        return min(begins, default=self.end), aborted


def packed(batch: Batch, codec: int = 0) -> bytes:
    """Return the bytes of a batch; `codec` says how it is compressed, and `COMPRESS` how that is done."""
    body = b"".join(_record(offset - batch.base_offset, key, value) for offset, key, value in batch.records)
    body = COMPRESS[codec](body)
    behind_crc = struct.pack(
        ">hiqqqhii",
        batch.attributes | codec,
        batch.end - 1 - batch.base_offset,
        TIME_MS,
        TIME_MS,
        *batch.producer,
        0 if batch.producer != NO_PRODUCER else -1,
        len(batch.records),
    )
    crc = crc32c(behind_crc + body)
    length = HEADER_BYTES - LENGTH_FROM + len(body)
    header = struct.pack(">qiibI", batch.base_offset, length, batch.leader_epoch, 2, crc)
    return header + behind_crc + body


def _record(delta: int, key: bytes, value: bytes | None) -> bytes:
    body = b"\0\0" + varint(delta) + varint(len(key)) + key
    body += varint(-1 if value is None else len(value)) + (value or b"") + b"\0"
    return varint(len(body)) + body


def varint(number: int) -> bytes:
    value = (number << 1) ^ (number >> 63)
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def _gzip(body: bytes) -> bytes:
    import gzip

    return gzip.compress(body)


def _arrow(name: str) -> Any:
    def compress(body: bytes) -> bytes:
        import pyarrow

        sink = pyarrow.BufferOutputStream()
        with pyarrow.CompressedOutputStream(sink, name) as stream:
            stream.write(body)
        return bytes(sink.getvalue())

    return compress


def _snappy(body: bytes) -> bytes:
    """Frame two blocks as Java's streams do."""
    import pyarrow

    half = len(body) // 2
    blocks = [pyarrow.Codec("snappy").compress(part, asbytes=True) for part in (body[:half], body[half:])]
    framed = b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + framed


COMPRESS = {0: bytes, 1: _gzip, 2: _snappy, 3: _arrow("lz4"), 4: _arrow("zstd")}


# Records.


def record(kind: int, key: dict[str, Any], value: dict[str, Any] | None, version: int = 0) -> Pair:
    """Return key and value as Kafka has them; a value of None is a tombstone."""
    return encode(KafkaRecord(kind, key, NO_VERSION if value is None else version, value))


def commit(
    group_id: str,
    partition: int,
    offset: int,
    *,
    time_ms: int = TIME_MS,
    metadata: str = "",
    version: int = 3,
) -> Pair:
    key = {"group": group_id, "topic": "t", "partition": partition}
    value = {"offset": offset, "metadata": metadata, "commitTimestamp": time_ms}
    return record(OFFSET, key, value, version)


def no_offset(group_id: str, partition: int) -> Pair:
    return record(OFFSET, {"group": group_id, "topic": "t", "partition": partition}, None)


def classic_group(group_id: str, generation: int, members: Iterable[str], version: int = 3) -> Pair:
    value = {
        "protocolType": "consumer",
        "generation": generation,
        "protocol": "range",
        "leader": None,
        "members": [],
    }
    for member_id in members:
        value["leader"] = value["leader"] or member_id
        value["members"].append(
            {
                "memberId": member_id,
                "clientId": "c",
                "clientHost": "/127.0.0.1",
                "sessionTimeout": 10_000,
                "subscription": b"what it wants",
                "assignment": f"{generation}: {member_id}".encode(),
            }
        )
    if not value["members"]:
        value["protocol"] = None
    return record(CLASSIC_GROUP, {"group": group_id}, value, version)


def no_classic_group(group_id: str) -> Pair:
    return record(CLASSIC_GROUP, {"group": group_id}, None)


def foreign(kind: int, text: str, value: bytes | None = b"\0\0whatever") -> Pair:
    """A record of a type that this tier does not know."""
    return struct.pack(">h", kind) + text.encode(), value
