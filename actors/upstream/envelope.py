"""What the active controller is sent so that it carries out a request as the client who made it: Envelope
(KIP-590). PURE.

Only controllers take envelopes, from whoever may act as a broker. The client's principal is written as
Kafka's own principal builder writes it (`DefaultKafkaPrincipalBuilder`).
"""

from __future__ import annotations

import ipaddress
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from actors.ground.identity import ClientIdentity
from actors.network.wire import parse_answer, request_frame
from actors.protocol.wire import compact_bytes

API: Final = "envelope"
VERSION: Final = 0
PRINCIPAL_VERSION: Final = 0
_NO_TOKEN: Final = b"\0"
"""The client has not logged in by a delegation token."""
_NO_TAGS: Final = b"\0"
_LENGTH_BYTES: Final = 4
_CORRELATION_ID: Final = slice(4, 8)


class Opened(NamedTuple):
    """What came back."""

    error_code: ErrorCode
    """What is wrong with the envelope itself."""
    answer: bytes | None
    """The answer to the client's request, without its length."""


def principal_bytes(principal: str) -> bytes:
    """Return a principal, such as "User:alice", in Kafka's bytes: a version, then a message of this version
    (DefaultPrincipalData)."""
    kind, _, name = principal.partition(":")
    texts = (compact_bytes(text.encode()) for text in (kind, name))
    return b"".join((PRINCIPAL_VERSION.to_bytes(2, "big"), *texts, _NO_TOKEN, _NO_TAGS))


def enveloped(frame: bytes, identity: ClientIdentity, client_id: str) -> bytes:
    """Return an envelope with a client's request, both without their length. Whoever carries it finds the
    correlation id of the request in its place."""
    correlation_id = int.from_bytes(frame[_CORRELATION_ID], "big", signed=True)
    fields = {
        "request_data": frame,
        "request_principal": principal_bytes(identity.principal),
        "client_host_address": ipaddress.ip_address(identity.address).packed,
    }
    return request_frame(API, VERSION, correlation_id, client_id, fields)[_LENGTH_BYTES:]


def opened(answer: bytes) -> Opened:
    """Return what is in the answer to an envelope, given with its length. Raises DecodeError."""
    _, fields = parse_answer(API, VERSION, answer[_LENGTH_BYTES:])
    return Opened(ErrorCode(fields["error_code"]), fields["response_data"])
