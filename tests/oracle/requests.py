"""Requests from keyword arguments: what is not given has a plain default, any version of each API."""

from __future__ import annotations

import dataclasses
import datetime
import io
from collections.abc import Mapping
from functools import cache
from typing import Any

from kio.serial import entity_writer
from kio.static.primitive import i32Timedelta, i64Timedelta

from actors.network.wire import message_class
from actors.protocol.entity_schema import FieldShape, shapes
from actors.protocol.schema_classes import known_versions

ZEROS: Mapping[str, Any] = {"string": "", "bytes": b"", "records": b"", "bool": False, "uuid": None}
"""The zero value of each of Kafka's types; types that are not here are numbers, whose zero value is 0."""
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "join_group": {
        "session_timeout": 30_000,
        "rebalance_timeout": 30_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"\0\1\0\0\0\0\0\0\0\0\0\0\0\0"}],
    },
    "sync_group": {"protocol_type": "consumer", "protocol_name": "range"},
    "offset_commit": {"generation_id_or_member_epoch": -1, "member_id": ""},
    "create_topics": {"timeout": 10_000},
    "delete_topics": {"timeout": 10_000},
    "metadata": {"topics": [], "allow_auto_topic_creation": False},
    "init_producer_id": {"transactional_id": None, "transaction_timeout": 60_000},
    "produce": {"acks": -1, "timeout": 10_000},
    "add_partitions_to_txn": {},
    "write_txn_markers": {},
}
"""Defaults of fields without one in Kafka's schemas, or where Kafka's own is of no use."""


@cache
def _names(api: str) -> frozenset[str]:
    """Every field of every version's request, nested ones too."""
    found: set[str] = set()

    def visit(entity_class: Any) -> None:
        for shape in shapes(entity_class):
            found.add(shape.name)
            if shape.entity is not None:
                visit(shape.entity)

    for version in known_versions(api):
        visit(message_class(api, version, "request"))
    return frozenset(found)


def request_entity(api: str, version: int, fields: Mapping[str, Any]) -> Any:
    """kio's entity. Durations are milliseconds, nested entities dicts.

    A field that only other versions of the API have is left out, as clients do it; TypeError for one that
    none has.
    """
    cls = message_class(api, version, "request")
    return _built(api, cls, {**DEFAULTS.get(api, {}), **fields})


def _built(api: str, cls: Any, fields: Mapping[str, Any]) -> Any:
    if unknown := set(fields) - _names(api):
        raise TypeError(f"{api} has no field {sorted(unknown)} in any version; it has {sorted(_names(api))}")
    return cls(**{shape.name: _value(api, cls, shape, fields) for shape in shapes(cls)})


def _value(api: str, cls: Any, shape: FieldShape, fields: Mapping[str, Any]) -> Any:
    if shape.name not in fields:
        return _default(cls, shape)
    value = fields[shape.name]
    if value is None:
        return None
    if shape.is_array:
        return tuple(_one(api, shape, element) for element in value)
    return _one(api, shape, value)


def _one(api: str, shape: FieldShape, value: Any) -> Any:
    if shape.entity is not None:
        return _built(api, shape.entity, value)
    return _duration(shape.kafka_type, value)


def _duration(kafka_type: str, value: Any) -> Any:
    kind: Any = {"timedelta_i32": i32Timedelta, "timedelta_i64": i64Timedelta}.get(kafka_type)
    return value if kind is None else kind.parse(datetime.timedelta(milliseconds=value))


def _default(cls: Any, shape: FieldShape) -> Any:
    field = cls.__dataclass_fields__[shape.name]
    if field.default is not dataclasses.MISSING:
        return field.default
    if shape.nullable:
        return None
    if shape.is_array:
        return ()
    if shape.entity is not None:
        return shape.entity(**{inner.name: _default(shape.entity, inner) for inner in shapes(shape.entity)})
    return _duration(shape.kafka_type, ZEROS.get(shape.kafka_type, 0))


def body(entity: Any) -> bytes:
    """Return the bytes of a request that follow its header."""
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def header(api: str, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """The request header that this version of the API has."""
    cls = message_class(api, version, "request").__header_schema__
    given = {
        "request_api_key": message_class(api, version, "request").__api_key__,
        "request_api_version": version,
        "correlation_id": correlation_id,
        "client_id": client_id,
    }
    known = {shape.name for shape in shapes(cls)}
    return body(cls(**{name: value for name, value in given.items() if name in known}))
