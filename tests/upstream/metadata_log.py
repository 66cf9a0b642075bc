"""The least of a follower of __cluster_metadata that stories about leaders need: brokers, topics, partitions.

Records are read as the schemas in Kafka's kafka-metadata jar have them; what is not needed is skipped.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple
from uuid import UUID

from kio.records.readers import read_batch

from actors.network.wire import Closed, Wire
from tests.simulation.upstream.kraft import Broker, State

LOG_ID = UUID(int=1)
"""The topic id of __cluster_metadata."""
MAX_BYTES = 8 * 1024 * 1024
_CONTROL_BIT = 0x20
_NO_CHANGE = -2


class Image(NamedTuple):
    """Everything at one offset."""

    metadata_offset: int
    topic_names: Mapping[bytes, str]
    partitions: Mapping[tuple[bytes, int], State]
    brokers: Mapping[int, Broker]


class Fields:
    """The fields of one record, read one after the other."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._content[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(f">{form}", self._content, self._at)
        self._at += struct.calcsize(form)
        return int(value)

    def raw(self, size: int) -> bytes:
        self._at += size
        return self._content[self._at - size : self._at]

    def string(self) -> str:
        return self.raw(self.varint() - 1).decode()

    def ints(self) -> tuple[int, ...]:
        return tuple(self.number("i") for _ in range(self.varint() - 1))

    def uuids(self) -> tuple[bytes, ...]:
        return tuple(self.raw(16) for _ in range(self.varint() - 1))

    def tagged(self) -> dict[int, Fields]:
        return {self.varint(): Fields(self.raw(self.varint())) for _ in range(self.varint())}


