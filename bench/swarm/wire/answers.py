"""What the answers to members' requests say: the reverse of `requests`, in the same versions.

Answers begin with the correlation id.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from actors.protocol.wire import read_compact_length, read_int16_length, read_int32_length
from bench.swarm.wire.requests import NAMED_FROM
from storage.history.calls import Offset

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_COMMITTED: Final = struct.Struct(">iqi")
"""Partition, offset, leader epoch."""
_PLAIN_AT: Final = 8
"""Where the error stands behind correlation id and throttle time."""
_FLEXIBLE_AT: Final = 9
"""The same with tags behind the correlation id."""
_UNSUPPORTED_VERSION: Final = _INT16.pack(35)
TOPIC_ID_BYTES: Final = 16


class Joined(NamedTuple):
    """Of JoinGroup."""

    error_code: int
    generation_id: int
    protocol: str
    leader: str
    member_id: str
    members: tuple[tuple[str, str | None, bytes], ...]
    """(member id, instance id, metadata), for the leader."""


class Beat(NamedTuple):
    """Of ConsumerGroupHeartbeat."""

    error_code: int
    member_epoch: int
    interval_ms: int
    assigned: tuple[tuple[bytes, tuple[int, ...]], ...] | None
    """By topic id; None: as before."""


def is_unsupported(answer: bytes) -> bool:
    """Of ApiVersions: the broker does not know the version, and answers in version 0."""
    return answer[4:6] == _UNSUPPORTED_VERSION


def offered_apis(answer: bytes, version: int = 0) -> dict[int, tuple[int, int]]:
    """Of ApiVersions: the first and last version of each API. ValueError: it is no such answer."""
    try:
        if version < NAMED_FROM:
            (count,) = _INT32.unpack_from(answer, 6)
            rows = struct.iter_unpack(">hhh", answer[10 : 10 + 6 * count])
        else:
            count, at = read_compact_length(answer, 6)
            rows = struct.iter_unpack(">hhhx", answer[at : at + 7 * count])
        return {key: (first, last) for key, first, last in rows}
    except (struct.error, IndexError) as error:
        raise ValueError("no answer to ApiVersions") from error


def joined(answer: bytes) -> Joined:
    """Of JoinGroup."""
    error_code, generation_id = struct.unpack_from(">hi", answer, _PLAIN_AT)
    at = _PLAIN_AT + 6
    protocol, at = _string(answer, at)
    leader, at = _string(answer, at)
    member_id, at = _string(answer, at)
    count, at = read_int32_length(answer, at)
    members = []
    for _ in range(count):
        name, at = _string(answer, at)
        instance_id, at = _nullable_string(answer, at)
        metadata_bytes, at = read_int32_length(answer, at)
        members.append((name, instance_id, answer[at : at + metadata_bytes]))
        at += max(metadata_bytes, 0)
    return Joined(error_code, generation_id, protocol, leader, member_id, tuple(members))


def synced(answer: bytes) -> tuple[int, bytes]:
    """Of SyncGroup: error code, assignment."""
    size, at = read_int32_length(answer, _PLAIN_AT + 2)
    return plain_error(answer), answer[at : at + max(size, 0)]


def plain_error(answer: bytes) -> int:
    """Of an answer that is not flexible and begins with throttle time and error code."""
    return int(_INT16.unpack_from(answer, _PLAIN_AT)[0])


def left(answer: bytes) -> int:
    """Of LeaveGroup: its own error, else its member's, which is the last field."""
    return plain_error(answer) or int(_INT16.unpack_from(answer, len(answer) - 2)[0])


def beat(answer: bytes) -> Beat:
    """Of ConsumerGroupHeartbeat."""
    (error_code,) = _INT16.unpack_from(answer, _FLEXIBLE_AT)
    at = _FLEXIBLE_AT + 2
    for _ in ("error message", "member id"):
        size, at = read_compact_length(answer, at)
        at += max(size, 0)
    member_epoch, interval_ms, is_there = struct.unpack_from(">iib", answer, at)
    if is_there < 0:
        return Beat(error_code, member_epoch, interval_ms, None)
    topics = []
    count, at = read_compact_length(answer, at + 9)
    for _ in range(count):
        topic_id, at = answer[at : at + TOPIC_ID_BYTES], at + TOPIC_ID_BYTES
        size, at = read_compact_length(answer, at)
        topics.append((topic_id, struct.unpack_from(f">{size}i", answer, at)))
        at += 4 * size + 1
    return Beat(error_code, member_epoch, interval_ms, tuple(topics))


def commit_errors(answer: bytes) -> dict[tuple[str, int], int]:
    """Of OffsetCommit: the error of each partition."""
    errors = {}
    count, at = read_compact_length(answer, _FLEXIBLE_AT)
    for _ in range(count):
        topic, at = _compact(answer, at)
        size, at = read_compact_length(answer, at)
        for _ in range(size):
            partition, error_code = struct.unpack_from(">ih", answer, at)
            errors[topic, partition] = error_code
            at += 7
        at += 1
    return errors


def fetched(answer: bytes) -> tuple[int, tuple[Offset, ...]]:
    """Of OffsetFetch: the group's error, the partitions' offsets."""
    offsets = []
    at = _FLEXIBLE_AT + 1  # the one group
    _, at = _compact(answer, at)
    count, at = read_compact_length(answer, at)
    for _ in range(count):
        topic, at = _compact(answer, at)
        size, at = read_compact_length(answer, at)
        for _ in range(size):
            partition, offset, _ = _COMMITTED.unpack_from(answer, at)
            metadata_bytes, at = read_compact_length(answer, at + _COMMITTED.size)
            at += max(metadata_bytes, 0)
            offsets.append(Offset(topic, partition, offset, _INT16.unpack_from(answer, at)[0]))
            at += 3
        at += 1
    return int(_INT16.unpack_from(answer, at)[0]), tuple(offsets)


def _string(answer: bytes, at: int) -> tuple[str, int]:
    text, at = _nullable_string(answer, at)
    return text or "", at


def _nullable_string(answer: bytes, at: int) -> tuple[str | None, int]:
    size, at = read_int16_length(answer, at)
    return (None, at) if size < 0 else (answer[at : at + size].decode(), at + size)


def _compact(answer: bytes, at: int) -> tuple[str, int]:
    size, at = read_compact_length(answer, at)
    end = at + max(size, 0)
    return answer[at:end].decode(), end
