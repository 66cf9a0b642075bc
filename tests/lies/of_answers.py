"""Lies about which answer belongs to which request. PURE."""

from __future__ import annotations

import struct

from actors.protocol.api_keys import CONSUMER_GROUP_HEARTBEAT, HEARTBEAT
from tests.lies.exchange import Asked
from tests.lies.lie import BROKEN, EXPIRED, NOT_SHOWN, Expected, Lie

BEATS = frozenset({HEARTBEAT, CONSUMER_GROUP_HEARTBEAT})
_CORRELATION_ID = slice(4, 8)


class WrongOrder(Lie):
    """The second of two heartbeats on one connection is answered first."""

    expected = Expected("answers", BROKEN, "another's answer", EXPIRED)
    stage = "shared"
    about = BEATS

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[int, bytes] = {}

    def sends(self, asked: Asked, frame: bytes) -> list[bytes]:
        kept = self._kept.pop(asked.connection, None)
        if kept is None:
            self._kept[asked.connection] = frame
            return []
        return [frame, kept]


class AnotherRequestsId(Lie):
    """Every heartbeat is answered with the correlation id of the request before."""

    expected = Expected("answers", BROKEN, "another's answer")
    about = BEATS

    def sends(self, asked: Asked, frame: bytes) -> list[bytes]:
        changed = bytearray(frame)
        changed[_CORRELATION_ID] = struct.pack(">i", asked.header.correlation_id - 1)
        return [bytes(changed)]


class AnswersTwice(Lie):
    """Every heartbeat is answered twice."""

    expected = Expected("answers", BROKEN, "another's answer", EXPIRED)
    stage = "shared"
    about = BEATS

    def sends(self, asked: Asked, frame: bytes) -> list[bytes]:
        return [frame, frame]


class AnswersGarbage(Lie):
    """Every answer to a group is cut in half, with a length that says so."""

    expected = Expected("service", NOT_SHOWN, "", EXPIRED)

    def sends(self, asked: Asked, frame: bytes) -> list[bytes]:
        half = frame[4 : 8 + (len(frame) - 8) // 2]
        return [struct.pack(">i", len(half)) + half]
