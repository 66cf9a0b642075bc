"""Our tier and Kafka under the same swarms: the table that comes of it, and what servers need meanwhile."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from bench.ground.throwaway import family
from bench.swarm.counted import needs as needs_file
from bench.swarm.counted.needs import Need
from bench.swarm.load.watch import Watch
from bench.swarm.rows.second import Second
from bench.swarm.told import server
from bench.swarm.told.comparison import Comparison
from bench.swarm.told.report import report
from bench.tier import swarms_table
from tests.swarm.histories import RUN_ID, Story, World

SERVERS = ("groupd-3", "kafka-3")
SOFTWARE = {"groupd-3": "groupd 0.1.0", "kafka-3": "Apache Kafka 4.3.1"}
SECOND = Second(0.0, 0.0, 0.0, 0.0, {}, 0, 0, 0, 0.0, 0.0)


def found(*steps: tuple[str, dict[str, Any], dict[str, Any]], **skipped: str) -> Comparison:
    reports = {
        step: {name: told for name, told in zip(SERVERS, pair, strict=True) if told} for step, *pair in steps
    }
    return swarms_table.comparison(SERVERS, SOFTWARE, skipped, reports)


def told(stable_ms: float, lost: int, **more: Any) -> dict[str, Any]:
    figures = {"stable": {"p50_ms": stable_ms}, "totals": {"members_lost": lost, "moved": 0}}
    return {"figures": figures, "is_fine": True, "run": {"seed": 1}, **more}


def test_a_table_has_a_part_for_every_swarm_and_no_zeros() -> None:
    table = found(("steady", told(300.0, 0), told(3_000.0, 2)))
    (part,) = table.parts
    assert table.names == ("A: groupd 0.1.0", "B: Apache Kafka 4.3.1")
    assert [row.cells for row in part.rows] == [
        ("time to stable, p50 of groups", "300 ms", "3.00 s", "0.10"),
        ("memberships lost", "0", "2", "0.00"),
    ]


def test_of_the_swarm_in_which_a_leader_was_killed_the_table_says_what_that_did() -> None:
    kill = {"groups": 7, "noticed": 7, "without_p50_ms": 400.0, "without_max_ms": 900.0, "members_lost": 0}
    table = found(
        ("killed", told(300.0, 0, kill=kill), told(300.0, 0, kill=kill | {"without_max_ms": 1_800}))
    )
    (part,) = table.parts
    assert [row.label for row in part.rows] == [label for label, _, _ in swarms_table.KILLED[:4]]
    assert part.rows[3].cells[1:] == ("900 ms", "1.80 s", "0.50")


def test_a_server_that_did_not_run_has_dashes_and_a_reason() -> None:
    table = found(("steady", told(300.0, 1), {}), **{"kafka-3": "java not found"})
    assert {row.cells[2] for row in table.parts[0].rows} == {"-"}
    assert "kafka-3 was skipped: java not found" in table.remarks


def test_what_a_judge_found_is_said_once() -> None:
    bad = told(300.0, 0, is_fine=False, verdict={"summary": "1 promise broken"})
    table = found(("steady", bad, told(1.0, 0)), ("storm", bad, told(1.0, 0)))
    assert [remark for remark in table.remarks if "broken" in remark] == ["steady: A: 1 promise broken"]


def test_a_watched_server_is_in_the_report(tmp_path: Path) -> None:
    story = Story(World())
    story.write(tmp_path)
    run = {"run_id": RUN_ID, "is_finished": True, "began_us": story.world.began_us}
    (tmp_path / "run.json").write_text(json.dumps(run))
    lines = [json.dumps([1.0, 0.5, 100.0, 3]), json.dumps([2.0, 1.5, 300.0, 4]), "[3.0, 1"]
    (tmp_path / needs_file.FILE).write_text("\n".join(lines))
    outcome = report(tmp_path)
    assert json.loads((tmp_path / "report.json").read_text())["server"] == {
        "seconds": 2,
        "cores_mean": 1.0,
        "cores_max": 1.5,
        "memory_mib_mean": 200.0,
        "memory_mib_max": 300.0,
        "processes_max": 4,
    }
    assert "server: 1.00 cores, at most 1.50; 200 MiB, at most 300 MiB, in 4 processes" in outcome.lines
    assert "The server" in outcome.page.read_text()


def test_watching_a_process_writes_a_line_a_second(tmp_path: Path) -> None:
    with Watch(tmp_path, lambda: [process.pid for process in family(os.getpid())]) as watch:
        for at_s in (1.0, 2.0, 3.5):
            watch(SECOND._replace(at_s=at_s))
    needs = needs_file.read(tmp_path)
    assert [need.at_s for need in needs] == [2.0, 3.5]
    assert all(need.memory_mib > 1 and need.processes >= 1 for need in needs)


def test_a_server_that_is_gone_ends_no_run(tmp_path: Path) -> None:
    def gone() -> list[int]:
        raise OSError("it is down")

    with Watch(tmp_path, gone) as watch:
        watch(SECOND._replace(at_s=1.0))
        watch(SECOND._replace(at_s=2.0))
    assert needs_file.read(tmp_path) == []


@pytest.mark.parametrize("needs", [[], [Need(0.5, 1.0, 10.0, 1)]])
def test_there_is_a_plot_only_of_what_was_watched(needs: list[Need]) -> None:
    assert len(list(server.sections(needs, ()))) == len(needs)
