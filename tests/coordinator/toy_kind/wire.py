"""The requests and answers of rosters, in Kafka's compact types: which member signs a roster, and which are
on it."""

from __future__ import annotations

from typing import NamedTuple

from actors.protocol.wire import (
    array_reader,
    compact_count,
    compact_string,
    read_uvarint,
    string_reader,
    uvarint,
)

SIGN_ROSTER = 1_000
DESCRIBE_ROSTER = 1_001

_string = string_reader(True, False)
_strings = array_reader(_string, True, False)


class SignRosterRequest(NamedTuple):
    group_id: str
    name: str
    session_ms: int


class SignRosterResponse(NamedTuple):
    error_code: int
    members: int = 0


class DescribeRosterRequest(NamedTuple):
    group_id: str


class DescribeRosterResponse(NamedTuple):
    error_code: int
    names: tuple[str, ...] = ()


def written_sign(body: SignRosterRequest) -> bytes:
    return compact_string(body.group_id) + compact_string(body.name) + uvarint(body.session_ms)


def read_sign(frame: bytes) -> SignRosterRequest:
    group_id, at = _string(frame, 0)
    name, at = _string(frame, at)
    session_ms, _ = read_uvarint(frame, at)
    return SignRosterRequest(group_id, name, session_ms)


def written_description(body: DescribeRosterResponse) -> bytes:
    names = b"".join(compact_string(name) for name in body.names)
    return uvarint(body.error_code) + compact_count(len(body.names)) + names


def read_description(frame: bytes) -> DescribeRosterResponse:
    error_code, at = read_uvarint(frame, 0)
    names, _ = _strings(frame, at)
    return DescribeRosterResponse(error_code, tuple(names))
