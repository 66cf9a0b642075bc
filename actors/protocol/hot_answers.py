"""The answers that leave all the time, packed by hand: whole frames, length prefix and header included.

A schema-driven writer costs several microseconds for the smallest answer; a heartbeat's whole budget is 12.
Each function serves a range of versions that differ in at most a few fields. The tier never throttles, so
`throttle_time_ms` is a constant zero.
"""

from __future__ import annotations

import struct
from typing import Final

from kio.schema.errors import ErrorCode

from actors.coordinator.records import TopicPartitions
from actors.protocol.messages import (
    ConsumerGroupHeartbeatResponse,
    FetchedGroup,
    FetchedOffset,
    HeartbeatResponse,
    JoinGroupResponse,
    OffsetCommitResponse,
    OffsetFetchResponse,
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
_NO_THROTTLE: Final = b"\0\0\0\0"
_NO_TAGS: Final = b"\0"

_FRAME: Final = struct.Struct(">ii")
"""Length, correlation id."""
_FRAME_TAGS_THROTTLE: Final = struct.Struct(">iiBi")
_HEARTBEAT_FLEXIBLE: Final = struct.Struct(">iiBihB")
_HEARTBEAT_THROTTLE: Final = struct.Struct(">iiih")
_HEARTBEAT_PLAIN: Final = struct.Struct(">iih")
_CONSUMER_HEAD: Final = struct.Struct(">iiBih")
_CONSUMER_EPOCHS: Final = struct.Struct(">ii")
_CONSUMER_STEADY: Final = struct.Struct(">iibB")
_COMMITTED_FLEXIBLE: Final = struct.Struct(">ihB")
_COMMITTED_PLAIN: Final = struct.Struct(">ih")
_FETCHED_EPOCH: Final = struct.Struct(">iqi")
_FETCHED_PLAIN: Final = struct.Struct(">iq")
_FETCHED_EMPTY_FLEXIBLE: Final = struct.Struct(">iqiBhB")
_ERROR_TAGS: Final = struct.Struct(">hB")
_JOIN_ERROR_GENERATION: Final = struct.Struct(">hi")


def _framed(correlation_id: int, pieces: list[bytes]) -> bytes:
    body = b"".join(pieces)
    return _FRAME.pack(4 + len(body), correlation_id) + body


def _framed_flexible(correlation_id: int, pieces: list[bytes]) -> bytes:
    """Flexible versions all begin with the throttle time."""
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
        pieces.append(topic_id + uvarint((len(partitions) >> 2) + 1) + partitions + _NO_TAGS)
    pieces.append(b"\0\0")
    return b"".join(pieces)


def consumer_heartbeat(correlation_id: int, body: ConsumerGroupHeartbeatResponse) -> bytes:
    """ConsumerGroupHeartbeat 0 and 1."""
    error_code, message, member_id, member_epoch, interval_ms, assignment = body
    text = compact_string(message) + compact_string(member_id)
    if assignment is None:
        tail = _CONSUMER_STEADY.pack(member_epoch, interval_ms, -1, 0)
    else:
        tail = _CONSUMER_EPOCHS.pack(member_epoch, interval_ms) + _assignment(assignment)
    length = 11 + len(text) + len(tail)
    return _CONSUMER_HEAD.pack(length, correlation_id, 0, 0, error_code) + text + tail


_Committed = tuple[tuple[str, tuple[tuple[int, ErrorCode], ...]], ...]


def _committed_legacy(topics: _Committed) -> list[bytes]:
    pieces = [_INT32.pack(len(topics))]
    pack = _COMMITTED_PLAIN.pack
    for name, partitions in topics:
        pieces.append(legacy_string(name))
        pieces.append(_INT32.pack(len(partitions)))
        pieces += [pack(partition, error_code) for partition, error_code in partitions]
    return pieces


def offset_commit_flexible(correlation_id: int, body: OffsetCommitResponse) -> bytes:
    """OffsetCommit 8 and 9."""
    topics = body.topics
    pieces = [uvarint(len(topics) + 1)]
    pack = _COMMITTED_FLEXIBLE.pack
    for name, partitions in topics:
        pieces.append(compact_string(name))
        pieces.append(uvarint(len(partitions) + 1))
        pieces += [pack(partition, error_code, 0) for partition, error_code in partitions]
        pieces.append(_NO_TAGS)
    pieces.append(_NO_TAGS)
    return _framed_flexible(correlation_id, pieces)


def offset_commit_throttle(correlation_id: int, body: OffsetCommitResponse) -> bytes:
    """OffsetCommit 3 to 7."""
    return _framed(correlation_id, [_NO_THROTTLE, *_committed_legacy(body.topics)])


def offset_commit_plain(correlation_id: int, body: OffsetCommitResponse) -> bytes:
    """OffsetCommit 2."""
    return _framed(correlation_id, _committed_legacy(body.topics))


_Fetched = tuple[tuple[str, tuple[FetchedOffset, ...]], ...]


def _fetched_flexible(topics: _Fetched) -> list[bytes]:
    pieces = [uvarint(len(topics) + 1)]
    for name, partitions in topics:
        pieces.append(compact_string(name))
        pieces.append(uvarint(len(partitions) + 1))
        for partition, offset, leader_epoch, metadata, error_code in partitions:
            if metadata:
                pieces.append(_FETCHED_EPOCH.pack(partition, offset, leader_epoch))
                pieces.append(compact_string(metadata))
                pieces.append(_ERROR_TAGS.pack(error_code, 0))
            else:
                pieces.append(_FETCHED_EMPTY_FLEXIBLE.pack(partition, offset, leader_epoch, 1, error_code, 0))
        pieces.append(_NO_TAGS)
    return pieces


def offset_fetch_groups(correlation_id: int, body: OffsetFetchResponse) -> bytes:
    """OffsetFetch 8 and 9."""
    pieces = [uvarint(len(body.groups) + 1)]
    for group in body.groups:
        pieces.append(compact_string(group.group_id))
        pieces += _fetched_flexible(group.topics)
        pieces.append(_ERROR_TAGS.pack(group.error_code, 0))
    pieces.append(_NO_TAGS)
    return _framed_flexible(correlation_id, pieces)


def _only(body: OffsetFetchResponse) -> FetchedGroup:
    (group,) = body.groups
    return group


def offset_fetch_flexible(correlation_id: int, body: OffsetFetchResponse) -> bytes:
    """OffsetFetch 6 and 7: flexible, one group."""
    group = _only(body)
    return _framed_flexible(
        correlation_id, [*_fetched_flexible(group.topics), _ERROR_TAGS.pack(group.error_code, 0)]
    )


def _fetched_legacy(group: FetchedGroup, with_leader_epoch: bool, error_on_each: bool) -> list[bytes]:
    pieces = [_INT32.pack(len(group.topics))]
    group_error = group.error_code if error_on_each else ErrorCode.none
    for name, partitions in group.topics:
        pieces.append(legacy_string(name))
        pieces.append(_INT32.pack(len(partitions)))
        for partition, offset, leader_epoch, metadata, error_code in partitions:
            if with_leader_epoch:
                pieces.append(_FETCHED_EPOCH.pack(partition, offset, leader_epoch))
            else:
                pieces.append(_FETCHED_PLAIN.pack(partition, offset))
            pieces.append(legacy_string(metadata))
            pieces.append(_INT16.pack(group_error or error_code))
    return pieces


def offset_fetch_leader_epoch(correlation_id: int, body: OffsetFetchResponse) -> bytes:
    """OffsetFetch 5."""
    group = _only(body)
    fetched = _fetched_legacy(group, with_leader_epoch=True, error_on_each=False)
    return _framed(correlation_id, [_NO_THROTTLE, *fetched, _INT16.pack(group.error_code)])


def offset_fetch_throttle(correlation_id: int, body: OffsetFetchResponse) -> bytes:
    """OffsetFetch 3 and 4."""
    group = _only(body)
    fetched = _fetched_legacy(group, with_leader_epoch=False, error_on_each=False)
    return _framed(correlation_id, [_NO_THROTTLE, *fetched, _INT16.pack(group.error_code)])


def offset_fetch_top_error(correlation_id: int, body: OffsetFetchResponse) -> bytes:
    """OffsetFetch 2."""
    group = _only(body)
    fetched = _fetched_legacy(group, with_leader_epoch=False, error_on_each=False)
    return _framed(correlation_id, [*fetched, _INT16.pack(group.error_code)])


def offset_fetch_plain(correlation_id: int, body: OffsetFetchResponse) -> bytes:
    """OffsetFetch 1: no top-level error exists, so the group's stands on each partition (W6)."""
    return _framed(correlation_id, _fetched_legacy(_only(body), with_leader_epoch=False, error_on_each=True))


def _join_flexible(correlation_id: int, body: JoinGroupResponse, names: list[bytes]) -> bytes:
    pieces = [_JOIN_ERROR_GENERATION.pack(body.error_code, body.generation_id), *names]
    pieces += [compact_string(body.member_id), uvarint(len(body.members) + 1)]
    for member_id, instance_id, metadata in body.members:
        pieces += (compact_string(member_id), compact_string(instance_id), compact_bytes(metadata), _NO_TAGS)
    pieces.append(_NO_TAGS)
    return _framed_flexible(correlation_id, pieces)


def join_group_skip(correlation_id: int, body: JoinGroupResponse) -> bytes:
    """JoinGroup 9."""
    names = [compact_string(text) for text in (body.protocol_type, body.protocol_name, body.leader)]
    names.append(b"\1" if body.skip_assignment else b"\0")
    return _join_flexible(correlation_id, body, names)


def join_group_protocol_type(correlation_id: int, body: JoinGroupResponse) -> bytes:
    """JoinGroup 7 and 8."""
    names = [compact_string(text) for text in (body.protocol_type, body.protocol_name, body.leader)]
    return _join_flexible(correlation_id, body, names)


def join_group_flexible(correlation_id: int, body: JoinGroupResponse) -> bytes:
    """JoinGroup 6: flexible, but no null protocol yet."""
    names = [compact_string(body.protocol_name or ""), compact_string(body.leader)]
    return _join_flexible(correlation_id, body, names)


def _join_legacy(body: JoinGroupResponse, with_instance_id: bool) -> list[bytes]:
    pieces = [
        _JOIN_ERROR_GENERATION.pack(body.error_code, body.generation_id),
        legacy_string(body.protocol_name or ""),
        legacy_string(body.leader),
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
    """JoinGroup 5."""
    return _framed(correlation_id, [_NO_THROTTLE, *_join_legacy(body, with_instance_id=True)])


def join_group_throttle(correlation_id: int, body: JoinGroupResponse) -> bytes:
    """JoinGroup 2 to 4."""
    return _framed(correlation_id, [_NO_THROTTLE, *_join_legacy(body, with_instance_id=False)])


def join_group_plain(correlation_id: int, body: JoinGroupResponse) -> bytes:
    """JoinGroup 0 and 1."""
    return _framed(correlation_id, _join_legacy(body, with_instance_id=False))


def sync_group_protocol(correlation_id: int, body: SyncGroupResponse) -> bytes:
    """SyncGroup 5."""
    pieces = [_INT16.pack(body.error_code), compact_string(body.protocol_type)]
    pieces += [compact_string(body.protocol_name), compact_bytes(body.assignment), _NO_TAGS]
    return _framed_flexible(correlation_id, pieces)


def sync_group_flexible(correlation_id: int, body: SyncGroupResponse) -> bytes:
    """SyncGroup 4."""
    return _framed_flexible(
        correlation_id, [_INT16.pack(body.error_code), compact_bytes(body.assignment), _NO_TAGS]
    )


def sync_group_throttle(correlation_id: int, body: SyncGroupResponse) -> bytes:
    """SyncGroup 1 to 3."""
    return _framed(
        correlation_id, [_NO_THROTTLE, _INT16.pack(body.error_code), legacy_bytes(body.assignment)]
    )


def sync_group_plain(correlation_id: int, body: SyncGroupResponse) -> bytes:
    """SyncGroup 0."""
    return _framed(correlation_id, [_INT16.pack(body.error_code), legacy_bytes(body.assignment)])
