"""Tell what kio's generated dataclasses say about the wire: one `FieldShape` per field."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import timedelta
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, Union, get_args, get_origin

NO_TIME: Final = timedelta(0)

FIXED_FORMATS: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
}
"""Kafka's types of fixed size whose Python value is what struct reads and writes, with struct's format."""


class FieldShape(NamedTuple):
    """One field of an entity as it stands on the wire."""

    name: str
    kafka_type: str
    """Kafka's primitive type of the field or of its elements; "" for an entity."""
    entity: Any
    """The class of the nested entity, or None."""
    is_array: bool
    nullable: bool
    tag: int | None
    default: Any
    """What a tagged field is when its tag is absent."""


def _without_none(field_type: Any) -> tuple[Any, bool]:
    if get_origin(field_type) not in (Union, UnionType):
        return field_type, False
    inner = [part for part in get_args(field_type) if part is not NoneType]
    assert len(inner) == 1, field_type
    return inner[0], True


def _shape(field: Field[Any]) -> FieldShape:
    inner, nullable = _without_none(field.type)
    is_array = get_origin(inner) is tuple
    if is_array:
        # Only ids are optional inside an array, and there None stands for zeros.
        inner, _ = _without_none(get_args(inner)[0])
    entity = inner if is_dataclass(inner) else None
    tag = field.metadata.get("tag")
    assert tag is None or field.default is not MISSING, field
    kafka_type = "" if entity is not None else field.metadata["kafka_type"]
    return FieldShape(field.name, kafka_type, entity, is_array, nullable, tag, field.default)


@cache
def shapes(entity_class: Any) -> tuple[FieldShape, ...]:
    """Return the fields of a kio class in the order of the wire."""
    return tuple(_shape(field) for field in fields(entity_class))


@cache
def field_names(entity_class: Any) -> frozenset[str]:
    return frozenset(field.name for field in fields(entity_class))
