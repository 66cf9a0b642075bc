"""Pack the answers of OffsetCommit and OffsetFetch by hand, as `hot_answers` does with others.

Nearly all partitions of nearly all answers carry no error and no metadata: those of a topic are then rows of
one length, packed by one call, or there already (`offset_rows`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final

from kio.schema.errors import ErrorCode

from actors.protocol.hot_answers import NO_TAGS, NO_THROTTLE, framed, framed_flexible
from actors.protocol.messages import FetchedGroup, FetchedRow, OffsetCommitResponse, OffsetFetchResponse
from actors.protocol.offset_rows import ROW_BYTES, ROWS_AT_ONCE_MAX, FetchedRows, FineRows, repeated, spaced
from actors.protocol.wire import compact_string, legacy_string, uvarint

ROWS_AT_ONCE_MIN: Final = 4
"""The least number of rows that are packed at once; fewer are packed as quickly one by one."""
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_COMMITTED_FLEXIBLE: Final = struct.Struct(">ihx")
_COMMITTED_PLAIN: Final = struct.Struct(">ih")
_FETCHED_EPOCH: Final = struct.Struct(">iqi")
_FETCHED_PLAIN: Final = struct.Struct(">iq")
_FETCHED_EMPTY_FLEXIBLE: Final = struct.Struct(">iqiBhB")
_FETCHED_FLEXIBLE_BYTES: Final = 20
_METADATA_AT: Final = 16
_LEADER_EPOCH: Final = 2
_METADATA: Final = 3
_ERROR: Final = 4
_ROW_FIELDS: Final = 5
"""How many fields a FetchedRow has; the constants above are the places of three of them."""
_ERROR_TAGS: Final = struct.Struct(">hB")

_NOTHING_ELSE: Final = b"\1\0\0\0"
"""What stands behind a leader epoch if there is no metadata, no error and no tag: a compact length counts
itself."""
_EMPTY_METADATA_LEGACY: Final = b"\0\0\0\0"

NAMES_MAX: Final = 256
"""How many names of topics are remembered as they stand on the wire."""
_name = lru_cache(maxsize=NAMES_MAX)(compact_string)

_Topic = tuple[str, Sequence[tuple[int, ErrorCode]]]
_Fetched = tuple[tuple[str, Sequence[FetchedRow]], ...]


# OffsetCommit.


def _committed_rows(partitions: Sequence[tuple[int, ErrorCode]], fine_row: str, row: struct.Struct) -> bytes:
    """Return a topic's rows. `fine_row` is the layout of a row without an error."""
    if type(partitions) is FineRows:
        return partitions.layout.answer(bytes(row.size - 4))
    if ROWS_AT_ONCE_MIN <= len(partitions) <= ROWS_AT_ONCE_MAX:
        numbers, errors = zip(*partitions, strict=True)
        if not any(errors):
            return repeated(fine_row, len(numbers)).pack(*numbers)
    return b"".join([row.pack(partition, error_code) for partition, error_code in partitions])


def _committed_flexible(correlation_id: int, topics: Iterable[tuple[bytes, _Topic]], count: int) -> bytes:
    """Return the frame of an answer. `topics` has each topic behind its name or its id as it stands on the
    wire."""
    pieces = [uvarint(count + 1)]
    for name, (_, partitions) in topics:
        rows = _committed_rows(partitions, "i3x", _COMMITTED_FLEXIBLE)
        pieces += (name, uvarint(len(partitions) + 1), rows, NO_TAGS)
    pieces.append(NO_TAGS)
    return framed_flexible(correlation_id, pieces)


def offset_commit_ids(correlation_id: int, body: OffsetCommitResponse) -> bytes:
    """Pack the answer of OffsetCommit 10."""
    topics = zip(body.topic_ids or (), body.topics, strict=True)
    return _committed_flexible(correlation_id, topics, len(body.topics))


