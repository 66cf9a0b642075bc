"""Kafka's framing: a 4-byte big-endian length, then that many bytes. Nothing here looks further.

A frame is opaque but for its first 8 bytes, which every request header version begins with.
"""

from __future__ import annotations

import struct
from typing import Final

LENGTH_BYTES: Final = 4
FRAME_BYTES_MIN: Final = 8
"""The size of the smallest frame: api_key, api_version, correlation_id. Kafka closes on a length of 7 or less
(W13, measured)."""
COMPACT_BYTES: Final = 256 * 1024

_LENGTH = struct.Struct(">i")
_HTTP_METHODS = (b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE", b"PATC", b"CONN", b"TRAC", b"PRI ")

length_of = _LENGTH.unpack_from
"""A function that returns (length,) of the frame at the beginning of a buffer of at least 4 bytes."""


class BadFrame(Exception):
    """Raised if the stream cannot be cut into frames any more; the text is the reason, for the log."""


def with_length(frame: bytes) -> bytes:
    """Return `frame` as it stands on the wire."""
    return _LENGTH.pack(len(frame)) + frame


class FrameBuffer:
    """The bytes of one stream that were read and not yet taken, cut into frames on demand.

    `frame_bytes_max` may be changed at any time; it holds for frames not yet taken. `kept` has no byte if all
    are taken: to look at it costs no call, which counts where there is a connection for each frame.
    """

    __slots__ = ("_start", "frame_bytes_max", "frame_bytes_min", "kept")

    def __init__(self, frame_bytes_max: int, frame_bytes_min: int = FRAME_BYTES_MIN) -> None:
        self.kept = bytearray()
        self._start = 0
        self.frame_bytes_max = frame_bytes_max
        self.frame_bytes_min = frame_bytes_min

    def __len__(self) -> int:
        """Return how many bytes are not yet taken."""
        return len(self.kept) - self._start

    def feed(self, data: bytes) -> None:
        self.kept += data

    def next(self) -> bytes | None:
        """Take one whole frame, without its length; None if more bytes are needed.

        Raises BadFrame as soon as the length is read, before anything is kept for it.
        """
        start = self._start
        if len(self.kept) - start < LENGTH_BYTES:
            return None
        (length,) = length_of(self.kept, start)
        if not self.frame_bytes_min <= length <= self.frame_bytes_max:
            raise BadFrame(self._reason(length))
        end = start + LENGTH_BYTES + length
        if len(self.kept) < end:
            return None
        with memoryview(self.kept) as view:
            frame = bytes(view[start + LENGTH_BYTES : end])
        self._start = end
        self._compact()
        return frame

    @property
    def lacks_bytes(self) -> int:
        """Return how much is still to come of the frame that is not yet taken, if its length is here; 0 if
        it is whole, or its length is still to come."""
        held = len(self)
        if held < LENGTH_BYTES:
            return 0
        (length,) = length_of(self.kept, self._start)
        return max(LENGTH_BYTES + int(length) - held, 0)

    def drain(self) -> bytes:
        """Take everything, the incomplete frame at the end included."""
        rest = bytes(self.kept[self._start :])
        self.kept.clear()
        self._start = 0
        return rest

    def _compact(self) -> None:
        # To delete the front for each frame would move the rest each time: a pipelining client's buffer of n
        # frames would cost n * n.
        if self._start == len(self.kept):
            self.kept.clear()
            self._start = 0
        elif self._start >= COMPACT_BYTES:
            del self.kept[: self._start]
            self._start = 0

    def _reason(self, length: int) -> str:
        head = bytes(self.kept[self._start : self._start + LENGTH_BYTES])
        if head[:2] == b"\x16\x03":
            return "a TLS handshake where plain Kafka frames are expected"
        if head in _HTTP_METHODS:
            return "an HTTP request where Kafka frames are expected"
        return f"frame length {length}, allowed are {self.frame_bytes_min} to {self.frame_bytes_max}"
