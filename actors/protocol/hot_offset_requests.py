"""Read OffsetCommit and OffsetFetch by hand, by the rules of `hot_requests`.

Partitions are read all at once if they have one length each, which is how clients send them: a committed
partition without metadata is 18 bytes (14 below version 6), and one that is asked for is 4. Of the 18 the
first 16 are a row as it is logged and kept (`offset_rows`), so that nothing is made of them here.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import repeat
from operator import add
from typing import Final

from actors.ground.contract import new_tuple
from actors.protocol.hot_requests import (
    Unusual,
    read_compact,
    read_compact_count,
    read_compact_nullable,
    read_int32s,
    read_legacy,
    read_legacy_count,
    read_legacy_nullable,
)
from actors.protocol.messages import (
    CommittedRow,
    OffsetCommitRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
)
from actors.protocol.offset_rows import CommittedRows
from actors.protocol.wire import read_uvarint

ROWS_MIN: Final = 2
"""The least number of partitions of a topic that are left as they are."""
COMMIT_RETENTION_UNTIL: Final = 4
COMMIT_LEADER_EPOCH_SINCE: Final = 6
COMMIT_INSTANCE_ID_SINCE: Final = 7
RETENTION_COMMON_MS_MAX: Final = 2**46
"""The longest retention in ms that is read here, two thousand years. What lies beyond is capped by the
schema's way, so that no sum leaves int64."""
FETCH_ALL_SINCE: Final = 2
FETCH_STABLE_SINCE: Final = 7
FETCH_MEMBER_SINCE: Final = 9
FETCH_IDS_SINCE: Final = 10

_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_ROW: Final = struct.Struct(">iqi2x")
"""A row of OffsetCommit without metadata: partition, offset, leader epoch, and the length of no metadata,
which is an int16, or one byte and no tags."""
_ROW_WITHOUT_EPOCH: Final = struct.Struct(">iq2x")
_ROW_FLEXIBLE: Final = struct.Struct(">iqiBB")
"""A row of a flexible OffsetCommit: partition, offset, leader epoch, compact length of the metadata, first
byte behind that."""
_ROW_EPOCH: Final = struct.Struct(">iqih")
_ROW_PLAIN: Final = struct.Struct(">iqh")
_NO_METADATA: Final = ("",)
_NO_EPOCH: Final = (-1, "")
_ID_BYTES: Final = 16

_Rows = Sequence[CommittedRow]
_Asked = tuple[tuple[str, tuple[int, ...]], ...] | None


# OffsetCommit.


def _without_metadata(rows: bytes, count: int) -> _Rows:
    """Return rows of 18 bytes, the last two of which say that there is no metadata."""
    if count < ROWS_MIN:
        return tuple(map(add, _ROW.iter_unpack(rows), repeat(_NO_METADATA)))
    data = bytearray(rows)
    del data[17::18]
    del data[16::17]
    return CommittedRows(bytes(data))


def _rows_flexible(frame: bytes, at: int) -> tuple[_Rows, int]:
    count, at = read_compact_count(frame, at)
    end = at + 18 * count
    lengths, tags = frame[at + 16 : end : 18], frame[at + 17 : end : 18]
    if lengths.count(1) == count == tags.count(0):
        return _without_metadata(frame[at:end], count), end
    unpack_from = _ROW_FLEXIBLE.unpack_from
    rows = []
    for _ in range(count):
        partition, offset, leader_epoch, size, tag = unpack_from(frame, at)
        metadata: str | None = ""
        if size == 1:
            at += 18
        elif size == 0:
            metadata = None
            at += 18
        else:
            metadata, tags_at = read_compact(frame, at + 16)
            tag = frame[tags_at]
            at = tags_at + 1
        if tag:
            raise Unusual
        rows.append((partition, offset, leader_epoch, metadata))
    return tuple(rows), at


def _commit_flexible(frame: bytes, at: int, *, by_id: bool) -> OffsetCommitRequest:
    epoch_at = at + frame[at]
    member_at = epoch_at + 4
    member_size = frame[member_at]
    instance_at = member_at + member_size
    if not 0 < frame[at] < 0x80 or not 0 < member_size < 0x80:
        raise Unusual
    group_id, member_id = frame[at + 1 : epoch_at].decode(), frame[member_at + 1 : instance_at].decode()
    epoch = _INT32.unpack_from(frame, epoch_at)[0]
    instance_id, at = None, instance_at + 1
    if frame[instance_at]:
        instance_id, at = read_compact_nullable(frame, instance_at)
    topic_count, at = read_compact_count(frame, at)
    topic_ids = []
    topics = []
    for _ in range(topic_count):
        name = ""
        if by_id:
            topic_ids.append(frame[at : at + _ID_BYTES])
            at += _ID_BYTES
        else:
            name, at = read_compact(frame, at)
        rows, at = _rows_flexible(frame, at)
        if frame[at]:
            raise Unusual
        at += 1
        topics.append((name, rows))
    if frame[at]:
        raise Unusual
    ids = tuple(topic_ids) if by_id else None
    request: OffsetCommitRequest = new_tuple(
        OffsetCommitRequest, (group_id, epoch, member_id, instance_id, -1, tuple(topics), ids, None)
    )
    return request