def offset_commit_flexible(correlation_id: int, body: OffsetCommitResponse) -> bytes:
    """Pack the answer of OffsetCommit 8 or 9."""
    topics = body.topics
    named = [(compact_string(topic[0]), topic) for topic in topics]
    return _committed_flexible(correlation_id, named, len(topics))


def _committed_legacy(topics: tuple[_Topic, ...]) -> list[bytes]:
    pieces = [_INT32.pack(len(topics))]
    for name, partitions in topics:
        rows = _committed_rows(partitions, "i2x", _COMMITTED_PLAIN)
        pieces += (legacy_string(name), _INT32.pack(len(partitions)), rows)
    return pieces


def offset_commit_throttle(correlation_id: int, body: OffsetCommitResponse) -> bytes:
    """Pack the answer of OffsetCommit 3 to 7."""
    return framed(correlation_id, [NO_THROTTLE, *_committed_legacy(body.topics)])


def offset_commit_plain(correlation_id: int, body: OffsetCommitResponse) -> bytes:
    """Pack the answer of OffsetCommit 2."""
    return framed(correlation_id, _committed_legacy(body.topics))


# OffsetFetch.


def _plain_rows(rows: Sequence[FetchedRow], *, with_leader_epoch: bool) -> bytes | None:
    """Return all rows with four zero bytes behind the numbers: no metadata (int16 length) and no error. None
    if one of the rows has either."""
    if not ROWS_AT_ONCE_MIN <= len(rows) <= ROWS_AT_ONCE_MAX:
        return None
    numbers: list[Any] = list(chain.from_iterable(rows))
    if any(numbers[_METADATA::_ROW_FIELDS]) or any(numbers[_ERROR::_ROW_FIELDS]):
        return None
    del numbers[_ERROR::_ROW_FIELDS]
    del numbers[_METADATA :: _ROW_FIELDS - 1]
    if with_leader_epoch:
        return repeated("iqi4x", len(rows)).pack(*numbers)
    del numbers[_LEADER_EPOCH :: _ROW_FIELDS - 2]
    return repeated("iq4x", len(rows)).pack(*numbers)


def _fetched_rows_flexible(rows: Sequence[FetchedRow]) -> bytes:
    plain = _plain_rows(rows, with_leader_epoch=True)
    if plain is not None:
        flexible = bytearray(plain)
        # A compact length counts itself: an empty string's is 1. Behind it are the error and no tags.
        flexible[_METADATA_AT::_FETCHED_FLEXIBLE_BYTES] = b"\1" * len(rows)
        return bytes(flexible)
    pieces = []
    for partition, offset, leader_epoch, metadata, error_code in rows:
        if metadata:
            pieces.append(_FETCHED_EPOCH.pack(partition, offset, leader_epoch))
            pieces.append(compact_string(metadata))
            pieces.append(_ERROR_TAGS.pack(error_code, 0))
        else:
            pieces.append(_FETCHED_EMPTY_FLEXIBLE.pack(partition, offset, leader_epoch, 1, error_code, 0))
    return b"".join(pieces)


