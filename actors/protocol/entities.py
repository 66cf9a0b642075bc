"""Kafka's messages as kio's classes, read and written by functions compiled from those classes.

kio gives the schemas, and `schema_classes` makes classes like kio's where kio has none. kio's own reader is
not used on bytes from a socket, because it reserves memory for as many array elements as the frame claims and
ends the whole process when that fails (six bytes suffice). Its writer is correct and slow: it is the oracle
in the tests. Classes are imported when an API and version is first used: all of them at once would cost
seconds and memory that most actors never need.

Values are kio's: times are `datetime.timedelta`, a topic id of zeros is None, error codes are ErrorCode.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

from actors.protocol import api_keys, entity_reading, entity_writing
from actors.protocol.entity_schema import NO_TIME, field_names
from actors.protocol.errors import MalformedRequest, UnsupportedRequest
from actors.protocol.header import Header
from actors.protocol.schema_classes import EXTENDED, Kind, classes, kept_versions, made_classes
from actors.protocol.wire import CUT_SHORT

ERROR_MESSAGE_CHARACTERS_MAX: Final = 8_000
"""How many characters of an error message are sent: a string has at most 32,767 bytes, and messages repeat
names that have as many."""
_SUFFIX: Final = {"request": "Request", "response": "Response"}


def _module(api_key: int, api_version: int, kind: Kind) -> Any:
    name = api_keys.NAMES.get(api_key)
    if name is None:
        raise UnsupportedRequest(f"API {api_key} version {api_version}")
    return classes(name, api_version, kind)


@cache
def nested(api_key: int, api_version: int, name: str, kind: Kind = "response") -> Any:
    """Return kio's class `name` of an API and version, such as `MetadataResponseTopic`."""
    return getattr(_module(api_key, api_version, kind), name)


def _top(api_key: int, api_version: int, kind: Kind) -> Any:
    module = _module(api_key, api_version, kind)
    return getattr(module, api_keys.SCHEMA_NAMES[api_key] + _SUFFIX[kind])


@cache
def request_class(api_key: int, api_version: int) -> Any:
    """Return kio's request class. Raises UnsupportedRequest for an API or version that is not known."""
    return _top(api_key, api_version, "request")


@cache
def response_class(api_key: int, api_version: int) -> Any:
    """Return kio's response class. Raises UnsupportedRequest for an API or version that is not known."""
    return _top(api_key, api_version, "response")


def build(entity_class: Any, **fields: Any) -> Any:
    """Return an entity of the class, made from those `fields` that its version has, so that one call serves
    all versions.

    `throttle_time` may be left out: the tier never throttles. Any other field that the class has and that
    has no default must be given (TypeError). An error message is cut to what every version has room for.
    """
    names = field_names(entity_class)
    known = {name: value for name, value in fields.items() if name in names}
    if "throttle_time" in names:
        known.setdefault("throttle_time", NO_TIME)
    message = known.get("error_message")
    if message is not None:
        known["error_message"] = message[:ERROR_MESSAGE_CHARACTERS_MAX]
    return entity_class(**known)


@cache
def _request_reader(api_key: int, api_version: int) -> Callable[[bytes, int], tuple[Any, int]]:
    return entity_reading.entity_reader(request_class(api_key, api_version))


@cache
def _extended_reader(api_key: int, api_version: int) -> Callable[[bytes, int], tuple[Any, int]]:
    name = api_keys.NAMES.get(api_key, "")
    if name not in EXTENDED or api_version not in kept_versions(name):
        return _request_reader(api_key, api_version)
    made = made_classes(name, api_version, "request")
    return entity_reading.entity_reader(getattr(made, api_keys.SCHEMA_NAMES[api_key] + _SUFFIX["request"]))


def decode_entity(header: Header, frame: bytes, body_offset: int) -> Any:
    """Return the request as kio's entity; bytes behind its end are accepted (W13).

    Raises UnsupportedRequest for an API or version that is not known, MalformedRequest for all else.
    """
    return _read(_request_reader(header.api_key, header.api_version), frame, body_offset)


def decode_extended(header: Header, frame: bytes, body_offset: int) -> Any:
    """Return the request as `decode_entity` does, with the tagged fields of our own if it may have any."""
    return _read(_extended_reader(header.api_key, header.api_version), frame, body_offset)


def _read(read: Callable[[bytes, int], tuple[Any, int]], frame: bytes, body_offset: int) -> Any:
    try:
        entity, _ = read(frame, body_offset)
    except CUT_SHORT as error:
        raise MalformedRequest("a frame that ends inside its body") from error
    return entity


@cache
def is_flexible(api_key: int, api_version: int) -> bool:
    """Whether requests of this API and version have compact fields and tags (KIP-482)."""
    flexible: bool = request_class(api_key, api_version).__flexible__
    return flexible


@cache
def has_flexible_response_header(api_key: int, api_version: int) -> bool:
    """Whether the answer's header has tags (version 1) or none (version 0).

    ApiVersions always answers with version 0, so that a client can read the refusal of a version that it
    guessed (KIP-511).
    """
    flexible: bool = response_class(api_key, api_version).__header_schema__.__flexible__
    return flexible


@cache
def _request_writer(api_key: int, api_version: int) -> entity_writing.Writer:
    return entity_writing.entity_writer(request_class(api_key, api_version))


def encode_request(header: Header, entity: Any) -> bytes:
    """Return the whole frame of a request that one node makes of another, length prefix included."""
    client_id = (header.client_id or "").encode()
    pieces = [
        b"",
        header.api_key.to_bytes(2, "big"),
        header.api_version.to_bytes(2, "big"),
        header.correlation_id.to_bytes(4, "big", signed=True),
        len(client_id).to_bytes(2, "big"),
        client_id,
    ]
    if is_flexible(header.api_key, header.api_version):
        pieces.append(b"\0")
    _request_writer(header.api_key, header.api_version)(pieces.append, entity)
    pieces[0] = sum(map(len, pieces)).to_bytes(4, "big")
    return b"".join(pieces)


@cache
def _response_reader(api_key: int, api_version: int) -> Callable[[bytes, int], tuple[Any, int]]:
    return entity_reading.entity_reader(response_class(api_key, api_version))


def decode_response(header: Header, frame: bytes) -> Any:
    """Return the answer to the request of this header as kio's entity. `frame` has its length prefix. Raises
    MalformedRequest."""
    body_offset = 8 + has_flexible_response_header(header.api_key, header.api_version)
    try:
        entity, _ = _response_reader(header.api_key, header.api_version)(frame, body_offset)
    except CUT_SHORT as error:
        raise MalformedRequest("an answer that ends inside its body") from error
    return entity


@cache
def _response_writer(api_key: int, api_version: int) -> tuple[bool, entity_writing.Writer]:
    write = entity_writing.entity_writer(response_class(api_key, api_version))
    return has_flexible_response_header(api_key, api_version), write


def encode_entity(api_key: int, api_version: int, correlation_id: int, entity: Any) -> bytes:
    """Return the whole frame of an answer: length prefix, response header, body."""
    flexible_header, write = _response_writer(api_key, api_version)
    pieces = [b"", correlation_id.to_bytes(4, "big", signed=True)]
    if flexible_header:
        pieces.append(b"\0")
    write(pieces.append, entity)
    pieces[0] = sum(map(len, pieces)).to_bytes(4, "big")
    return b"".join(pieces)
