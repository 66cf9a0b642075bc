"""Costs and checks of the model: accounts of processes, and checks that show nothing."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest
from typer.testing import CliRunner

from bench.capacity import check
from bench.capacity.roles import BROKER, FOLLOWER, LEADER, REST, Used, Watch, count, memory_bytes, ours
from bench.peers.options import Failed
from cluster.cli import app
from storage.history.judge.findings import BROKEN, KEPT

OF = {1: LEADER, 2: LEADER, 3: FOLLOWER, 4: FOLLOWER, 5: BROKER, 6: REST}
USED = Used(
    10.0,
    {1: 1.0, 2: 2.0, 3: 0.5, 4: 0.5, 5: 0.2, 6: 0.1},
    {1: 1_000, 2: 2_000, 3: 7, 4: 7, 5: 500, 6: 9},
    {1: 900, 2: 900, 3: 400, 4: 400, 5: 100, 6: 9},
    {1: 50, 2: 50, 3: 50, 4: 50, 5: 0, 6: 0},
)
"""What processes used in ten seconds."""


def told(**changes: Any) -> dict[str, Any]:
    """Make a swarm's report, of which a check reads this much."""
    settled = changes.get("settled", [300] * 80)
    return {
        "verdict": {"status": changes.get("status", KEPT), "summary": "BROKEN: an offset went back"},
        "run": {"busy": [{"mean": changes.get("busy", 0.2), "most": 0.5}]},
        "figures": {"seconds": {"settled": settled}},
    }


def looked(used: Used | None = USED) -> check.Look:
    look = check.Look(OF, 30, 40)
    look.used = used
    return look


def test_what_a_process_used_is_counted_by_its_role() -> None:
    assert USED.cores(OF, LEADER) == pytest.approx(0.3)
    assert USED.per_s(USED.read, OF, LEADER, BROKER) == 350
    assert count(OF, FOLLOWER) == 2
    assert 6 not in ours(OF)


def test_a_process_that_is_gone_counts_nowhere() -> None:
    assert USED.cores({**OF, 99: LEADER}, LEADER) == pytest.approx(0.3)
    assert memory_bytes({2**22 + 1: LEADER}, LEADER) == 0


def test_this_process_uses_what_it_uses() -> None:
    pid = os.getpid()
    watch, until = Watch([pid], 0.0), time.process_time() + 0.05
    while time.process_time() < until:
        os.write(2, b"")
    used = watch.used(1.0)
    assert used.cores({pid: LEADER}, LEADER) >= 0.05
    assert memory_bytes({pid: LEADER}) > 10e6


def test_the_journal_that_a_leader_writes_is_not_what_it_sends() -> None:
    found = check.figures(USED, OF, {"OffsetCommit": 60.0, "ConsumerGroupHeartbeat": 61.0, "Metadata": 1.0})
    assert (found["commits_s"], found["heartbeats_s"]) == (60.0, 61.0)
    assert found["cores"] == pytest.approx(0.43)
    assert found["disk_bytes_s"] == 20
    assert found["clients_out_bytes_s"] == 190 - 80 / 2


def test_a_swarm_that_was_there_and_kept_its_promises_counts() -> None:
    assert check.proved(300, told(), looked()) == USED


@pytest.mark.parametrize(
    ("report", "look", "words"),
    [
        (told(), looked(None), "ended before its figures"),
        (told(status=BROKEN), looked(), "an offset went back"),
        (told(busy=0.97), looked(), "the swarm itself had 97% of a core"),
        (told(settled=[300] * 35 + [299] + [300] * 40), looked(), "299 of them had settled"),
        (told(settled=[300] * 30), looked(), "nobody had settled"),
        (told(settled=[]), looked(), "nobody had settled"),
    ],
)
def test_a_swarm_that_shows_nothing_is_an_error(report: dict[str, Any], look: check.Look, words: str) -> None:
    with pytest.raises(Failed, match=f"300 members: .*{words}"):
        check.proved(300, report, look)


@pytest.mark.parametrize("members", ["", "many", "300,", "5", "0"])
def test_sizes_that_make_no_sense_start_nothing(members: str) -> None:
    result = CliRunner().invoke(app, ["bench", "capacity-check", "--members", members])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"groupd: --members {members}: ")