def _fetched_flexible(group: FetchedGroup, ids: Sequence[bytes] | None) -> list[bytes]:
    """Return the pieces of a group's topics, each behind its id, or its name if there are no `ids`."""
    topics = group.topics
    pieces = [uvarint(len(topics) + 1)]
    for at, (name, rows) in enumerate(topics):
        named = _name(name) if ids is None else ids[at]
        if type(rows) is FetchedRows:
            data = rows.data
            pieces += (named, uvarint(len(data) // ROW_BYTES + 1), spaced(data, _NOTHING_ELSE), NO_TAGS)
        else:
            pieces += (named, uvarint(len(rows) + 1), _fetched_rows_flexible(rows), NO_TAGS)
    return pieces


def offset_fetch_ids(correlation_id: int, body: OffsetFetchResponse) -> bytes:
    """Pack the answer of OffsetFetch 10, which has topic ids in the place of names."""
    return _fetched_groups(correlation_id, body, by_id=True)


def offset_fetch_groups(correlation_id: int, body: OffsetFetchResponse) -> bytes:
    """Pack the answer of OffsetFetch 8 or 9."""
    return _fetched_groups(correlation_id, body, by_id=False)


def _fetched_groups(correlation_id: int, body: OffsetFetchResponse, *, by_id: bool) -> bytes:
    pieces = [uvarint(len(body.groups) + 1)]
    for group in body.groups:
        pieces.append(compact_string(group.group_id))
        pieces += _fetched_flexible(group, group.topic_ids or () if by_id else None)
        pieces.append(_ERROR_TAGS.pack(group.error_code, 0))
    pieces.append(NO_TAGS)
    return framed_flexible(correlation_id, pieces)


def _only(body: OffsetFetchResponse) -> FetchedGroup:
    (group,) = body.groups
    return group


def offset_fetch_flexible(correlation_id: int, body: OffsetFetchResponse) -> bytes:
    """Pack the answer of OffsetFetch 6 or 7, which are flexible and have one group."""
    group = _only(body)
    pieces = _fetched_flexible(group, None)
    pieces.append(_ERROR_TAGS.pack(group.error_code, 0))
    return framed_flexible(correlation_id, pieces)


def _fetched_rows_legacy(
    rows: Sequence[FetchedRow], group_error: ErrorCode, *, with_leader_epoch: bool
) -> bytes:
    if type(rows) is FetchedRows and with_leader_epoch and not group_error:
        return spaced(rows.data, _EMPTY_METADATA_LEGACY)
    plain = None if group_error else _plain_rows(rows, with_leader_epoch=with_leader_epoch)
    if plain is not None:
        return plain
    pieces = []
    for partition, offset, leader_epoch, metadata, error_code in rows:
        if with_leader_epoch:
            pieces.append(_FETCHED_EPOCH.pack(partition, offset, leader_epoch))
        else:
            pieces.append(_FETCHED_PLAIN.pack(partition, offset))
        pieces.append(legacy_string(metadata))
        pieces.append(_INT16.pack(group_error or error_code))
    return b"".join(pieces)


def _fetched_legacy(group: FetchedGroup, with_leader_epoch: bool, error_on_each: bool) -> list[bytes]:
    pieces = [_INT32.pack(len(group.topics))]
    group_error = group.error_code if error_on_each else ErrorCode.none
    for name, rows in group.topics:
        packed = _fetched_rows_legacy(rows, group_error, with_leader_epoch=with_leader_epoch)
        pieces += (legacy_string(name), _INT32.pack(len(rows)), packed)
    return pieces


def offset_fetch_leader_epoch(correlation_id: int, body: OffsetFetchResponse) -> bytes:
    """Pack the answer of OffsetFetch 5."""
    group = _only(body)
    fetched = _fetched_legacy(group, with_leader_epoch=True, error_on_each=False)
    return framed(correlation_id, [NO_THROTTLE, *fetched, _INT16.pack(group.error_code)])


def offset_fetch_throttle(correlation_id: int, body: OffsetFetchResponse) -> bytes:
    """Pack the answer of OffsetFetch 3 or 4."""
    group = _only(body)
    fetched = _fetched_legacy(group, with_leader_epoch=False, error_on_each=False)
    return framed(correlation_id, [NO_THROTTLE, *fetched, _INT16.pack(group.error_code)])


def offset_fetch_top_error(correlation_id: int, body: OffsetFetchResponse) -> bytes:
    """Pack the answer of OffsetFetch 2."""
    group = _only(body)
    fetched = _fetched_legacy(group, with_leader_epoch=False, error_on_each=False)
    return framed(correlation_id, [*fetched, _INT16.pack(group.error_code)])


def offset_fetch_plain(correlation_id: int, body: OffsetFetchResponse) -> bytes:
    """Pack the answer of OffsetFetch 1: no top-level error exists, so the group's stands on each partition
    (W6)."""
    return framed(correlation_id, _fetched_legacy(_only(body), with_leader_epoch=False, error_on_each=True))
