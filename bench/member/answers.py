"""What the answers to members' requests say: the reverse of `requests`, in the same versions.

Answers begin with the correlation id.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final

from kio.schema.errors import ErrorCode

from actors.coordinator.ground import partitions
from actors.coordinator.ground.partitions import PARTITION_BYTES
from actors.ground.records import TopicPartitions
from actors.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from actors.protocol.wire import read_compact_length, read_int16_length, read_int32_length
from bench.member.member import Asked, Told
from bench.member.requests import NAMED_FROM
from storage.history.calls import Offset

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_COMMITTED: Final = struct.Struct(">iqi")
"""The fields of a committed offset: partition, offset, leader epoch."""
_PLAIN_AT: Final = 8
"""Where the error stands behind correlation id and throttle time."""
_FLEXIBLE_AT: Final = 9
"""Where the error stands in an answer that has tags behind the correlation id."""
_UNSUPPORTED_VERSION: Final = _INT16.pack(35)
TOPIC_ID_BYTES: Final = 16
_EPOCH: Final = struct.Struct(">iib")
"""The fields after the member id: member epoch, heartbeat interval, whether there is an assignment."""
_ERRORS: Final[Mapping[int, ErrorCode]] = {int(code): code for code in ErrorCode}


def is_unsupported(answer: bytes) -> bool:
    """Whether a broker does not know the version of ApiVersions that it was asked in, and answers in 0."""
    return answer[4:6] == _UNSUPPORTED_VERSION


def offered_apis(answer: bytes, version: int = 0) -> dict[int, tuple[int, int]]:
    """Read the answer to ApiVersions: the first and last version of each API. Raises ValueError if it is no
    such answer."""
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


def answer_to(asked: Asked, answer: bytes) -> Told:
    """Read the answer to one of a member's requests."""
    return _READERS[type(asked)](answer)


def joined(answer: bytes) -> JoinGroupResponse:
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
    return JoinGroupResponse(
        _error(error_code), generation_id, None, protocol, leader, False, member_id, tuple(members)
    )


def synced(answer: bytes) -> SyncGroupResponse:
    size, at = read_int32_length(answer, _PLAIN_AT + 2)
    return SyncGroupResponse(_error(plain_error(answer)), assignment=answer[at : at + max(size, 0)])


def beaten(answer: bytes) -> HeartbeatResponse:
    return HeartbeatResponse(_error(plain_error(answer)))


def plain_error(answer: bytes) -> int:
    """Read the error of an answer that is not flexible and begins with throttle time and error code."""
    return int(_INT16.unpack_from(answer, _PLAIN_AT)[0])


def left(answer: bytes) -> int:
    """Read the error of an answer to LeaveGroup: its own, else that of its last member, which is the last
    field."""
    return plain_error(answer) or int(_INT16.unpack_from(answer, len(answer) - 2)[0])


def consumer_beaten(answer: bytes) -> ConsumerGroupHeartbeatResponse:
    """Read the answer to ConsumerGroupHeartbeat. Topics and partitions of the assignment are put in order,
    which Kafka does not promise."""
    (error_code,) = _INT16.unpack_from(answer, _FLEXIBLE_AT)
    at = _FLEXIBLE_AT + 2
    for _ in ("error message", "member id"):
        size, at = read_compact_length(answer, at)
        at += max(size, 0)
    epoch, interval_ms, is_there = _EPOCH.unpack_from(answer, at)
    assignment = _assignment(answer, at + _EPOCH.size) if is_there >= 0 else None
    return ConsumerGroupHeartbeatResponse(_error(error_code), None, None, epoch, interval_ms, assignment)


def _assignment(answer: bytes, at: int) -> TopicPartitions:
    topics = {}
    count, at = read_compact_length(answer, at)
    for _ in range(count):
        topic_id, at = answer[at : at + TOPIC_ID_BYTES], at + TOPIC_ID_BYTES
        size, at = read_compact_length(answer, at)
        topics[topic_id] = struct.unpack_from(f">{size}i", answer, at)
        at += PARTITION_BYTES * size + 1
    return partitions.from_lists(topics)


def commit_errors(answer: bytes) -> dict[tuple[str, int], int]:
    """Read the answer to OffsetCommit: the error of each partition."""
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
    """Read the answer to OffsetFetch: the group's error and the partitions' offsets."""
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


def _error(code: int) -> ErrorCode:
    """The error of a code; one that Kafka does not have is an unknown error."""
    return _ERRORS.get(code, ErrorCode.unknown_server_error)


_READERS: Final[Mapping[type[Asked], Callable[[bytes], Told]]] = {
    JoinGroupRequest: joined,
    SyncGroupRequest: synced,
    HeartbeatRequest: beaten,
    ConsumerGroupHeartbeatRequest: consumer_beaten,
}
