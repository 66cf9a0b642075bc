"""Two runs of the same schedule are set side by side by kind of fault; of others it is said why not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bench.chaos.availability import Availability, Harm
from bench.chaos.compare import HEADINGS, NotTheSame, compared, markdown
from cluster.cli import app
from storage.history.calls import Fault


def report(software: str, kinds: str, *harms: Harm, seed: int = 1, groups: int = 20) -> dict[str, Any]:
    faults = tuple(Fault(kind, "x", 0, 0) for kind in kinds.split())
    run = {"scenario": {"name": "both"}, "seed": seed, "version": "1", "software": software}
    parts = [Availability(faults, groups, harms).plain()]
    return json.loads(
        json.dumps({"run": run, "verdict": {"summary": f"kept: by {software}"}, "parts": parts})
    )


def harm(kind: str, fault: int, without_s: float, **more: int) -> Harm:
    return Harm(kind, fault, "g", int(without_s * 1e6), **more)


OURS = report(
    "groupd 1",
    "kill-leader clients-reset kill-leader",
    harm("kill-leader", 0, 0.3, refused=5),
    harm("kill-leader", 2, 0.9),
)
KAFKA = report(
    "Apache Kafka 4.3.1, 3 broker(s)",
    "kill-leader clients-reset",
    harm("kill-leader", 0, 7.11, refused=117, members_lost=3, rebalances=1),
    harm("clients-reset", 1, 0, never=1),
)


def test_each_kind_has_a_row_for_each_target_and_the_same_faults_in_it() -> None:
    """Ours met a third fault in the same time: it does not count, for Kafka was spared it."""
    found = compared(OURS, KAFKA)
    assert found.names == ("groupd 1", "Apache Kafka 4.3.1")
    rows = [row.cells for row in found.rows]
    assert rows[0] == ("kill-leader", "groupd 1", "1", "1 of 20", "0.30", "0.30", "5", "0", "0")
    assert rows[1] == ("kill-leader", "Apache Kafka 4.3.1", "1", "1 of 20", "7.11", "7.11", "117", "3", "1")
    assert rows[3][:6] == ("clients-reset", "Apache Kafka 4.3.1", "1", "1 of 20", "never", "never")
    assert [row[0] for row in rows[4:]] == ["all faults", "all faults"]
    assert {len(row) for row in rows} == {len(HEADINGS)}
    assert "The first 2 faults, the same in the same order" in found.remarks[1]
    assert "3 on groupd 1 and 2 on Apache Kafka 4.3.1" in found.remarks[1]


def test_what_only_one_of_them_met_is_left_out_and_said() -> None:
    """A target that cannot have all kinds has another order of faults."""
    tour = report("groupd 1", "links-slow kill-leader", harm("kill-leader", 1, 0.9))
    found = compared(tour, KAFKA)
    assert [row.kind for row in found.rows] == ["kill-leader", "kill-leader"]
    remarks = " ".join(found.remarks)
    assert "Only on groupd 1, and so left out: links-slow." in remarks
    assert "Only on Apache Kafka 4.3.1, and so left out: clients-reset." in remarks
    assert "Not the same faults" in remarks


def test_runs_of_different_schedules_are_not_compared() -> None:
    with pytest.raises(NotTheSame, match="seed 1 and seed 2"):
        compared(OURS, report("Apache Kafka", "kill-leader", seed=2))


def test_two_runs_on_the_same_software_are_told_apart() -> None:
    found = compared(OURS, OURS)
    assert found.names == ("A: groupd 1", "B: groupd 1")
    assert found.remarks[1] == "The same 3 faults in the same order came on both."


def test_the_command_prints_text_markdown_and_json(tmp_path: Path) -> None:
    for name, told in (("ours", OURS), ("kafka", KAFKA), ("other", report("x", "kill-leader", seed=2))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "report.json").write_text(json.dumps(told))
    both = [str(tmp_path / "ours"), str(tmp_path / "kafka")]
    text = CliRunner().invoke(app, ["chaos", "compare", *both])
    assert text.exit_code == 0, text.output
    assert "Apache Kafka 4.3.1" in text.output
    marked = CliRunner().invoke(app, ["chaos", "compare", *both, "--markdown"]).output
    assert marked == markdown(compared(OURS, KAFKA)) + "\n"
    assert "| kill-leader | groupd 1 | 1 |" in marked
    plain = json.loads(CliRunner().invoke(app, ["chaos", "compare", *both, "--json"]).output)
    assert [row["on"] for row in plain["rows"][:2]] == ["groupd 1", "Apache Kafka 4.3.1"]
    refused = CliRunner().invoke(app, ["chaos", "compare", both[0], str(tmp_path / "other")])
    assert refused.exit_code == 2
    assert "do not have the same schedule" in refused.output
