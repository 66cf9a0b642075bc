"""What one decision about classic groups gives, while it is being made."""

from __future__ import annotations

from typing import Any

from actors.coordinator.ground.state import ShardState
from actors.ground.contract import Push, Record, Reply, Result, Token, new_tuple


class Outcome:
    """One decision in the making: where it is made, and what it gives so far."""

    __slots__ = ("events", "now_ms", "records", "replies", "state")

    def __init__(self, state: ShardState, now_ms: int) -> None:
        self.state = state
        self.now_ms = now_ms
        self.records: list[Record] = []
        self.replies: list[Reply | Push] = []
        self.events: list[Any] = []

    def answer(self, token: Token | None, body: Any, group_id: str) -> None:
        """Answer the request of this token, if there is one."""
        if token is not None:
            self.replies.append(new_tuple(Reply, (token, body, group_id)))

    def result(self) -> Result:
        result: Result = new_tuple(Result, (self.records, self.replies, self.events, None))
        return result
