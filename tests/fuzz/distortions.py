"""One field of a right request made wrong: an extreme number, a name of nobody, a text too long, an entry
that comes twice, null where there is no null.

The rest of the request stays as it was, so that it gets to the code that looks at this one field.
"""

from __future__ import annotations

import dataclasses
import math
import random
import struct
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from actors.protocol.entity_schema import FieldShape, shapes
from tests.protocol.random_entities import kio_bytes, random_entity

NULL = "null"
"""The distortion that no entity can say: it is made in the bytes."""
TWICE = "twice"
LONGEST = "l" * 32_767
MANY = 1_000
_INTEGERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_TEXTS = {
    "empty": "",
    "too long": LONGEST,
    "a name of nobody": "nobody-has-this-name",
    "no name": "a/b c\0é",
    "a number": "-1",
}
_BYTES = {"empty": b"", "long": bytes(70_000), "zeros": bytes(61), "ones": b"\xff" * 61}
_FLOATS = {"no number": math.nan, "infinite": math.inf, "minus infinite": -math.inf, "huge": 1e308}
_IDS = {"the zero id": None, "an id of nobody": UUID(int=0xABCD), "all ones": UUID(int=2**128 - 1)}
_BOOLS = {"true": True, "false": False}


class Distortion(NamedTuple):
    """What is made wrong: the field at the end of `path`, in the first entry of each list on the way."""

    path: tuple[str, ...]
    shape: FieldShape
    how: str

    def __str__(self) -> str:
        return f"{'.'.join(self.path)}: {self.how}"


def distortions(entity_class: Any) -> Iterator[Distortion]:
    """Every distortion of every field of a message, those of nested entities too."""
    for shape in shapes(entity_class):
        for how in (*_values(shape), *_lists(shape)):
            yield Distortion((shape.name,), shape, how)
        if _can_be_nulled(shape):
            yield Distortion((shape.name,), shape, NULL)
        if shape.entity is not None:
            for inner in distortions(shape.entity):
                yield inner._replace(path=(shape.name, *inner.path))


def distorted(rng: random.Random, entity: Any, distortion: Distortion, flexible: bool) -> tuple[Any, bytes]:
    """Return a request's entity as near to the distorted one as there can be, and the bytes of its body."""
    path, shape, how = distortion
    if how == NULL and not shape.nullable:
        less, more = (_changed(rng, entity, path, lambda _, part=part: part) for part in _sizes(rng, shape))
        return less, _nulled(kio_bytes(less), kio_bytes(more), _length_bytes(shape, flexible))
    made = _changed(rng, entity, path, lambda value: _made(rng, shape, how, value))
    return made, kio_bytes(made)


def _values(shape: FieldShape) -> Mapping[str, Any]:
    """The wrong values of a field that is no list, or of an element of a list."""
    kind = shape.kafka_type
    if kind in _INTEGERS:
        edge = 1 << (_INTEGERS[kind] - 1)
        return {"least": -edge, "greatest": edge - 1, "minus one": -1, "zero": 0, "one": 1}
    if kind.startswith("timedelta"):
        edge = 1 << (31 if kind.endswith("i32") else 45)
        least, greatest = timedelta(milliseconds=-edge), timedelta(milliseconds=edge - 1)
        return {"least": least, "greatest": greatest, "zero": timedelta(0)}
    known: dict[str, Mapping[str, Any]] = {
        "string": _TEXTS,
        "bytes": _BYTES,
        "records": _BYTES,
        "float64": _FLOATS,
        "uuid": _IDS,
        "bool": _BOOLS,
    }
    return known.get(kind, {})


def _lists(shape: FieldShape) -> tuple[str, ...]:
    return ("without an entry", TWICE, "often") if shape.is_array else ()


def _can_be_nulled(shape: FieldShape) -> bool:
    """Whether null can be written: kio writes it where it may stand, and elsewhere a length says so."""
    has_length = shape.is_array or shape.kafka_type in ("string", "bytes", "records")
    return (shape.nullable and shape.kafka_type != "uuid") or (has_length and shape.tag is None)


def _made(rng: random.Random, shape: FieldShape, how: str, value: Any) -> Any:
    """Return the wrong value of a field that has this value."""
    if how == NULL:
        return None
    if not shape.is_array:
        return _values(shape)[how]
    if how == "without an entry":
        return ()
    entries = value or (_element(rng, shape),)
    if how == TWICE:
        return entries * 2
    return (entries * MANY)[:MANY] if how == "often" else (_values(shape)[how], *entries)


def _changed(rng: random.Random, entity: Any, path: tuple[str, ...], change: Callable[[Any], Any]) -> Any:
    """Return the entity with the field at the end of the path changed; what is missing on the way is made."""
    name, rest = path[0], path[1:]
    value = getattr(entity, name)
    if not rest:
        return dataclasses.replace(entity, **{name: change(value)})
    shape = next(each for each in shapes(type(entity)) if each.name == name)
    if not shape.is_array:
        inner = random_entity(rng, shape.entity) if value is None else value
        return dataclasses.replace(entity, **{name: _changed(rng, inner, rest, change)})
    first, *others = value or (random_entity(rng, shape.entity),)
    return dataclasses.replace(entity, **{name: (_changed(rng, first, rest, change), *others)})


def _element(rng: random.Random, shape: FieldShape) -> Any:
    """An entry of a list."""
    if shape.entity is not None:
        return random_entity(rng, shape.entity)
    return next(iter(_values(shape).values()))


def _sizes(rng: random.Random, shape: FieldShape) -> tuple[Any, Any]:
    """Values of a field without anything and with one thing in it: they differ first in their length."""
    if shape.is_array:
        return (), (_element(rng, shape),)
    return ("", "a") if shape.kafka_type == "string" else (b"", b"a")


def _length_bytes(shape: FieldShape, flexible: bool) -> int:
    if flexible:
        return 1
    return 2 if shape.kafka_type == "string" and not shape.is_array else 4


def _nulled(less: bytes, more: bytes, length_bytes: int) -> bytes:
    """Return the first of two bodies with null for the field whose length is all that differs at first."""
    at = next(index for index, pair in enumerate(zip(less, more, strict=False)) if pair[0] != pair[1])
    null = b"\0" if length_bytes == 1 else struct.pack(">q", -1)[:length_bytes]
    return less[: at + 1 - length_bytes] + null + less[at + 1 :]