def offset_commit_ids(frame: bytes, at: int) -> OffsetCommitRequest:
    """Read OffsetCommit 10, which has topic ids in the place of names."""
    return _commit_flexible(frame, at, by_id=True)


def offset_commit_flexible(frame: bytes, at: int) -> OffsetCommitRequest:
    """Read OffsetCommit 8 or 9."""
    return _commit_flexible(frame, at, by_id=False)


def _rows_legacy(frame: bytes, at: int, with_leader_epoch: bool) -> tuple[_Rows, int]:
    count, at = read_legacy_count(frame, at)
    size = _ROW.size if with_leader_epoch else _ROW_WITHOUT_EPOCH.size
    end = at + size * count
    if frame[at + size - 2 : end : size].count(0) == count == frame[at + size - 1 : end : size].count(0):
        if with_leader_epoch:
            return _without_metadata(frame[at:end], count), end
        return tuple(map(add, _ROW_WITHOUT_EPOCH.iter_unpack(frame[at:end]), repeat(_NO_EPOCH))), end
    layout = _ROW_EPOCH if with_leader_epoch else _ROW_PLAIN
    leader_epoch = -1
    rows = []
    for _ in range(count):
        if with_leader_epoch:
            partition, offset, leader_epoch, length = layout.unpack_from(frame, at)
        else:
            partition, offset, length = layout.unpack_from(frame, at)
        at += size
        metadata = "" if length == 0 else None
        if length > 0:
            metadata = frame[at : at + length].decode()
            at += length
            if at > len(frame):
                raise Unusual
        rows.append((partition, offset, leader_epoch, metadata))
    return tuple(rows), at


def _commit_legacy(frame: bytes, at: int, api_version: int) -> OffsetCommitRequest:
    group_id, at = read_legacy(frame, at)
    epoch = _INT32.unpack_from(frame, at)[0]
    member_id, at = read_legacy(frame, at + 4)
    instance_id = None
    retention_time_ms = -1
    if api_version >= COMMIT_INSTANCE_ID_SINCE:
        instance_id, at = read_legacy_nullable(frame, at)
    elif api_version <= COMMIT_RETENTION_UNTIL:
        retention_time_ms = _INT64.unpack_from(frame, at)[0]
        if not -1 <= retention_time_ms <= RETENTION_COMMON_MS_MAX:
            raise Unusual
        at += 8
    topic_count, at = read_legacy_count(frame, at)
    topics = []
    for _ in range(topic_count):
        name, at = read_legacy(frame, at)
        rows, at = _rows_legacy(frame, at, api_version >= COMMIT_LEADER_EPOCH_SINCE)
        topics.append((name, rows))
    return OffsetCommitRequest(group_id, epoch, member_id, instance_id, retention_time_ms, tuple(topics))


def offset_commit_retention(frame: bytes, at: int) -> OffsetCommitRequest:
    """Read OffsetCommit 2 to 4."""
    return _commit_legacy(frame, at, COMMIT_RETENTION_UNTIL)


def offset_commit_plain(frame: bytes, at: int) -> OffsetCommitRequest:
    """Read OffsetCommit 5."""
    return _commit_legacy(frame, at, COMMIT_RETENTION_UNTIL + 1)


def offset_commit_leader_epoch(frame: bytes, at: int) -> OffsetCommitRequest:
    """Read OffsetCommit 6."""
    return _commit_legacy(frame, at, COMMIT_LEADER_EPOCH_SINCE)


def offset_commit_static(frame: bytes, at: int) -> OffsetCommitRequest:
    """Read OffsetCommit 7."""
    return _commit_legacy(frame, at, COMMIT_INSTANCE_ID_SINCE)


# OffsetFetch.


def _asked_flexible(frame: bytes, at: int) -> tuple[_Asked, int]:
    size, at = read_uvarint(frame, at)
    if size == 0:
        return None, at
    topics = []
    for _ in range(size - 1):
        name, at = read_compact(frame, at)
        partitions, at = read_int32s(frame, at)
        if frame[at]:
            raise Unusual
        at += 1
        topics.append((name, partitions))
    return tuple(topics), at


