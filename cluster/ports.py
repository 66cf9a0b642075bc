"""Find free ports for tiers that only live for a moment: demos, benchmarks, tests."""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from pathlib import Path

FIRST_PORT = 20_000
LAST_PORT = 29_000
"""The last port that is tried: below Linux's ephemeral ports, above those that Ray's workers take by
default."""


def free_ports(count: int) -> int:
    """Return the first of `count` neighbouring ports of 127.0.0.1 that nobody listens on now.

    Callers of other processes are given others: a tier needs seconds until it listens on its ports.
    """
    tried = 0
    while tried < LAST_PORT - FIRST_PORT:
        first = _next_ports(count)
        if all(_is_free(first + n) for n in range(count)):
            return first
        tried += count
    raise RuntimeError(f"no {count} neighbouring ports are free")


def _next_ports(count: int) -> int:
    """Return the ports behind those that any process of this user was given last, from the first ones again
    at the end."""
    path = Path(tempfile.gettempdir(), f"groupd-ports-{os.getuid()}")
    with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        written = file.read()
        first = int(written) if written.isdecimal() else FIRST_PORT
        if not FIRST_PORT <= first <= LAST_PORT - count:
            first = FIRST_PORT
        file.seek(0)
        file.truncate()
        file.write(str(first + count))
        file.flush()
    return first


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
