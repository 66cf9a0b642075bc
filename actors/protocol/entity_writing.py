"""Compile a kio class into a function that writes it, several times faster than kio's own writer."""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

from actors.protocol.entity_schema import FIXED_FORMATS, FieldShape, shapes
from actors.protocol.wire import (
    compact_bytes,
    compact_count,
    compact_string,
    legacy_bytes,
    legacy_count,
    legacy_string,
    uvarint,
)

Append = Callable[[bytes], None]
Writer = Callable[[Append, Any], None]
_ToBytes = Callable[[Any], bytes]

_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_ZERO_ID: Final = bytes(16)
_MILLISECOND: Final = timedelta(milliseconds=1)
_FORMATS: Final = FIXED_FORMATS | {"error_code": "h"}


def _uuid(value: UUID | None) -> bytes:
    return _ZERO_ID if value is None else value.bytes


def _timedelta_i32(value: timedelta) -> bytes:
    return _INT32.pack(value // _MILLISECOND) if value else b"\0\0\0\0"


def _timedelta_i64(value: timedelta) -> bytes:
    return _INT64.pack(value // _MILLISECOND)


def _datetime_i64(value: datetime | None) -> bytes:
    return _INT64.pack(-1 if value is None else round(value.timestamp() * 1000))


_UNSIZED: Final[dict[str, _ToBytes]] = {
    "uuid": _uuid,
    "timedelta_i32": _timedelta_i32,
    "timedelta_i64": _timedelta_i64,
    "datetime_i64": _datetime_i64,
}


def _primitive(kafka_type: str, flexible: bool) -> _ToBytes:
    if kafka_type == "string":
        return compact_string if flexible else legacy_string
    if kafka_type in ("bytes", "records"):
        return compact_bytes if flexible else legacy_bytes
    return struct.Struct(">" + _FORMATS[kafka_type]).pack if kafka_type in _FORMATS else _UNSIZED[kafka_type]


def _array_writer(shape: FieldShape, flexible: bool) -> Writer:
    count_of = compact_count if flexible else legacy_count
    null = b"\0" if flexible else b"\xff\xff\xff\xff"
    kafka_format = _FORMATS.get(shape.kafka_type)
    write_entity = None if shape.entity is None else entity_writer(shape.entity)
    to_bytes = None if shape.entity is not None else _primitive(shape.kafka_type, flexible)

    def write(append: Append, values: Any) -> None:
        if values is None:
            assert shape.nullable, shape.name
            append(null)
            return
        append(count_of(len(values)))
        if write_entity is not None:
            for value in values:
                write_entity(append, value)
        elif kafka_format is not None:
            append(struct.pack(f">{len(values)}{kafka_format}", *values))
        elif to_bytes is not None:
            append(b"".join(map(to_bytes, values)))

    return write


def _field_writer(shape: FieldShape, flexible: bool) -> Writer:
    if shape.is_array:
        return _array_writer(shape, flexible)
    if shape.entity is not None:
        write_entity = entity_writer(shape.entity)
        if not shape.nullable or shape.tag is not None:
            return write_entity

        def write_nullable(append: Append, value: Any) -> None:
            # One int8 says whether a struct follows (KIP-893).
            append(b"\xff" if value is None else b"\x01")
            if value is not None:
                write_entity(append, value)

        return write_nullable
    to_bytes = _primitive(shape.kafka_type, flexible)
    may_be_none = shape.nullable or shape.kafka_type == "uuid"

    def write(append: Append, value: Any) -> None:
        assert value is not None or may_be_none, shape.name
        append(to_bytes(value))

    return write


_Steps = tuple[tuple[Callable[[Any], Any], Callable[..., bytes] | None, Writer | None], ...]


def _steps(plain: list[FieldShape], flexible: bool) -> _Steps:
    """Return the steps that write these fields. Neighbours of fixed size become one struct; a lone one is an
    ordinary field."""
    steps: list[tuple[Callable[[Any], Any], Callable[..., bytes] | None, Writer | None]] = []
    run: list[FieldShape] = []

    def close_run() -> None:
        if len(run) > 1:
            layout = struct.Struct(">" + "".join(_FORMATS[shape.kafka_type] for shape in run))
            steps.append((attrgetter(*(shape.name for shape in run)), layout.pack, None))
        elif run:
            steps.append((attrgetter(run[0].name), None, _field_writer(run[0], flexible)))
        run.clear()

    for shape in plain:
        if not shape.is_array and shape.kafka_type in _FORMATS:
            run.append(shape)
            continue
        close_run()
        steps.append((attrgetter(shape.name), None, _field_writer(shape, flexible)))
    close_run()
    return tuple(steps)


def _write_tags(append: Append, entity: Any, tagged: list[tuple[FieldShape, Writer]]) -> None:
    present = [(shape, write) for shape, write in tagged if getattr(entity, shape.name) != shape.default]
    append(uvarint(len(present)))
    for shape, write in present:
        assert shape.tag is not None
        pieces: list[bytes] = []
        write(pieces.append, getattr(entity, shape.name))
        body = b"".join(pieces)
        append(uvarint(shape.tag) + uvarint(len(body)) + body)


@cache
def entity_writer(entity_class: Any) -> Writer:
    """Return the writer of a kio class, which appends the pieces of the entity's bytes."""
    flexible: bool = entity_class.__flexible__
    fields = shapes(entity_class)
    steps = _steps([shape for shape in fields if shape.tag is None], flexible)
    tagged = [(shape, _field_writer(shape, flexible)) for shape in fields if shape.tag is not None]
    tagged.sort(key=lambda entry: entry[0].tag or 0)

    def write(append: Append, entity: Any) -> None:
        for get, pack, write_field in steps:
            if pack is not None:
                append(pack(*get(entity)))
            elif write_field is not None:
                write_field(append, get(entity))
        if tagged:
            _write_tags(append, entity, tagged)
        elif flexible:
            append(b"\0")

    return write
