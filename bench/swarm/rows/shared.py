"""What the members of one process share."""

from __future__ import annotations

from typing import NamedTuple

from bench.swarm.rows.recorder import Recorder
from bench.swarm.wire.coordinators import Bootstrap, Catalogue, Coordinators


class Shared(NamedTuple):
    """What all members of one run share."""

    run_id: str
    seed: int
    bootstrap: Bootstrap
    coordinators: Coordinators
    catalogue: Catalogue
    recorder: Recorder
    consumer_session_ms: int
    """Session of KIP-848 members, which neither say nor hear it."""
    words: list[str]
    """Words for the run's record: who gave up, and why."""
