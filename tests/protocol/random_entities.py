"""Seeded random values: kio entities of any class, and whole request frames written by kio."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from actors.catalog.headers import parse_header
from actors.catalog.table import APIS, is_flexible
from actors.protocol.entities import request_class
from actors.protocol.entity_schema import FieldShape, shapes
from actors.protocol.header import Header

EVERY_VERSION = [
    (api_key, api_version)
    for api_key, api in APIS.items()
    for api_version in range(api.min_version, api.max_version + 1)
]
ERRORS = list(ErrorCode)
_INT_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def random_text(rng: random.Random) -> str:
    kind = rng.randrange(8)
    if kind == 0:
        return ""
    if kind == 1:
        return "ä漢😀" * rng.randint(1, 3)
    if kind == 2:
        return "x" * rng.choice((125, 126, 127, 128, 300, 17_000))
    return "".join(rng.choices("abcdefghijklmnop-._0123456789", k=rng.randint(1, 40)))


def random_bytes(rng: random.Random) -> bytes:
    return rng.randbytes(rng.choice((0, 1, 7, 127, 128, 300)))


def random_int(rng: random.Random, bits: int) -> int:
    edge = 1 << (bits - 1)
    return rng.choice((0, -1, 1, edge - 1, -edge, rng.randrange(-edge, edge), rng.randrange(0, 100)))


def random_uuid(rng: random.Random) -> UUID | None:
    return UUID(bytes=rng.randbytes(16)) if rng.randrange(5) else None


_SPECIAL: dict[str, Callable[[random.Random], Any]] = {
    "string": random_text,
    "bytes": random_bytes,
    "records": random_bytes,
    "bool": lambda rng: rng.random() < 0.5,
    "float64": lambda rng: rng.choice((0.0, -1.5, 1e300, rng.random())),
    "uuid": random_uuid,
    "error_code": lambda rng: rng.choice(ERRORS),
    "timedelta_i32": lambda rng: timedelta(milliseconds=random_int(rng, 32)),
    "timedelta_i64": lambda rng: timedelta(milliseconds=rng.randrange(-1, 2**45)),
    "datetime_i64": lambda rng: datetime.fromtimestamp(rng.randrange(2**31), UTC),
}


def _random_field(rng: random.Random, shape: FieldShape) -> Any:
    if shape.tag is not None and rng.random() < 0.5:
        return shape.default
    if shape.nullable and shape.kafka_type != "uuid" and rng.random() < 0.3:
        return shape.default if shape.tag is not None else None

    def one() -> Any:
        if shape.entity is not None:
            return random_entity(rng, shape.entity)
        special = _SPECIAL.get(shape.kafka_type)
        return random_int(rng, _INT_BITS[shape.kafka_type]) if special is None else special(rng)

    if not shape.is_array:
        return one()
    size = rng.choice((0, 1, 2, 3)) if shape.entity is not None else rng.choice((0, 1, 3, 20, 130))
    if shape.kafka_type == "string":
        size = min(size, 3)
    return tuple(one() for _ in range(size))


def random_entity(rng: random.Random, entity_class: Any) -> Any:
    return entity_class(**{shape.name: _random_field(rng, shape) for shape in shapes(entity_class)})


def kio_bytes(entity: Any) -> bytes:
    """The entity as kio itself writes it: the oracle."""
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def request_head(
    api_key: int, api_version: int, correlation_id: int = 7, client_id: str | None = "c"
) -> bytes:
    """A request header as kio writes it."""
    version = 2 if is_flexible(api_key, api_version) else 1
    header = import_module(f"kio.schema.request_header.v{version}.header").RequestHeader
    return kio_bytes(
        header(
            request_api_key=api_key,
            request_api_version=api_version,
            correlation_id=correlation_id,
            client_id=client_id,
        )
    )


def random_request(rng: random.Random, api_key: int, api_version: int) -> tuple[Any, bytes]:
    """Make a random request: kio's entity, and its frame without the length prefix."""
    entity = random_entity(rng, request_class(api_key, api_version))
    return entity, request_head(api_key, api_version) + kio_bytes(entity)


def opened(frame: bytes) -> tuple[Header, bytes, int]:
    """The arguments of `decode` for a frame."""
    header, body_offset = parse_header(frame)
    return header, frame, body_offset
