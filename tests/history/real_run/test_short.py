"""Half a minute of a real tier under a swarm, explained by its history alone; no Spark, no Java."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.history.real_run import checks
from tests.history.real_run.answers import answers
from tests.history.real_run.stage import play

HEARTBEAT_MS = 500


@pytest.mark.ray
@pytest.mark.timeout(300)
def test_history_answers_what_the_swarm_saw(tmp_path: Path) -> None:
    """A rolling deploy, a slow member and a leader's death: who caused the third rebalance, how long
    partitions had no owner, and which commit went back."""
    played = play(
        tmp_path,
        Path(__file__).with_name("short.toml"),
        duration_s=None,
        partitions=2,
        segment_ms=300,
        heartbeat_ms=HEARTBEAT_MS,
    )
    told = answers(played.folder)
    checks.check_kill(told, played)
    checks.check_triggers(told, played)
    checks.check_gaps(told, played, HEARTBEAT_MS)
    checks.check_commits(told, played)
