"""Names of runs: they tell when a run began, and differ for runs that began in the same second."""

from __future__ import annotations

import time
from random import SystemRandom
from typing import Final

LETTERS: Final = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's letters, of which none looks like another."""
LENGTH: Final = 4


def stamp() -> str:
    """A name such as "20261122-101500-k3f9" for a run that begins now (UTC): short, sorts by time, and no
    two are alike."""
    token = "".join(SystemRandom().choices(LETTERS, k=LENGTH))
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{token}"


def prefix(of_run: str) -> str:
    """The beginning of all names of a swarm's groups, members and topics, by its `stamp`: a Kafka remembers
    the groups of earlier runs."""
    return f"swarm-{of_run}-"
