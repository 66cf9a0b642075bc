"""Fixtures of the storage tests."""

from __future__ import annotations

import socket

import pytest


@pytest.fixture
def unused_ports() -> list[int]:
    """Three TCP ports on 127.0.0.1 that nobody listened on a moment ago."""
    holders = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    ports = [holder.getsockname()[1] for holder in holders]
    for holder in holders:
        holder.close()
    return ports
