"""The things that the members of one process share."""

from __future__ import annotations

from typing import NamedTuple

from bench.swarm.rows.recorder import Recorder
from bench.swarm.wire.coordinators import Bootstrap, Catalogue, Coordinators


class Shared(NamedTuple):
    """The things that all members of one process share."""

    run_id: str
    seed: int
    bootstrap: Bootstrap
    coordinators: Coordinators
    catalogue: Catalogue
    recorder: Recorder
    consumer_session_ms: int
    """The session time-out of KIP-848 members, which neither set nor hear it."""
    words: list[str]
    """Sentences for the run's record: which members gave up, and why."""
