"""Read the requests that arrive all the time by hand: heartbeats, and what all readers share.

Each function reads the common shape only and raises one of `UNUSUAL` on anything else: a string of more than
126 bytes in a compact form, a tag, a null where none may stand, text that is no UTF-8, a frame cut short.
`codec.decode` then reads the frame again through the schema, which knows what is rare and what is wrong. So
a function here may give up on good bytes, but must never accept bad ones: a slice beyond the end of the
frame is silently short in Python, hence every slice is followed by an index, an unpack or a check behind it.

Compact lengths count themselves: 1 is "", 0 is null; the field's end is its start plus that byte.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from actors.ground.contract import new_tuple
from actors.ground.records import TopicPartitions
from actors.protocol.messages import ConsumerGroupHeartbeatRequest, HeartbeatRequest
from actors.protocol.wire import read_uvarint


class Unusual(ValueError):
    """Raised if a request does not have the common shape, so that it is read through the schema."""


UNUSUAL: Final = (ValueError, IndexError, struct.error)
"""The errors that send a request through the schema; ValueError covers Unusual and UnicodeDecodeError."""
REGEX_SINCE: Final = 1

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_ID_BYTES: Final = 16
_STEADY_TAIL: Final = (
    b"\0\0\xff\xff\xff\xff\0\0\0\0",
    b"\0\0\xff\xff\xff\xff\0\0\0\0\0",
)
"""What follows the epoch in a ConsumerGroupHeartbeat without news, by version."""


def read_compact(frame: bytes, at: int) -> tuple[str, int]:
    size = frame[at]
    if not 0 < size < 0x80:
        raise Unusual
    end = at + size
    return frame[at + 1 : end].decode(), end


def read_compact_nullable(frame: bytes, at: int) -> tuple[str | None, int]:
    size = frame[at]
    if size > 0x7F:
        raise Unusual
    if size == 0:
        return None, at + 1
    end = at + size
    return frame[at + 1 : end].decode(), end


def read_legacy(frame: bytes, at: int) -> tuple[str, int]:
    length = _INT16.unpack_from(frame, at)[0]
    end = at + 2 + length
    if length < 0 or end > len(frame):
        raise Unusual
    return frame[at + 2 : end].decode(), end


def read_legacy_nullable(frame: bytes, at: int) -> tuple[str | None, int]:
    length = _INT16.unpack_from(frame, at)[0]
    if length < 0:
        return None, at + 2
    end = at + 2 + length
    if end > len(frame):
        raise Unusual
    return frame[at + 2 : end].decode(), end


def read_compact_count(frame: bytes, at: int) -> tuple[int, int]:
    size, at = read_uvarint(frame, at)
    if size == 0:
        raise Unusual
    return size - 1, at


def read_legacy_count(frame: bytes, at: int) -> tuple[int, int]:
    count = _INT32.unpack_from(frame, at)[0]
    if count < 0:
        raise Unusual
    return count, at + 4


def heartbeat_flexible(frame: bytes, at: int) -> HeartbeatRequest:
    """Read Heartbeat 4. The reading is written out, because no request comes more often."""
    group_size = frame[at]
    generation_at = at + group_size
    member_at = generation_at + 4
    member_size = frame[member_at]
    instance_at = member_at + member_size
    instance_size = frame[instance_at]
    instance_id = None
    tags_at = instance_at + 1
    if instance_size:
        tags_at = instance_at + instance_size
        instance_id = frame[instance_at + 1 : tags_at].decode()
    if (
        frame[tags_at]
        or group_size > 0x7F
        or member_size > 0x7F
        or instance_size > 0x7F
        or not group_size
        or not member_size
    ):
        raise Unusual
    request: HeartbeatRequest = new_tuple(
        HeartbeatRequest,
        (
            frame[at + 1 : generation_at].decode(),
            _INT32.unpack_from(frame, generation_at)[0],
            frame[member_at + 1 : instance_at].decode(),
            instance_id,
        ),
    )
    return request


def heartbeat_static(frame: bytes, at: int) -> HeartbeatRequest:
    """Read Heartbeat 3, which has an instance id and no tags yet."""
    group_id, at = read_legacy(frame, at)
    generation_id = _INT32.unpack_from(frame, at)[0]
    member_id, at = read_legacy(frame, at + 4)
    return HeartbeatRequest(group_id, generation_id, member_id, read_legacy_nullable(frame, at)[0])


def heartbeat_plain(frame: bytes, at: int) -> HeartbeatRequest:
    """Read Heartbeat 0 to 2."""
    group_id, at = read_legacy(frame, at)
    generation_id = _INT32.unpack_from(frame, at)[0]
    return HeartbeatRequest(group_id, generation_id, read_legacy(frame, at + 4)[0], None)


def read_int32s(frame: bytes, at: int) -> tuple[tuple[int, ...], int]:
    count, at = read_compact_count(frame, at)
    end = at + 4 * count
    if end > len(frame):
        raise Unusual
    return struct.unpack(f">{count}i", frame[at:end]), end


def packed_partitions(partitions: Iterable[int]) -> bytes:
    """Return partitions in the form of `records.TopicPartitions`: ascending, each once, big-endian int32."""
    ascending = sorted(set(partitions))
    return struct.pack(f">{len(ascending)}i", *ascending)


def packed_topics(owned: list[tuple[bytes, tuple[int, ...]]]) -> TopicPartitions:
    """Return the partitions that a member names as `records.TopicPartitions`: sorted, repeated topics merged,
    empty ones left out."""
    merged: dict[bytes, list[int]] = {}
    for topic_id, partitions in owned:
        if partitions:
            merged.setdefault(topic_id, []).extend(partitions)
    return tuple((topic_id, packed_partitions(merged[topic_id])) for topic_id in sorted(merged))


def _owned_topics(frame: bytes, at: int) -> tuple[TopicPartitions | None, int]:
    size, at = read_uvarint(frame, at)
    if size == 0:
        return None, at
    owned = []
    for _ in range(size - 1):
        topic_id = frame[at : at + _ID_BYTES]
        partitions, at = read_int32s(frame, at + _ID_BYTES)
        if frame[at]:
            raise Unusual
        at += 1
        owned.append((topic_id, partitions))
    return packed_topics(owned), at


def _subscribed_names(frame: bytes, at: int) -> tuple[tuple[str, ...] | None, int]:
    size, at = read_uvarint(frame, at)
    if size == 0:
        return None, at
    names = []
    for _ in range(size - 1):
        name, at = read_compact(frame, at)
        names.append(name)
    return tuple(names), at


def _consumer_heartbeat(frame: bytes, at: int, api_version: int) -> ConsumerGroupHeartbeatRequest:
    group_size = frame[at]
    member_at = at + group_size
    member_size = frame[member_at]
    epoch_at = member_at + member_size
    if not 0 < group_size < 0x80 or not 0 < member_size < 0x80:
        raise Unusual
    group_id = frame[at + 1 : member_at].decode()
    member_id = frame[member_at + 1 : epoch_at].decode()
    member_epoch = _INT32.unpack_from(frame, epoch_at)[0]
    at = epoch_at + 4
    if frame.startswith(_STEADY_TAIL[api_version], at):
        return ConsumerGroupHeartbeatRequest(group_id, member_id, member_epoch)
    instance_id, at = read_compact_nullable(frame, at)
    rack_id, at = read_compact_nullable(frame, at)
    rebalance_timeout_ms = _INT32.unpack_from(frame, at)[0]
    names, at = _subscribed_names(frame, at + 4)
    regex = None
    if api_version >= REGEX_SINCE:
        regex, at = read_compact_nullable(frame, at)
    assignor, at = read_compact_nullable(frame, at)
    owned, at = _owned_topics(frame, at)
    if frame[at]:
        raise Unusual
    return ConsumerGroupHeartbeatRequest(
        group_id,
        member_id,
        member_epoch,
        instance_id,
        rack_id,
        rebalance_timeout_ms,
        names,
        regex,
        assignor,
        owned,
    )


def consumer_heartbeat_v0(frame: bytes, at: int) -> ConsumerGroupHeartbeatRequest:
    return _consumer_heartbeat(frame, at, 0)


def consumer_heartbeat_v1(frame: bytes, at: int) -> ConsumerGroupHeartbeatRequest:
    return _consumer_heartbeat(frame, at, 1)
