"""A client's connection as a GroupServer sees it, without a socket."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from actors.ground.identity import ClientIdentity
from actors.leader.consumer_channels import Channel
from actors.leader.known_requests import KnownRequests


@dataclass(slots=True)
class Line:
    """A connection whose client is `identity`, which gives `answer` the answers that come later."""

    identity: ClientIdentity
    answer: Callable[[bytes], None]
    holding: None = None
    """It is None because no heartbeat of this client is held."""
    known: KnownRequests | None = None
    channel: Channel | None = None
    pushed: list[bytes] = field(default_factory=list)
    """The frames that came of the server's own accord, without their length."""
    closed_for: str | None = None

    def push(self, frame: bytes) -> bool:
        self.pushed.append(frame[4:])
        return True

    def close(self, reason: str | None = None) -> None:
        self.closed_for = reason or "closed"
