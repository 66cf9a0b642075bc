"""Decode group requests from bytes and encode group answers, for the coordinator's connections.

Hot requests and answers take the hand-written paths that their rows name; all others are read and written by
kio's schemas. What the broker's own APIs need of `entities` and `api_versions` is named here too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from actors.catalog.api_versions import api_versions_answer, client_software
from actors.catalog.table import COORDINATED, coordinated
from actors.protocol.entities import (
    build,
    decode_entity,
    decode_extended,
    decode_response,
    encode_entity,
    encode_request,
    nested,
    request_class,
    response_class,
)
from actors.protocol.errors import UnsupportedRequest
from actors.protocol.header import Header
from actors.protocol.hot_requests import UNUSUAL
from actors.protocol.messages import GroupRequest

__all__ = [
    "api_versions_answer",
    "build",
    "client_software",
    "decode",
    "decode_by_schema",
    "decode_entity",
    "decode_response",
    "encode",
    "encode_entity",
    "encode_request",
    "nested",
    "request_class",
    "response_class",
]


def _by_version(rows: Iterable[tuple[int, Iterable[tuple[int, int, Any]]]]) -> dict[int, Any]:
    """Return the functions by `api key << 16 | version`, which is one dict key: requests are looked up by
    it."""
    return {
        api_key << 16 | api_version: function
        for api_key, hot in rows
        for first, last, function in hot
        for api_version in range(first, last + 1)
    }


HOT_REQUESTS: Final[dict[int, Callable[[bytes, int], GroupRequest]]] = _by_version(
    (key, row.hot_requests) for key, row in COORDINATED.items()
)
HOT_ANSWERS: Final[dict[int, Callable[[int, Any], bytes]]] = _by_version(
    (key, row.hot_answers) for key, row in COORDINATED.items()
)


def decode_by_schema(header: Header, frame: bytes, body_offset: int) -> GroupRequest:
    """Return the request in a frame, as `decode` does, without the hand-written paths."""
    request: GroupRequest = coordinated(header.api_key).decode(decode_extended(header, frame, body_offset))
    return request


def decode(header: Header, frame: bytes, body_offset: int) -> GroupRequest:
    """Return the neutral request in a frame (without its length prefix) that a coordinator answers.

    Raises MalformedRequest for bytes that are no such request, UnsupportedRequest for another API or a
    version that is not advertised, nothing else. Bytes behind the request are accepted (W13).
    """
    hot = HOT_REQUESTS.get(header[0] << 16 | header[1])
    if hot is not None:
        try:
            return hot(frame, body_offset)
        except UNUSUAL:
            pass
    return decode_by_schema(header, frame, body_offset)


def encode(api_key: int, api_version: int, correlation_id: int, body: Any) -> bytes:
    """Return the whole frame of a group API's answer: length prefix, response header, body.

    Raises UnsupportedRequest for an API that is no group API or a version that is not advertised.
    """
    hot = HOT_ANSWERS.get(api_key << 16 | api_version)
    if hot is not None:
        return hot(correlation_id, body)
    to_entity = coordinated(api_key).encode
    if to_entity is None:
        raise UnsupportedRequest(f"API {api_key} version {api_version}")
    return encode_entity(api_key, api_version, correlation_id, to_entity(api_version, body))
