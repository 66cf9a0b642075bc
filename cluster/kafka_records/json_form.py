"""Records of Kafka's internal topics as JSON, in the form in which Kafka's own formatters print them:

    {"key": {"type": 1, "data": {...}}, "value": {"version": 4, "data": {...}}}

The value of a tombstone is null; bytes are base64, UUIDs base64 without padding in the alphabet for URLs. The
records are of `__consumer_offsets` unless the table of another topic is given.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from actors.coordinator.kafka_records.codec import (
    NO_VERSION,
    KafkaRecord,
    Plain,
    RecordError,
    check_version,
    schema_of,
)
from actors.coordinator.kafka_records.schemas import (
    BYTES,
    NUMBERS,
    SCHEMAS,
    STRING,
    STRING_BYTES_MAX,
    UUID,
    UUID_BYTES,
    Array,
    Schemas,
    Struct,
)


def to_json(record: KafkaRecord, schemas: Schemas = SCHEMAS) -> Plain:
    """Return a record in the form of Kafka's formatters. Fields that the version lacks, and tagged ones at
    their default, are left out."""
    schema = schema_of(record.kind, schemas)
    key = {"type": record.kind, "data": _shown(schema.key, record.key, 0)}
    if record.value is None:
        return {"key": key, "value": None}
    data = _shown(schema.value, record.value, record.version)
    return {"key": key, "value": {"version": record.version, "data": data}}


def from_json(shown: Any, schemas: Schemas = SCHEMAS) -> KafkaRecord:
    """Return the record that is shown in the form of Kafka's formatters. Raises RecordError."""
    try:
        kind, value = shown["key"]["type"], shown["value"]
        schema = schema_of(kind, schemas)
        key = _taken(schema.key, shown["key"]["data"], 0, f"{schema.name} key")
        if value is None:
            return KafkaRecord(kind, key, NO_VERSION, None)
        version = value["version"]
        if not isinstance(version, int):
            raise RecordError(f"its version is {version!r}")
        check_version(schema, version)
        fields = _taken(schema.value, value["data"], version, f"{schema.name} value version {version}")
    except (KeyError, TypeError) as error:
        raise RecordError(
            f'it is not of the form {{"key": {{"type", "data"}}, "value": {{"version", "data"}}}}: {error!r}'
        ) from None
    return KafkaRecord(kind, key, version, fields)


def _shown(kind: Struct, fields: Plain, version: int) -> Plain:
    shown = {}
    for field in kind.fields:
        value = fields.get(field.name, field.default)
        is_shown = field.tag is None or value != field.default or field.is_always_written
        if field.is_in(version) and is_shown:
            shown[field.name] = _shown_value(field.type, value, version)
    return shown


def _shown_value(kind: str | Array | Struct, value: Any, version: int) -> Any:
    if value is None:
        return None
    if isinstance(kind, Struct):
        return _shown(kind, value, version)
    if isinstance(kind, Array):
        return [_shown_value(kind.of, item, version) for item in value]
    if kind == UUID:
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    return base64.b64encode(value).decode() if kind == BYTES else value


def _taken(kind: Struct, shown: Plain, version: int, what: str) -> Plain:
    if not isinstance(shown, dict):
        raise RecordError(f"{what} is no object")
    fields: Plain = {}
    for field in kind.fields:
        value = shown.get(field.name)
        is_left_out = field.tag is not None or field.nullable or not field.is_in(version)
        if value is None and not is_left_out:
            raise RecordError(f"{what} needs {field.name}")
        fields[field.name] = (
            field.default
            if value is None
            else _taken_value(field.type, value, version, f"{what}, {field.name}")
        )
    if unknown := set(shown) - set(fields):
        raise RecordError(f"{what} has no field {sorted(unknown)}")
    return fields


def _taken_value(kind: str | Array | Struct, value: Any, version: int, what: str) -> Any:
    if isinstance(kind, Struct):
        return _taken(kind, value, version, what)
    if isinstance(kind, Array):
        if not isinstance(value, list):
            raise RecordError(f"{what} = {value!r}: a list is expected")
        return [_taken_value(kind.of, item, version, what) for item in value]
    if kind in NUMBERS:
        limit = 1 << NUMBERS[kind] - 1
        if not isinstance(value, int) or isinstance(value, bool) or not -limit <= value < limit:
            raise RecordError(f"{what} = {value!r}: a number of {NUMBERS[kind]} bits is expected")
        return value
    if not isinstance(value, str):
        raise RecordError(f"{what} = {value!r}: text is expected")
    return _text(value, what) if kind == STRING else _bytes(kind, value, what)


def _text(value: str, what: str) -> str:
    try:
        size_bytes = len(value.encode())
    except UnicodeEncodeError as error:
        raise RecordError(f"{what} = {value!r}: {error}") from None
    if size_bytes > STRING_BYTES_MAX:
        raise RecordError(f"{what} has {size_bytes} bytes; {STRING_BYTES_MAX} are possible")
    return value


def _bytes(kind: str, value: str, what: str) -> bytes:
    alphabet = b"-_" if kind == UUID else None
    try:
        content = base64.b64decode(value + "=" * (-len(value) % 4), alphabet, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RecordError(f"{what} = {value!r}: {error}") from None
    if kind == UUID and len(content) != UUID_BYTES:
        raise RecordError(f"{what} = {value!r}: a UUID has {UUID_BYTES} bytes")
    return content
