"""Lies about generations and epochs, and about who is fenced. PURE."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kio.schema.errors import ErrorCode

from actors.protocol.api_keys import (
    CONSUMER_GROUP_HEARTBEAT,
    HEARTBEAT,
    JOIN_GROUP,
    OFFSET_COMMIT,
)
from tests.lies.answers import refused
from tests.lies.exchange import Asked, Doing, Pass, Tell
from tests.lies.lie import BROKEN, EXPIRED, Expected, Lie
from tests.lies.of_ownership import VICTIM


class GenerationGoesBack(Lie):
    """JoinGroup is answered with a generation that is over."""

    expected = Expected("epochs", BROKEN, "generation went back", EXPIRED)
    stage = "newcomer"
    about = frozenset({JOIN_GROUP})

    def tells(self, asked: Asked, answer: Any) -> Any:
        if answer.error_code:
            return answer
        return replace(answer, generation_id=max(0, answer.generation_id - 2))


class EpochGoesBack(Lie):
    """ConsumerGroupHeartbeat is answered with the member epoch before, every tenth time."""

    expected = Expected("epochs", BROKEN, "epoch went back")
    about = frozenset({CONSUMER_GROUP_HEARTBEAT})

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    def tells(self, asked: Asked, answer: Any) -> Any:
        self._count += 1
        if answer.error_code or answer.member_epoch < 2 or self._count % 10:
            return answer
        return replace(answer, member_epoch=answer.member_epoch - 1)


class OldGenerationConfirmed(Lie):
    """Every Heartbeat of one classic member is answered well, also in a generation that is over: it never
    learns of a rebalance, and is removed."""

    expected = Expected("epochs", BROKEN, "generation an old one confirmed", EXPIRED)
    stage = "newcomer"
    about = frozenset({HEARTBEAT})
    group = "range"

    def tells(self, asked: Asked, answer: Any) -> Any:
        if asked.member != VICTIM or not answer.error_code:
            return answer
        return replace(answer, error_code=ErrorCode.none)


class FencedIsServed(Lie):
    """A member's commits are answered UNKNOWN_MEMBER_ID and its heartbeats are served."""

    expected = Expected("epochs", BROKEN, "a fenced member served")
    about = frozenset({OFFSET_COMMIT})

    def does(self, asked: Asked) -> Doing:
        if asked.member != VICTIM:
            return Pass(asked.frame)
        return Tell(refused(asked, ErrorCode.unknown_member_id))
