"""Find free ports for tiers that only live for a moment: demos, benchmarks, tests."""

from __future__ import annotations

import socket
import time

FIRST_PORT = 20_000
LAST_PORT = 29_000
"""The last port that is tried: below Linux's ephemeral ports, above those that Ray's workers take by
default."""


def free_ports(count: int) -> int:
    """Return the first of `count` neighbouring ports of 127.0.0.1 that nobody listens on now."""
    start = FIRST_PORT + time.monotonic_ns() // 1_000 % 5_000
    for first in range(start, LAST_PORT, count):
        if all(_is_free(first + n) for n in range(count)):
            return first
    raise RuntimeError(f"no {count} neighbouring ports are free")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
