"""A client's connection as a GroupServer sees it, without a socket."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from actors.ground.identity import ClientIdentity
from actors.leader.known_requests import KnownRequests


@dataclass(slots=True)
class Line:
    """A connection whose client is `identity`, which gives `answer` the answers that come later."""

    identity: ClientIdentity
    answer: Callable[[bytes], None]
    holding: None = None
    """It is None because no heartbeat of this client is held."""
    known: KnownRequests | None = None
