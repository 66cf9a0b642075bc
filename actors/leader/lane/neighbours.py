"""What the lane needs of the leader that it answers for, and what it tells it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from actors.ground.contract import Request
from actors.metrics.counts import RequestCounts


class Heartbeat(Protocol):
    """What the server keeps of the last heartbeat of a member: `group_server.LastHeartbeat`."""

    request: Request
    response: Any
    """The answer that was given last, and packed; None: there was none that is small."""
    before: bytes
    behind: bytes
    """The request's bytes before and behind the correlation id, without its length."""
    answer_before: bytes
    answer_behind: bytes
    """The same of the answer, with its length."""

    def pack(self, response: Any, frame: bytes) -> bytes: ...


class Holding(Protocol):
    """What is known of a connection whose heartbeats may be held: `held_heartbeats.Holding`."""

    kept: Any
    is_shared: bool
    beat_at_ms: int | None
    spacing_ms: int


class Held(Protocol):
    """What holds answers where the lane does not: `held_heartbeats.HeldHeartbeats`."""

    lane: Any

    def take_in(self, holding: Any, request: Request, until_ms: int) -> None: ...
    def lane_counts(self, began: int, over: int, by_request: int) -> None: ...


class Server(Protocol):
    """What answers where the lane does not: `group_server.GroupServer`."""

    counts: RequestCounts

    def owe(self, last: Any, frame: bytes, answer: Callable[[bytes], None]) -> None: ...


class Commit(Protocol):
    """What a connection knows of a commit that it repeats: `known_requests.KnownCommit`."""

    decided: Any
    layout: Any

    def request(self, token: int, frame: bytes) -> Request: ...
    def answer(self, correlation_id: bytes) -> bytes | None: ...
    def pack(self, response: Any, correlation_id: bytes) -> bytes: ...
