"""What a command asks of a running tier over its clients' port, and what it is told, as bytes.

It is one request of our own beside Kafka's: so a tier can be asked from any machine, by whoever its users and
ACLs allow, whether Ray answers or not. Its number is far outside the range of Kafka's APIs, and ApiVersions
does not tell of it: Kafka hangs up on whoever sends it.

A request asks several actors at once. Header version 1 and 0, as Kafka's oldest APIs have; the body is packed
by msgpack, which makes nothing but plain values.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgpack

from actors.protocol.errors import MalformedRequest

TIER_QUESTIONS: Final = 31_000
"""The number of the API."""
VERSION: Final = 0
FORMAT: Final = 1
"""The format that stands before the body of every request and answer."""
QUESTIONS_MAX: Final = 1_000
"""How many actors one request may ask."""
REQUEST_BYTES_MAX: Final = 1024 * 1024
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
TIMEOUT_MS_MAX: Final = 120_000
"""How long an actor may be waited for, which is what a copy of millions of records takes."""
TIER: Final = ""
"""Whom a question is for that the broker answers itself: ABOUT."""
ABOUT: Final = "about"
"""The question which tier this is, where its actors are, and which machines answer."""

ONCE: Final = frozenset({"submit", "replace_replica", "move_leadership", "begin_copy", "split_partitions"})
"""The methods that are not asked for again when nobody knows whether they were carried out."""

NOT_ALLOWED: Final = "not allowed"
BUSY: Final = "busy"
UNREADABLE: Final = "unreadable"
"""Why a request is refused as a whole; "" stands for: it is not."""

_PREFIX: Final = struct.Struct(">ihhih")
_ANSWER_PREFIX: Final = struct.Struct(">ii")
_LENGTH_BYTES: Final = 4
_HEADER_BYTES: Final = _PREFIX.size - _LENGTH_BYTES


class Question(NamedTuple):
    """A call of a method of an actor."""

    actor: str
    method: str
    args: tuple[Any, ...]
    timeout_ms: int


class Told(NamedTuple):
    """The answer to a request."""

    refused: str
    """Why nothing was asked: NOT_ALLOWED, BUSY or UNREADABLE; "": the answers are there."""
    words: str
    """What there is to say about the refusal."""
    answers: tuple[tuple[str, Any], ...] = ()
    """An answer for each question, as `actors.machines.link` has them."""


def pack_request(correlation_id: int, client_id: str, questions: Sequence[Question]) -> bytes:
    """Return the whole frame of a request, length prefix included. Raises ValueError if it is too large, or
    if an argument is no plain value."""
    name = client_id.encode()
    try:
        body: bytes = msgpack.packb((FORMAT, [tuple(each) for each in questions]))
    except TypeError as error:
        raise ValueError(str(error)) from None
    if len(body) > REQUEST_BYTES_MAX:
        raise ValueError(f"{len(body)} bytes are more than a question may have ({REQUEST_BYTES_MAX})")
    length = _HEADER_BYTES + len(name) + len(body)
    return _PREFIX.pack(length, TIER_QUESTIONS, VERSION, correlation_id, len(name)) + name + body


def unpack_request(body: bytes) -> list[Question]:
    """Return the questions of a request's body. Raises MalformedRequest."""
    if len(body) > REQUEST_BYTES_MAX:
        raise MalformedRequest(f"questions of {len(body)} bytes")
    format_version, rows = _unpacked(body)
    if format_version != FORMAT:
        raise MalformedRequest(f"questions of format {format_version!r}")
    if not isinstance(rows, tuple) or not 1 <= len(rows) <= QUESTIONS_MAX:
        raise MalformedRequest(f"not 1 to {QUESTIONS_MAX} questions")
    return [_question(row) for row in rows]


def _question(row: Any) -> Question:
    shape = (str, str, tuple, int)
    if not isinstance(row, tuple) or len(row) != len(shape) or not all(map(isinstance, row, shape)):
        raise MalformedRequest(f"no question: {row!r:.100}")
    question = Question(*row)
    return question._replace(timeout_ms=min(max(question.timeout_ms, 1), TIMEOUT_MS_MAX))


def pack_answer(correlation_id: int, told: Told) -> bytes:
    """Return the whole frame of an answer, length prefix included. Raises ValueError if it is too large or no
    plain value."""
    try:
        body: bytes = msgpack.packb((FORMAT, told.refused, told.words, told.answers))
    except TypeError as error:
        raise ValueError(str(error)) from None
    if len(body) > ANSWER_BYTES_MAX:
        raise ValueError(f"an answer of {len(body)} bytes ({ANSWER_BYTES_MAX} are allowed)")
    return _ANSWER_PREFIX.pack(len(body) + _LENGTH_BYTES, correlation_id) + body


def unpack_answer(frame: bytes) -> Told:
    """Return what an answer (without its length prefix) says. Raises MalformedRequest."""
    format_version, *fields = _unpacked(frame[_LENGTH_BYTES:])
    if format_version != FORMAT or len(fields) != len(Told._fields):
        raise MalformedRequest(f"an answer of format {format_version!r}")
    return Told(*fields)


def _unpacked(body: bytes) -> tuple[Any, ...]:
    try:
        # Metrics and statuses have numbers as keys.
        unpacked = msgpack.unpackb(body, use_list=False, strict_map_key=False)
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        raise MalformedRequest(f"no msgpack: {error!r}") from None
    if not isinstance(unpacked, tuple) or len(unpacked) < 2:
        raise MalformedRequest("no request or answer of ours")
    return unpacked
