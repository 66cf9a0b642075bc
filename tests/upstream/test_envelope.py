"""A client's request in an envelope for the controller, byte by byte as Kafka writes and reads it."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.ground.identity import ClientIdentity
from actors.network.wire import frame_of, message_class, request_frame
from actors.upstream.envelope import enveloped, opened, principal_bytes

ALICE = ClientIdentity("/10.0.0.7", "10.0.0.7:5", principal="User:alice")


@pytest.mark.parametrize(
    ("principal", "written"),
    [
        ("User:alice", b"\0\0\x05User\x06alice\0\0"),
        ("User:CN=a,O=b:c", b"\0\0\x05User\x0bCN=a,O=b:c\0\0"),
        ("User:" + "ä" * 100, b"\0\0\x05User\xc9\x01" + "ä".encode() * 100 + b"\0\0"),
    ],
)
def test_a_principal_in_kafkas_bytes(principal: str, written: bytes) -> None:
    """A version of two bytes, compact strings, no token, no tags."""
    assert principal_bytes(principal) == written


@pytest.mark.parametrize(
    ("host", "written"), [("/10.0.0.7", b"\x0a\0\0\x07"), ("/0:0:0:0:0:0:0:1", b"\0" * 15 + b"\x01")]
)
def test_an_envelope_has_the_request_who_made_it_and_from_where(host: str, written: bytes) -> None:
    asked = request_frame("delete_topics", 4, 77, "client", {"topic_names": ("a",), "timeout": 1_000})[4:]
    envelope = enveloped(asked, ALICE._replace(client_host=host), "groupd")
    assert envelope[:2] == (58).to_bytes(2, "big")
    assert envelope[4:8] == (77).to_bytes(4, "big"), "the answer is known by the request's own id"
    principal = principal_bytes("User:alice")
    parts = (asked, principal, written)
    assert envelope.endswith(b"".join(bytes([len(part) + 1]) + part for part in parts) + b"\0")


def test_what_comes_back() -> None:
    cls = message_class("envelope", 0, "response")
    answered = frame_of(cls, 77, "", {"response_data": b"answer", "error_code": ErrorCode.none})
    assert opened(answered) == (ErrorCode.none, b"answer")
    refused = frame_of(cls, 77, "", {"response_data": None, "error_code": ErrorCode.not_controller})
    assert opened(refused) == (ErrorCode.not_controller, None)
