"""`groupd bench raft`: short runs with few records, for the shape of what it tells and leaves behind."""

from __future__ import annotations

import asyncio
import io
import json
import os
import tempfile
from pathlib import Path

import psutil
import pytest
from rich.console import Console
from typer.testing import CliRunner

from bench.cli import app
from bench.raft.engine import Options
from bench.raft.group import Group, ReplicaDied
from bench.raft.measure import GROUPED, NO_SYNC, SYNC, TUNED, TUNED_JOURNAL, Figures, Result
from bench.raft.table import show

BRIEF = ("--seconds", "0.1", "--idle-seconds", "0.1", "--kills", "1", "--journal-mib", "1")


def replicas_left() -> list[int]:
    """Replica processes that this test has started and not ended."""
    children = psutil.Process().children(recursive=True)
    return [child.pid for child in children if child.status() != psutil.STATUS_ZOMBIE]


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.slow
def test_every_figure_of_ours_is_measured_and_nothing_stays_behind(temporary: Path) -> None:
    before = replicas_left()
    ended = CliRunner().invoke(app, ["raft", "--no-stock", "--json", *BRIEF])
    assert ended.exit_code == 0, ended.output
    told = json.loads(ended.output)
    no_sync, synced = told["variants"]
    assert [no_sync["problems"], synced["problems"]] == [[], []]
    assert set(no_sync["per_s"]) == set(synced["per_s"]) == {"1", "32", "512"}
    assert len(synced["failover_ms"]) == len(synced["transfer_ms"]) == 1
    assert no_sync["recovered_mib"] >= 1
    assert all(goal["ours"] is not None for goal in told["goals"])
    assert replicas_left() == before
    # Which ports were given out is kept for all processes of the user.
    assert [each.name for each in temporary.iterdir()] in ([], [f"groupd-ports-{os.getuid()}"])


def test_the_table_says_which_goals_are_met_and_how_far_stock_is_behind() -> None:
    ours = Figures(
        NO_SYNC.name, p50_ms=0.1, per_s={32: 100_000.0}, leader_us={32: 2.0}, follower_us={32: 1.0}
    )
    stock = Figures(TUNED.name, p50_ms=0.4, per_s={32: 10_000.0}, problems=["replica 2 has ended"])
    result = Result({each.name: each for each in (ours, Figures(SYNC.name), stock)}, 1.0, 0.2)
    with io.StringIO() as screen:
        show(Console(file=screen, width=140), result, "a machine")
        lines = screen.getvalue().splitlines()
    (latency,) = (line.split() for line in lines if line.startswith("commit, 1 outstanding, p50, no sync"))
    (speed,) = (line.split() for line in lines if line.startswith("32 outstanding, no sync"))
    (synced,) = (line.split() for line in lines if line.startswith("32 outstanding, sync"))
    assert latency[-7:] == ["0.10", "<=", "0.15", "ms", "yes", "0.40", "4.0"]
    assert speed[-7:] == ["100,000", ">=", "200,000", "records/s", "no", "10,000", "10.0"]
    assert synced[-7:] == ["-", ">=", "50,000", "records/s", "-", "-", "-"]
    assert any("measure again on a quiet machine" in line for line in lines)
    assert lines[-1] == f"{TUNED.name}: replica 2 has ended"


@pytest.mark.parametrize("options", [TUNED_JOURNAL.options, GROUPED.options])
def test_stock_pysyncobj_carries_the_same_load(options: Options) -> None:
    async def scene() -> dict[str, float]:
        async with Group(options, 3) as group:
            leader = await group.leader()
            return await leader.ask("load", outstanding=32, seconds=0.1)

    told = asyncio.run(scene())
    assert told["records"] > 32
    assert told["per_s"] > 0


def test_a_replica_that_dies_is_told_with_its_last_words() -> None:
    async def scene() -> None:
        async with Group(NO_SYNC.options, 1) as group:
            (replica,) = group.replicas
            await replica.ask("somersault")

    with pytest.raises(ReplicaDied, match="'somersault' is not something to do"):
        asyncio.run(scene())
