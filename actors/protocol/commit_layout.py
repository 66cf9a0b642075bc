"""The layout of a frame, of an OffsetCommit above all: where its offsets stand, and what else its bytes are.

The commits of one member differ in the correlation id, in offsets and in leader epochs alone, as long as it
commits the same partitions and none has metadata. So the next one is recognised by its bytes, and its rows
(`offset_rows`) are cut out of it; nothing is read twice.

These are functions of bytes and numbers, and know of no group. A frame here begins with the request header:
its length prefix is cut off.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from actors.protocol.hot_offset_requests import COMMIT_INSTANCE_ID_SINCE, COMMIT_LEADER_EPOCH_SINCE
from actors.protocol.messages import CommittedRow, OffsetCommitRequest
from actors.protocol.offset_rows import ROW_BYTES, CommittedRows, packed
from actors.protocol.requests import TOPIC_IDS_SINCE
from actors.protocol.wire import uvarint

FLEXIBLE_SINCE: Final = 8
GEOMETRIES_MAX: Final = 256
"""How many masks are remembered."""
WIRE_ROW_BYTES: Final = 18
"""A row, and two bytes that say that it has no metadata: see `hot_offset_requests`."""
_CORRELATION_ID: Final = slice(4, 8)
_NUMBERS: Final = slice(4, ROW_BYTES)
"""Where offset and leader epoch stand in a row."""
_ID_BYTES: Final = 16
_REPLACED: Final = "\ufffd"
"""What a text has in the place of bytes that are no UTF-8: its length does not tell how many they were."""

Spans = tuple[tuple[int, int], ...]


class FrameLayout(NamedTuple):
    """What is the same in all frames of a layout. Frames are numbers here, their first byte the lowest: one
    operation then looks at all bytes."""

    size: int
    """How long each frame is."""
    mask: int
    """The bits that are the same."""
    fixed: int
    """What those bits are."""
    spans: Spans
    """Where the rows of each topic begin and end, in a commit."""


def number_of(frame: bytes) -> int:
    """Return a frame as a number. It is of a layout if it is as long as the layout says, and
    `number & mask == fixed`: then it says what the one said that the layout was learnt from, offsets, leader
    epochs and correlation id apart."""
    return int.from_bytes(frame, "little")


def rows_at(frame: bytes, begin: int, end: int) -> bytes:
    """Return the rows of a span, as they are logged and kept."""
    rows = bytearray(frame[begin:end])
    del rows[17::18]
    del rows[16::17]
    return bytes(rows)


def layout_of_commit(
    frame: bytes, body_offset: int, api_version: int, body: OffsetCommitRequest
) -> FrameLayout | None:
    """Return the layout of a frame in which `body` was read; None if not all of its rows can be told from the
    rest: one of them has metadata, or bytes stand behind the request."""
    if api_version < COMMIT_LEADER_EPOCH_SINCE or not body.topics:
        return None
    if any(_REPLACED in text for text in _texts(body)):
        return None
    wire = _Flexible() if api_version >= FLEXIBLE_SINCE else _Legacy()
    at = body_offset + wire.text(body.group_id) + 4 + wire.text(body.member_id)
    if api_version >= COMMIT_INSTANCE_ID_SINCE:
        at += wire.text(body.group_instance_id)
    at += wire.count(len(body.topics))
    spans = []
    for topic, rows in body.topics:
        data = _data(rows)
        if data is None:
            return None
        at += _ID_BYTES if api_version >= TOPIC_IDS_SINCE else wire.text(topic)
        at += wire.count(len(rows))
        end = at + WIRE_ROW_BYTES * len(rows)
        if rows_at(frame, at, end) != data:
            return None
        spans.append((at, end))
        at = end + wire.tags
    # Lengths may be written longer than they have to be. Where none is, and all is as long as it has to be,
    # the rows are where they were looked for.
    if at + wire.tags != len(frame):
        return None
    return _layout_of(frame, tuple(spans))


def layout_without_rows(frame: bytes) -> FrameLayout:
    """Return the layout of frames that differ in the correlation id alone."""
    return _layout_of(frame, ())


def _layout_of(frame: bytes, spans: Spans) -> FrameLayout:
    mask, spans = _mask(len(frame), spans)
    return FrameLayout(len(frame), mask, number_of(frame) & mask, spans)


def _texts(body: OffsetCommitRequest) -> Iterator[str]:
    yield from (body.group_id, body.member_id, body.group_instance_id or "")
    yield from (topic for topic, _ in body.topics)


def _data(rows: object) -> bytes | None:
    """Return the rows of a topic if none has metadata."""
    if type(rows) is CommittedRows:
        return rows.data
    if isinstance(rows, tuple) and len(rows) == 1:
        row: CommittedRow = rows[0]
        return packed(rows) if row[3] == "" else None
    return None


@lru_cache(maxsize=GEOMETRIES_MAX)
def _mask(size: int, spans: Spans) -> tuple[int, Spans]:
    """Return the mask, and the spans, for many connections the same objects."""
    mask = bytearray(b"\xff" * size)
    mask[_CORRELATION_ID] = bytes(4)
    for begin, end in spans:
        for row in range(begin, end, WIRE_ROW_BYTES):
            mask[row + _NUMBERS.start : row + _NUMBERS.stop] = bytes(ROW_BYTES - 4)
    return int.from_bytes(mask, "little"), spans


class _Flexible:
    """How many bytes things take in a flexible version, if they are written as short as can be."""

    tags = 1

    def text(self, text: str | None) -> int:
        if text is None:
            return 1
        size = len(text.encode())
        return len(uvarint(size + 1)) + size

    def count(self, count: int) -> int:
        return len(uvarint(count + 1))


class _Legacy:
    """The same in a version that is not flexible."""

    tags = 0

    def text(self, text: str | None) -> int:
        return 2 if text is None else 2 + len(text.encode())

    def count(self, count: int) -> int:
        return 4