class MetadataLog:
    """Follows the log on a connection to whichever controller is active, and keeps the image."""

    def __init__(self, connect: Callable[[], Awaitable[Wire]]) -> None:
        """`connect` opens a connection to the active controller."""
        self.metadata_offset = -1
        self.changed = asyncio.Event()
        self._connect = connect
        self._last_epoch = 0
        self._topics: dict[bytes, str] = {}
        self._partitions: dict[tuple[bytes, int], State] = {}
        self._brokers: dict[int, Broker] = {}

    def image(self) -> Image:
        return Image(self.metadata_offset, dict(self._topics), dict(self._partitions), dict(self._brokers))

    async def follow(self) -> None:
        """Read on until cancelled."""
        while True:
            with suppress(OSError, Closed):
                async with closing(await self._connect()) as wire:
                    while await self._fetch(wire, await _leader_epoch(wire)):
                        self.changed.set()
            await asyncio.sleep(0.05)  # another controller has to be elected

    async def _fetch(self, wire: Wire, leader_epoch: int) -> bool:
        """Read what is new. Returns whether the controller leads still."""
        partition = {
            "partition": 0,
            "current_leader_epoch": leader_epoch,
            "fetch_offset": self.metadata_offset + 1,
            "last_fetched_epoch": self._last_epoch,
            "log_start_offset": -1,
            "partition_max_bytes": MAX_BYTES,
        }
        answer = await wire.call(
            "fetch",
            17,
            max_wait=500,
            min_bytes=1,
            topics=[{"topic_id": LOG_ID, "partitions": [partition]}],
            forgotten_topics_data=[],
        )
        (row,) = answer["responses"][0]["partitions"]
        if row["error_code"].value != 0:
            return False
        self._last_epoch = self._read(bytes(row["records"] or b""), row["high_watermark"], self._last_epoch)
        return True

    def _read(self, records: bytes, high_watermark: int, last_epoch: int) -> int:
        at = 0
        while at < len(records):
            batch, size = read_batch(records, at)
            at += size
            last_offset = batch.base_offset + batch.last_offset_delta
            if last_offset >= high_watermark:
                break
            if not batch.attributes & _CONTROL_BIT:
                for record in batch.records:
                    self._apply(Fields(record.value or b""))
            self.metadata_offset, last_epoch = last_offset, batch.partition_leader_epoch
        return last_epoch

    def _apply(self, fields: Fields) -> None:
        fields.varint()  # the version of the frame
        kind, version = fields.varint(), fields.varint()
        readers: dict[int, Any] = {
            0: self._register,
            1: self._unregister,
            2: self._topic,
            3: self._partition,
            5: self._change,
            9: self._remove_topic,
            17: self._change_broker,
        }
        if kind in readers:
            readers[kind](fields, version)

    def _topic(self, fields: Fields, version: int) -> None:
        name = fields.string()
        self._topics[fields.raw(16)] = name

    def _remove_topic(self, fields: Fields, version: int) -> None:
        topic_id = fields.raw(16)
        self._topics.pop(topic_id, None)
        self._partitions = {key: state for key, state in self._partitions.items() if key[0] != topic_id}

    def _partition(self, fields: Fields, version: int) -> None:
        index, topic_id = fields.number("i"), fields.raw(16)
        replicas, isr, removing, adding = (fields.ints() for _ in range(4))
        leader, leader_epoch, partition_epoch = (fields.number("i") for _ in range(3))
        self._partitions[topic_id, index] = State(
            replicas, isr, removing, adding, leader, leader_epoch, partition_epoch
        )

    def _change(self, fields: Fields, version: int) -> None:
        key = (index := fields.number("i"), fields.raw(16))[1], index
        old, tags = self._partitions[key], fields.tagged()
        changes = {
            name: tags[tag].ints()
            for tag, name in ((0, "isr"), (2, "replicas"), (3, "removing_replicas"), (4, "adding_replicas"))
            if tag in tags
        }
        leader = tags[1].number("i") if 1 in tags else _NO_CHANGE
        new = old._replace(partition_epoch=old.partition_epoch + 1, **changes)
        if leader != _NO_CHANGE:
            new = new._replace(leader=leader, leader_epoch=old.leader_epoch + 1)
        self._partitions[key] = new

    def _register(self, fields: Fields, version: int) -> None:
        broker_id = fields.number("i")
        fields.raw(1)  # whether it migrates from ZooKeeper
        fields.raw(16)
        epoch = fields.number("q")
        for _ in range(fields.varint() - 1):
            fields.string()
            fields.string()
            fields.raw(4)
            fields.tagged()
        for _ in range(fields.varint() - 1):
            fields.string()
            fields.raw(4)
            fields.tagged()
        if rack_bytes := fields.varint():
            fields.raw(rack_bytes - 1)
        fenced, shutting_down = bool(fields.number("b")), bool(fields.number("b"))
        tags = fields.tagged()
        log_dirs = tags[0].uuids() if 0 in tags else ()
        cordoned = tags[1].uuids() if 1 in tags else ()
        self._brokers[broker_id] = Broker(epoch, fenced, shutting_down, log_dirs, cordoned)

    def _unregister(self, fields: Fields, version: int) -> None:
        self._brokers.pop(fields.number("i"), None)

    def _change_broker(self, fields: Fields, version: int) -> None:
        broker_id = fields.number("i")
        fields.number("q")
        new, tags = self._brokers[broker_id], fields.tagged()
        if 0 in tags:
            new = new._replace(fenced=tags[0].number("b") > 0)
        if 1 in tags:
            new = new._replace(in_controlled_shutdown=tags[1].number("b") > 0)
        if 3 in tags:
            new = new._replace(cordoned_log_dirs=tags[3].uuids())
        self._brokers[broker_id] = new


@asynccontextmanager
async def closing(wire: Wire) -> AsyncIterator[Wire]:
    """Close a connection in the end."""
    try:
        yield wire
    finally:
        await wire.close()


async def _leader_epoch(wire: Wire) -> int:
    topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    quorum = await wire.call("describe_quorum", 1, topics=topics)
    return int(quorum["topics"][0]["partitions"][0]["leader_epoch"])
