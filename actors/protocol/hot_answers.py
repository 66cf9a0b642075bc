"""Pack the answers that leave all the time by hand: whole frames, length prefix and header included.

A schema-driven writer costs several microseconds for the smallest answer; a heartbeat's whole budget is 12.
Each function serves a range of versions that differ in at most a few fields. The tier never throttles, so
`throttle_time_ms` is a constant zero.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final

from actors.ground.records import TopicPartitions
from actors.protocol.client_assignor_codec import tags
from actors.protocol.messages import (
    ConsumerGroupHeartbeatResponse,
    HeartbeatResponse,
    JoinGroupResponse,
    SyncGroupResponse,
)
from actors.protocol.wire import (
    compact_bytes,
    compact_string,
    legacy_bytes,
    legacy_string,
    uvarint,
)

_INT32: Final = struct.Struct(">i")
_INT16: Final = struct.Struct(">h")
NO_THROTTLE: Final = b"\0\0\0\0"
NO_TAGS: Final = b"\0"
GENERATIONS_KEPT: Final = 16
"""How many generations are remembered with what their answers have in common, which leave one after the
other."""

_FRAME: Final = struct.Struct(">ii")
"""The beginning of a frame: length, correlation id."""
_FRAME_TAGS_THROTTLE: Final = struct.Struct(">iiBi")
_HEARTBEAT_FLEXIBLE: Final = struct.Struct(">iiBihB")
_HEARTBEAT_THROTTLE: Final = struct.Struct(">iiih")
_HEARTBEAT_PLAIN: Final = struct.Struct(">iih")
_CONSUMER_HEAD: Final = struct.Struct(">iiBih")
_CONSUMER_EPOCHS: Final = struct.Struct(">ii")
_CONSUMER_STEADY: Final = struct.Struct(">iibB")
_JOIN_ERROR_GENERATION: Final = struct.Struct(">hi")


def framed(correlation_id: int, pieces: list[bytes]) -> bytes:
    body = b"".join(pieces)
    return _FRAME.pack(4 + len(body), correlation_id) + body


def framed_flexible(correlation_id: int, pieces: list[bytes]) -> bytes:
    """Return the frame of a flexible version, all of which begin with the throttle time."""
    body = b"".join(pieces)
    return _FRAME_TAGS_THROTTLE.pack(9 + len(body), correlation_id, 0, 0) + body


def heartbeat_flexible(correlation_id: int, body: HeartbeatResponse) -> bytes:
    return _HEARTBEAT_FLEXIBLE.pack(12, correlation_id, 0, 0, body[0], 0)


def heartbeat_throttle(correlation_id: int, body: HeartbeatResponse) -> bytes:
    return _HEARTBEAT_THROTTLE.pack(10, correlation_id, 0, body[0])


def heartbeat_plain(correlation_id: int, body: HeartbeatResponse) -> bytes:
    return _HEARTBEAT_PLAIN.pack(6, correlation_id, body[0])


def _assignment(assignment: TopicPartitions) -> bytes:
    pieces = [b"\x01", uvarint(len(assignment) + 1)]
    for topic_id, partitions in assignment:
        pieces.append(topic_id + uvarint((len(partitions) >> 2) + 1) + partitions + NO_TAGS)
    pieces.append(b"\0\0")
    return b"".join(pieces)


def consumer_heartbeat(correlation_id: int, body: ConsumerGroupHeartbeatResponse) -> bytes:
    """Pack the answer of ConsumerGroupHeartbeat 0 or 1."""
    error_code, message, member_id, member_epoch, interval_ms, assignment, client = body
    text = compact_string(message) + compact_string(member_id)
    if assignment is None:
        tail = _CONSUMER_STEADY.pack(member_epoch, interval_ms, -1, 0)
    else:
        tail = _CONSUMER_EPOCHS.pack(member_epoch, interval_ms) + _assignment(assignment)
    if client is not None:
        tail = tail[: -len(NO_TAGS)] + tags(client)
    length = 11 + len(text) + len(tail)
    return _CONSUMER_HEAD.pack(length, correlation_id, 0, 0, error_code) + text + tail


@lru_cache(maxsize=GENERATIONS_KEPT)
def _compact_strings(*texts: str | None) -> bytes:
    """Pack what the answers to all members of a generation have in common."""
    return b"".join(map(compact_string, texts))


@lru_cache(maxsize=GENERATIONS_KEPT)
def _legacy_strings(*texts: str | None) -> bytes:
    """Pack what the answers to all members of a generation have in common."""
    return b"".join(map(legacy_string, texts))


def _join_flexible(correlation_id: int, body: JoinGroupResponse, names: bytes) -> bytes:
    pieces = [_JOIN_ERROR_GENERATION.pack(body.error_code, body.generation_id), names]
    pieces += [compact_string(body.member_id), uvarint(len(body.members) + 1)]
    for member_id, instance_id, metadata in body.members:
        pieces += (compact_string(member_id), compact_string(instance_id), compact_bytes(metadata), NO_TAGS)
    pieces.append(NO_TAGS)
    return framed_flexible(correlation_id, pieces)


def join_group_skip(correlation_id: int, body: JoinGroupResponse) -> bytes:
    """Pack the answer of JoinGroup 9."""
    names = _compact_strings(body.protocol_type, body.protocol_name, body.leader)
    return _join_flexible(correlation_id, body, names + (b"\1" if body.skip_assignment else b"\0"))


def join_group_protocol_type(correlation_id: int, body: JoinGroupResponse) -> bytes:
    """Pack the answer of JoinGroup 7 or 8."""
    names = _compact_strings(body.protocol_type, body.protocol_name, body.leader)
    return _join_flexible(correlation_id, body, names)


def join_group_flexible(correlation_id: int, body: JoinGroupResponse) -> bytes:
    """Pack the answer of JoinGroup 6, which is flexible but has no null protocol yet."""
    return _join_flexible(correlation_id, body, _compact_strings(body.protocol_name or "", body.leader))


def _join_legacy(body: JoinGroupResponse, with_instance_id: bool) -> list[bytes]:
    pieces = [
        _JOIN_ERROR_GENERATION.pack(body.error_code, body.generation_id),
        _legacy_strings(body.protocol_name or "", body.leader),
        legacy_string(body.member_id),
        _INT32.pack(len(body.members)),
    ]
    for member_id, instance_id, metadata in body.members:
        pieces.append(legacy_string(member_id))
        if with_instance_id:
            pieces.append(legacy_string(instance_id))
        pieces.append(legacy_bytes(metadata))
    return pieces


def join_group_static(correlation_id: int, body: JoinGroupResponse) -> bytes:
    """Pack the answer of JoinGroup 5."""
    return framed(correlation_id, [NO_THROTTLE, *_join_legacy(body, with_instance_id=True)])


def join_group_throttle(correlation_id: int, body: JoinGroupResponse) -> bytes:
    """Pack the answer of JoinGroup 2 to 4."""
    return framed(correlation_id, [NO_THROTTLE, *_join_legacy(body, with_instance_id=False)])


def join_group_plain(correlation_id: int, body: JoinGroupResponse) -> bytes:
    """Pack the answer of JoinGroup 0 or 1."""
    return framed(correlation_id, _join_legacy(body, with_instance_id=False))


def sync_group_protocol(correlation_id: int, body: SyncGroupResponse) -> bytes:
    """Pack the answer of SyncGroup 5."""
    pieces = [_INT16.pack(body.error_code), compact_string(body.protocol_type)]
    pieces += [compact_string(body.protocol_name), compact_bytes(body.assignment), NO_TAGS]
    return framed_flexible(correlation_id, pieces)


def sync_group_flexible(correlation_id: int, body: SyncGroupResponse) -> bytes:
    """Pack the answer of SyncGroup 4."""
    return framed_flexible(
        correlation_id, [_INT16.pack(body.error_code), compact_bytes(body.assignment), NO_TAGS]
    )


def sync_group_throttle(correlation_id: int, body: SyncGroupResponse) -> bytes:
    """Pack the answer of SyncGroup 1 to 3."""
    return framed(correlation_id, [NO_THROTTLE, _INT16.pack(body.error_code), legacy_bytes(body.assignment)])


def sync_group_plain(correlation_id: int, body: SyncGroupResponse) -> bytes:
    """Pack the answer of SyncGroup 0."""
    return framed(correlation_id, [_INT16.pack(body.error_code), legacy_bytes(body.assignment)])
