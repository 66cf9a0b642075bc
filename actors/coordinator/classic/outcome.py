"""What one decision about classic groups gives, while it is being made."""

from __future__ import annotations

from typing import Any

from actors.coordinator.ground.state import ShardState
from actors.ground.contract import Record, Reply, Result, Token

_new: Any = tuple.__new__
"""The constructor of tuples, which makes a NamedTuple from all its fields in half the time of a call of its
class."""


class Outcome:
    """One decision in the making: where it is made, and what it gives so far."""

    __slots__ = ("events", "now_ms", "records", "replies", "state")

    def __init__(self, state: ShardState, now_ms: int) -> None:
        self.state = state
        self.now_ms = now_ms
        self.records: list[Record] = []
        self.replies: list[Reply] = []
        self.events: list[Any] = []

    def answer(self, token: Token | None, body: Any, group_id: str) -> None:
        """Answer the request of this token, if there is one."""
        if token is not None:
            self.replies.append(_new(Reply, (token, body, group_id)))

    def result(self) -> Result:
        result: Result = _new(Result, (self.records, self.replies, self.events, None))
        return result
