"""A client's connection as a GroupServer sees it, without a socket."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from actors.ground.identity import ClientIdentity


class Line(NamedTuple):
    """A connection whose client is `identity`, which gives `answer` the answers that come later."""

    identity: ClientIdentity
    answer: Callable[[bytes], None]
    holding: None = None
    """It is None because no heartbeat of this client is held."""
