"""A bare server for loads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.peers.options import Options
from bench.peers.process import Floor


@pytest.fixture
def floor() -> Iterator[Floor]:
    """Yield a server that decodes and answers, and does nothing else."""
    server = Floor(Options(runs=3, seconds=0.2, quick=True))
    server.start()
    yield server
    server.stop()
