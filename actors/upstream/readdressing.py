"""Answers that name brokers, for clients that came by another listener than the one by which requests are
passed on: every listener has addresses of its own. PURE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from actors.catalog import codec
from actors.catalog.headers import parse_header
from actors.protocol.api_keys import DESCRIBE_CLUSTER, FIND_COORDINATOR, METADATA
from actors.upstream.image import Broker

NAMING: Final = frozenset({METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER})
"""The APIs whose answers say where brokers are."""
BATCHED: Final = 4
"""The version of FindCoordinator from which on it names several coordinators."""


def readdressed(frame: bytes, answer: bytes, brokers: Mapping[int, Broker], listener: str) -> bytes:
    """Return the answer to a request (a frame without its length), given and returned with its length, with
    the addresses that brokers have at a listener. Those that have none there are left out."""
    header, _ = parse_header(frame)
    if header.api_key not in NAMING:
        return answer
    told = codec.decode_response(header, answer)
    if header.api_key == FIND_COORDINATOR:
        if header.api_version >= BATCHED:
            rows = tuple(_at(row, "node_id", brokers, listener) or row for row in told.coordinators)
            changed = replace(told, coordinators=rows)
        else:
            changed = _at(told, "node_id", brokers, listener) or told
    else:
        named = "broker_id" if header.api_key == DESCRIBE_CLUSTER else "node_id"
        found = (_at(row, named, brokers, listener) for row in told.brokers)
        changed = replace(told, brokers=tuple(row for row in found if row is not None))
    return codec.encode_entity(header.api_key, header.api_version, header.correlation_id, changed)


def _at(row: Any, named: str, brokers: Mapping[int, Broker], listener: str) -> Any | None:
    """Return a row that names a broker with the address of a listener; None if there is none."""
    broker = brokers.get(getattr(row, named))
    address = None if broker is None else broker.address(listener)
    return None if address is None else replace(row, host=address[0], port=address[1])
