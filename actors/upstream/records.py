"""The records of the upstream cluster's metadata log, `__cluster_metadata`, read from their bytes.

A value begins with three unsigned varints: the version of this frame, the type of the record and the version
of its fields (org.apache.kafka MetadataRecordSerde). Keys are null. What the fields of each type and version
are stands in `schemas/`, which `python -m tests.kafka.schemas metadata` writes from Kafka's jar.

A cluster may write what this release has never heard of, as soon as its `metadata.version` is raised. Such a
record is no error: it is told by name, and whoever decides anything by the image can see that it is not
whole.
"""

import json
import struct
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

from actors.protocol.entity_reading import entity_reader
from actors.protocol.errors import MalformedRequest
from actors.protocol.schema_classes import record_class
from actors.protocol.wire import read_uvarint

_SCHEMAS: Final = Path(__file__).with_name("schemas")
FRAME_VERSION: Final = 1
_NO_ID: Final = bytes(16)


class MetadataRecord(NamedTuple):
    """One record whose fields are known."""

    name: str
    """The record's type: "register_broker" is Kafka's RegisterBrokerRecord."""
    fields: Any
    """An entity like those of kio, with the fields of the schema's version."""


class UnknownRecord(NamedTuple):
    """A record that cannot be read: of a newer type, of a newer version, or damaged."""

    what: str
    """What it is, in words, as "PartitionRecord version 3; versions 0 to 2 are read here"."""


def decode(value: bytes | None) -> MetadataRecord | UnknownRecord:
    """Read the value of a record."""
    if value is None:
        return UnknownRecord("a record without a value")
    try:
        frame_version, at = read_uvarint(value, 0)
        if frame_version != FRAME_VERSION:
            return UnknownRecord(f"frame version {frame_version}; version {FRAME_VERSION} is read here")
        api_key, at = read_uvarint(value, at)
        version, at = read_uvarint(value, at)
        schema = _schemas().get(api_key)
        if schema is None:
            return UnknownRecord(f"record type {api_key} version {version}; the type is not known here")
        least, most = schema["versions"]
        if not least <= version <= most:
            known = f"versions {least} to {most} are read here"
            return UnknownRecord(f"{schema['name']} version {version}; {known}")
        fields, end = _reader(api_key, version)(value, at)
    except (IndexError, struct.error, MalformedRequest, UnicodeDecodeError):
        return UnknownRecord("a damaged record")
    if end != len(value):
        return UnknownRecord(f"{schema['name']} version {version} with {len(value) - end} bytes too many")
    return MetadataRecord(schema["record"], fields)


@cache
def _schemas() -> dict[int, Any]:
    read = (json.loads(path.read_text(encoding="utf-8")) for path in sorted(_SCHEMAS.glob("*.json")))
    return {schema["api_key"]: schema for schema in read}


@cache
def _reader(api_key: int, version: int) -> Any:
    return entity_reader(record_class(_schemas()[api_key], version))


def id_bytes(uuid: UUID | None) -> bytes:
    """Return an id as the image has it; the one of zeros is None in an entity."""
    return _NO_ID if uuid is None else uuid.bytes


def ids_bytes(uuids: Iterable[UUID | None]) -> tuple[bytes, ...]:
    return tuple(map(id_bytes, uuids))


def record_names() -> frozenset[str]:
    """Return the names of all types that are read here."""
    return frozenset(schema["record"] for schema in _schemas().values())
