"""Two runs side by side."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bench.swarm.counted import needs
from bench.swarm.counted.needs import Need
from bench.swarm.told.compare import NoReport, compare, html, markdown, show
from bench.swarm.told.comparison import Comparison, Row
from bench.swarm.told.report import report
from tests.swarm.histories import RUN_ID, Story, World

OURS = World(seed=1, members=3, seconds=60, fault_for_s=1.0)
KAFKA = World(seed=1, members=3, seconds=60, fault_for_s=8.0, consumer_groups=0, faulted_groups=2)


def run_of(directory: Path, world: World, **run: Any) -> Path:
    directory.mkdir()
    story = Story(world)
    story.write(directory)
    if "cores" in run:
        (directory / needs.FILE).write_text(json.dumps(Need(1.0, run.pop("cores"), 250.0, 3)))
    run = {"run_id": RUN_ID, "scenario": "steady", "seed": 1, "is_finished": True, **run}
    (directory / "run.json").write_text(json.dumps(run | {"began_us": world.began_us}))
    report(directory)
    return directory


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    directory = tmp_path_factory.mktemp("runs")
    ours = run_of(directory / "ours", OURS, software="groupd", seed=2)
    kafka = run_of(directory / "kafka", KAFKA, software="Kafka | 3 brokers", is_finished=False, cores=0.5)
    return compare([ours, kafka / "report.json"])


def rows(comparison: Comparison, heading: str) -> dict[str, Row]:
    (part,) = (part for part in comparison.parts if part.heading == heading)
    return {row.label: row for row in part.rows}


def test_figures_stand_side_by_side_with_their_ratio(both: Comparison) -> None:
    gaps = rows(both, "Time without coordinator, by group and gap")
    assert gaps["max"].a == pytest.approx(1_007, abs=20)
    assert gaps["max"].b == pytest.approx(8_007, abs=20)
    assert gaps["max"].ratio == pytest.approx(0.126, abs=0.01)
    assert (gaps["times"].a, gaps["times"].b) == (2, 2)
    membership = rows(both, "Membership")
    assert membership["rebalances"].cells == ("rebalances", "12", "4", "3.00")
    assert membership["memberships lost"].cells == ("memberships lost", "0", "0", "")


def test_what_one_run_has_not_is_a_dash_and_is_said(both: Comparison) -> None:
    watched = rows(both, "The server's processes")
    assert watched["cores, mean"].cells == ("cores, mean", "-", "0.50", "")
    beats = rows(both, "ConsumerGroupHeartbeat: latency")
    assert beats["p50"].cells[2:] == ("-", "")
    assert "B never sent: ConsumerGroupHeartbeat." in both.remarks
    assert "Not the same seed: 2 and 1." in both.remarks
    assert any(remark.startswith("B: The run did not end as planned") for remark in both.remarks)
    assert not any(remark.startswith("Not the same scenario") for remark in both.remarks)


def test_a_terminal_a_readme_and_a_browser_show_the_same_figures(both: Comparison) -> None:
    with io.StringIO() as screen:
        show(Console(file=screen, width=100), both)
        terminal = screen.getvalue()
    table, page = markdown(both), html(both)
    columns = {line.count("|") for line in table.splitlines() if line.startswith("|")}
    assert columns == {5}
    bare = re.sub(r' data-label="[^"]*"', "", page)
    for part in both.parts:
        for row in part.rows:
            label, *cells = row.cells
            assert f"| {' | '.join((label, *cells))} |" in table
            assert "".join(f"<td>{cell}</td>" for cell in (label, *cells)) in bare
            assert any(line.split() == f"{label} {' '.join(cells)}".split() for line in terminal.splitlines())


@pytest.mark.parametrize(
    ("text", "told"),
    [(None, "there is no such report"), ("{", "is no report"), ('{"version": 99}', "no report of version 1")],
)
def test_what_is_no_report_is_said_with_its_file(tmp_path: Path, text: str | None, told: str) -> None:
    path = tmp_path / "report.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(NoReport, match=told) as refused:
        compare([tmp_path, tmp_path])
    assert str(path) in str(refused.value)
