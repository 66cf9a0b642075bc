"""A metadata log in memory, written as controllers write it, and an image that follows it."""

from __future__ import annotations

import io
import json
import struct
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

from kio.serial import entity_writer

import actors.upstream
from actors.network.wire import from_plain
from actors.protocol.schema_classes import record_class
from actors.protocol.wire import uvarint
from actors.topics.batch import placed, plain_batch, read_header
from actors.topics.batch_contents import whole_batches
from actors.upstream.applying import apply_batch
from actors.upstream.image import ClusterImage
from tests.topics.batches import with_field

SCHEMAS = Path(actors.upstream.__file__).with_name("schemas")
ATTRIBUTES_AT = 21
CONTROL = 0x20
ANY_TIME_MS = 1_700_000_000_000


@cache
def schema(name: str) -> Any:
    return json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))


def record(name: str, version: int | None = None, /, **fields: Any) -> bytes:
    """The value of a record: "topic" is Kafka's TopicRecord. The version is the newest unless it is given."""
    chosen = schema(name)["versions"][1] if version is None else version
    made = record_class(schema(name), chosen)
    out = io.BytesIO()
    entity_writer(made)(out, from_plain(made, fields))
    return framed(schema(name)["api_key"], chosen, out.getvalue())


def framed(api_key: int, version: int, content: bytes = b"\0") -> bytes:
    """A value of any type and version."""
    return uvarint(1) + uvarint(api_key) + uvarint(version) + content


def batch(base_offset: int, *values: bytes, epoch: int = 1) -> bytes:
    """A batch of records, as it stands in the log."""
    return placed(plain_batch([(b"", value) for value in values], ANY_TIME_MS), base_offset, epoch, None)


def control_batch(base_offset: int, kind: int, entity: Any, epoch: int = 1) -> bytes:
    """A batch with one control record, whose content is an entity of kio's."""
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    plain = plain_batch([(struct.pack(">hh", 0, kind), out.getvalue())], ANY_TIME_MS)
    return placed(with_field(plain, ATTRIBUTES_AT, ">h", CONTROL), base_offset, epoch, None)


class Log:
    """Who writes a log and applies each batch to `image` at once."""

    def __init__(self) -> None:
        self.image = ClusterImage()
        self.end = 0
        """The offset of the next batch."""

    def write(self, *values: bytes, epoch: int = 1) -> ClusterImage:
        """Write one batch of these records."""
        return self.apply(batch(self.end, *values, epoch=epoch))

    def apply(self, raw: bytes) -> ClusterImage:
        """Apply a batch that stands at the log's end."""
        apply_all(self.image, raw)
        self.end = read_header(raw).last_offset + 1
        return self.image


def apply_all(image: ClusterImage, raw: bytes) -> bool:
    """Apply batches. Whether one of them had a snapshot's footer."""
    found = [apply_batch(image, header, each) for header, each in whole_batches(raw)]
    return any(found)


def topic_id(number: int) -> UUID:
    return UUID(int=number << 64)


def partition(number: int, topic: int, *replicas: int, **fields: Any) -> bytes:
    """A PartitionRecord whose replicas are all in sync and led by the first one."""
    told: dict[str, Any] = {
        "partition_id": number,
        "topic_id": topic_id(topic),
        "replicas": list(replicas),
        "isr": list(replicas),
        "removing_replicas": [],
        "adding_replicas": [],
        "leader": replicas[0],
        "leader_epoch": 0,
        "partition_epoch": 0,
        "directories": [],
    }
    return record("partition", **told | fields)


def registered(broker_id: int, epoch: int, **fields: Any) -> bytes:
    """A RegisterBrokerRecord with one listener, one log directory and one feature."""
    told: dict[str, Any] = {
        "broker_id": broker_id,
        "incarnation_id": UUID(int=broker_id),
        "broker_epoch": epoch,
        "end_points": [{"name": "PLAINTEXT", "host": "one", "port": 9092, "security_protocol": 0}],
        "features": [{"name": "metadata.version", "min_supported_version": 7, "max_supported_version": 33}],
        "rack": None,
        "log_dirs": [UUID(int=100 + broker_id)],
    }
    return record("register_broker", **told | fields)