def _asked_ids(frame: bytes, at: int) -> tuple[_Asked, tuple[bytes, ...] | None, int]:
    size, at = read_uvarint(frame, at)
    if size == 0:
        return None, None, at
    topics, topic_ids = [], []
    for _ in range(size - 1):
        topic_ids.append(frame[at : at + _ID_BYTES])
        partitions, at = read_int32s(frame, at + _ID_BYTES)
        if frame[at]:
            raise Unusual
        at += 1
        topics.append(("", partitions))
    return tuple(topics), tuple(topic_ids), at


def _fetch_groups(frame: bytes, at: int, api_version: int) -> OffsetFetchRequest:
    group_count, at = read_compact_count(frame, at)
    groups = []
    for _ in range(group_count):
        group_id, at = read_compact(frame, at)
        member_id, member_epoch, topic_ids = None, -1, None
        if api_version >= FETCH_MEMBER_SINCE:
            member_id, at = read_compact_nullable(frame, at)
            member_epoch = _INT32.unpack_from(frame, at)[0]
            at += 4
        if api_version >= FETCH_IDS_SINCE:
            topics, topic_ids, at = _asked_ids(frame, at)
        else:
            topics, at = _asked_flexible(frame, at)
        if frame[at]:
            raise Unusual
        at += 1
        groups.append(OffsetFetchGroup(group_id, topics, member_id, member_epoch, topic_ids))
    return _fetch_end(frame, at, tuple(groups), is_stable_asked=True)


def _fetch_end(
    frame: bytes, at: int, groups: tuple[OffsetFetchGroup, ...], *, is_stable_asked: bool
) -> OffsetFetchRequest:
    require_stable = False
    if is_stable_asked:
        require_stable = frame[at] != 0
        at += 1
    if frame[at]:
        raise Unusual
    return OffsetFetchRequest(groups, require_stable)


def offset_fetch_ids(frame: bytes, at: int) -> OffsetFetchRequest:
    """Read OffsetFetch 10, which has topic ids in the place of names."""
    return _fetch_groups(frame, at, FETCH_IDS_SINCE)


def offset_fetch_member(frame: bytes, at: int) -> OffsetFetchRequest:
    """Read OffsetFetch 9."""
    return _fetch_groups(frame, at, FETCH_MEMBER_SINCE)


def offset_fetch_groups(frame: bytes, at: int) -> OffsetFetchRequest:
    """Read OffsetFetch 8."""
    return _fetch_groups(frame, at, FETCH_MEMBER_SINCE - 1)


def _fetch_one(frame: bytes, at: int, api_version: int) -> OffsetFetchRequest:
    group_id, at = read_compact(frame, at)
    topics, at = _asked_flexible(frame, at)
    group = OffsetFetchGroup(group_id, topics)
    return _fetch_end(frame, at, (group,), is_stable_asked=api_version >= FETCH_STABLE_SINCE)


def offset_fetch_stable(frame: bytes, at: int) -> OffsetFetchRequest:
    """Read OffsetFetch 7."""
    return _fetch_one(frame, at, FETCH_STABLE_SINCE)


def offset_fetch_flexible(frame: bytes, at: int) -> OffsetFetchRequest:
    """Read OffsetFetch 6."""
    return _fetch_one(frame, at, FETCH_STABLE_SINCE - 1)


def _fetch_legacy(frame: bytes, at: int, api_version: int) -> OffsetFetchRequest:
    group_id, at = read_legacy(frame, at)
    topic_count = _INT32.unpack_from(frame, at)[0]
    at += 4
    if topic_count < 0:
        if api_version < FETCH_ALL_SINCE:
            raise Unusual
        return OffsetFetchRequest((OffsetFetchGroup(group_id, None),))
    topics = []
    for _ in range(topic_count):
        name, at = read_legacy(frame, at)
        count, at = read_legacy_count(frame, at)
        end = at + 4 * count
        if end > len(frame):
            raise Unusual
        topics.append((name, struct.unpack(f">{count}i", frame[at:end])))
        at = end
    return OffsetFetchRequest((OffsetFetchGroup(group_id, tuple(topics)),))


def offset_fetch_plain(frame: bytes, at: int) -> OffsetFetchRequest:
    """Read OffsetFetch 1."""
    return _fetch_legacy(frame, at, FETCH_ALL_SINCE - 1)


def offset_fetch_all(frame: bytes, at: int) -> OffsetFetchRequest:
    """Read OffsetFetch 2 to 5."""
    return _fetch_legacy(frame, at, FETCH_ALL_SINCE)
