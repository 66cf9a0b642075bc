"""See from one machine whether another one's port can be reached. The agents run this: imports stay few."""

from __future__ import annotations

import socket

CONNECT_TIMEOUT_S = 2.0


def connect(host: str, port: int) -> None:
    """Connect for a moment. Raises OSError."""
    with socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S):
        pass
