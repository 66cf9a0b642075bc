"""Compile a kio class into a function that reads it from untrusted bytes."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from actors.protocol.entity_schema import FIXED_FORMATS, FieldShape, shapes
from actors.protocol.errors import MalformedRequest
from actors.protocol.wire import (
    Reader,
    array_reader,
    bytes_reader,
    int32_array_reader,
    read_uvarint,
    skip_tags,
    string_reader,
)

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_ZERO_ID: Final = bytes(16)
_MILLISECOND: Final = timedelta(milliseconds=1)
_TIME_MS_MAX: Final = -(timedelta.min // _MILLISECOND)
"""The longest time in ms that is read, about 2.7 million years: an int64 of milliseconds says more, nobody
can mean it."""
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_Steps = tuple[tuple[tuple[str, ...], struct.Struct | None, Reader | None], ...]
_Tags = dict[int, tuple[str, Reader]]


def _read_uuid(frame: bytes, at: int) -> tuple[UUID | None, int]:
    raw = frame[at : at + 16]
    if len(raw) < 16:
        raise MalformedRequest("an id beyond the end of the frame")
    return (None if raw == _ZERO_ID else UUID(bytes=raw)), at + 16


def _read_timedelta_i32(frame: bytes, at: int) -> tuple[timedelta, int]:
    return timedelta(milliseconds=_INT32.unpack_from(frame, at)[0]), at + 4


def _read_timedelta_i64(frame: bytes, at: int) -> tuple[timedelta, int]:
    time_ms = _INT64.unpack_from(frame, at)[0]
    return timedelta(milliseconds=max(-_TIME_MS_MAX, min(_TIME_MS_MAX, time_ms))), at + 8


def _read_error_code(frame: bytes, at: int) -> tuple[ErrorCode, int]:
    try:
        return ErrorCode(_INT16.unpack_from(frame, at)[0]), at + 2
    except ValueError as error:
        raise MalformedRequest("an unknown error code") from error


def _read_datetime_i64(frame: bytes, at: int) -> tuple[datetime, int]:
    try:
        return _EPOCH + timedelta(milliseconds=_INT64.unpack_from(frame, at)[0]), at + 8
    except OverflowError as error:
        raise MalformedRequest("a time beyond the year 9999") from error


def _read_nullable_datetime_i64(frame: bytes, at: int) -> tuple[datetime | None, int]:
    if _INT64.unpack_from(frame, at)[0] == -1:
        return None, at + 8
    return _read_datetime_i64(frame, at)


def _fixed_reader(kafka_type: str) -> Reader:
    layout = struct.Struct(">" + FIXED_FORMATS[kafka_type])
    unpack_from, size = layout.unpack_from, layout.size

    def read(frame: bytes, at: int) -> tuple[Any, int]:
        return unpack_from(frame, at)[0], at + size

    return read


_UNSIZED: Final[dict[str, Reader]] = {
    "uuid": _read_uuid,
    "timedelta_i32": _read_timedelta_i32,
    "timedelta_i64": _read_timedelta_i64,
    "error_code": _read_error_code,
    "datetime_i64": _read_datetime_i64,
}


def _primitive_reader(kafka_type: str, flexible: bool, nullable: bool) -> Reader:
    if kafka_type == "string":
        return string_reader(flexible, nullable)
    if kafka_type in ("bytes", "records"):
        return bytes_reader(flexible, nullable)
    if kafka_type == "datetime_i64" and nullable:
        return _read_nullable_datetime_i64
    return _fixed_reader(kafka_type) if kafka_type in FIXED_FORMATS else _UNSIZED[kafka_type]


def _nullable_entity(read_entity: Reader) -> Reader:
    def read(frame: bytes, at: int) -> tuple[Any, int]:
        # One int8 says whether a struct follows (KIP-893).
        return (None, at + 1) if frame[at] >= 0x80 else read_entity(frame, at + 1)

    return read


def _field_reader(shape: FieldShape, flexible: bool) -> Reader:
    if shape.is_array:
        if shape.kafka_type == "int32":
            return int32_array_reader(flexible, shape.nullable)
        element = (
            entity_reader(shape.entity)
            if shape.entity is not None
            else _primitive_reader(shape.kafka_type, flexible, nullable=False)
        )
        return array_reader(element, flexible, shape.nullable)
    if shape.entity is not None:
        read = entity_reader(shape.entity)
        return _nullable_entity(read) if shape.nullable and shape.tag is None else read
    return _primitive_reader(shape.kafka_type, flexible, shape.nullable)


def _steps(plain: list[FieldShape], flexible: bool) -> _Steps:
    """Return the steps that read these fields. Neighbours of fixed size become one struct: most of an
    entity's fields are such."""
    steps: list[tuple[tuple[str, ...], struct.Struct | None, Reader | None]] = []
    names: list[str] = []
    formats = ">"
    for shape in plain:
        if not shape.is_array and shape.kafka_type in FIXED_FORMATS:
            names.append(shape.name)
            formats += FIXED_FORMATS[shape.kafka_type]
            continue
        if names:
            steps.append((tuple(names), struct.Struct(formats), None))
            names, formats = [], ">"
        steps.append(((shape.name,), None, _field_reader(shape, flexible)))
    if names:
        steps.append((tuple(names), struct.Struct(formats), None))
    return tuple(steps)


def _read_tags(frame: bytes, at: int, tags: _Tags, values: dict[str, Any]) -> int:
    count, at = read_uvarint(frame, at)
    for _ in range(count):
        tag, at = read_uvarint(frame, at)
        size, at = read_uvarint(frame, at)
        end = at + size
        if end > len(frame):
            raise MalformedRequest("a tag longer than the rest of the frame")
        if tag in tags:
            name, read = tags[tag]
            values[name], read_until = read(frame, at)
            if read_until > end:
                raise MalformedRequest("a tag that is longer than it says")
        at = end
    return at


@cache
def entity_reader(entity_class: Any) -> Reader:
    """Return the reader of a kio class, which raises IndexError, struct.error or MalformedRequest on bad
    bytes."""
    flexible: bool = entity_class.__flexible__
    fields = shapes(entity_class)
    steps = _steps([shape for shape in fields if shape.tag is None], flexible)
    tags: _Tags = {
        shape.tag: (shape.name, _field_reader(shape, flexible)) for shape in fields if shape.tag is not None
    }

    def read(frame: bytes, at: int) -> tuple[Any, int]:
        values: dict[str, Any] = {}
        for names, layout, read_field in steps:
            if layout is not None:
                values.update(zip(names, layout.unpack_from(frame, at), strict=True))
                at += layout.size
            elif read_field is not None:
                values[names[0]], at = read_field(frame, at)
        if flexible:
            at = _read_tags(frame, at, tags, values) if tags else skip_tags(frame, at)
        return entity_class(**values), at

    return read
