"""Two runs of the same schedule are set side by side by kind of fault; of others it is said why not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bench.chaos.compare import HEADINGS, NotTheSame, compared, markdown
from cluster.cli import app

HIT = {"faults": 2, "groups": 46, "groups_hit": 40, "never": 0, "members_lost": 3, "rebalances": 1}


def row(kind: str, p50_ms: float | None, max_ms: float | None, **more: int) -> dict[str, Any]:
    return {"kind": kind, "refused": 117, "without": {"p50_ms": p50_ms, "max_ms": max_ms}, **HIT, **more}


def report(software: str, *rows: dict[str, Any], seed: int = 1, played: str = "") -> dict[str, Any]:
    faults = [{"kind": kind} for kind in played.split()]
    run = {
        "scenario": {"name": "both"},
        "seed": seed,
        "version": "1",
        "software": software,
        "played": faults,
    }
    verdict = {"summary": f"kept: by {software}"}
    return {
        "run": run,
        "status": "kept",
        "verdict": verdict,
        "availability": [*rows, row("all faults", 1, 2)],
    }


OURS = report("groupd 1", row("kill-leader", 300, 900), row("links-slow", 1, 2), played="kill-leader x y z")
KAFKA = report(
    "Apache Kafka 4.3.1, 3 broker(s)",
    row("kill-leader", 7_110, None, never=1),
    played="kill-leader x z",
)


def test_each_kind_that_both_met_has_a_row_for_each() -> None:
    found = compared(OURS, KAFKA)
    assert found.names == ("groupd 1", "Apache Kafka 4.3.1")
    ours, kafka = (row.cells for row in found.rows)
    assert ours == ("kill-leader", "groupd 1", "2", "40 of 46", "0.30", "0.90", "117", "3", "1")
    assert kafka[:6] == ("kill-leader", "Apache Kafka 4.3.1", "2", "40 of 46", "7.11", "never")
    assert len(ours) == len(HEADINGS)


def test_what_only_one_of_them_met_is_left_out_and_said() -> None:
    """Two tables with different rows would compare a tier that was spared with one that was not."""
    remarks = " ".join(compared(OURS, KAFKA).remarks)
    assert "Only on groupd 1, and so left out: links-slow." in remarks
    assert "4 on groupd 1 and 3 on Apache Kafka 4.3.1, of which the first 2 are the same" in remarks
    assert "Not every fault" not in " ".join(compared(OURS, OURS).remarks)


def test_runs_of_different_schedules_are_not_compared() -> None:
    with pytest.raises(NotTheSame, match="seed 1 and seed 2"):
        compared(OURS, report("Apache Kafka", seed=2))


def test_two_runs_on_the_same_software_are_told_apart() -> None:
    assert compared(OURS, OURS).names == ("A: groupd 1", "B: groupd 1")


def test_the_command_prints_text_markdown_and_json(tmp_path: Path) -> None:
    for name, told in (("ours", OURS), ("kafka", KAFKA), ("other", report("x", seed=2))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "report.json").write_text(json.dumps(told))
    both = [str(tmp_path / "ours"), str(tmp_path / "kafka")]
    text = CliRunner().invoke(app, ["chaos", "compare", *both])
    assert text.exit_code == 0, text.output
    assert "Apache Kafka 4.3.1" in text.output
    marked = CliRunner().invoke(app, ["chaos", "compare", *both, "--markdown"]).output
    assert marked == markdown(compared(OURS, KAFKA)) + "\n"
    assert "| kill-leader | groupd 1 | 2 |" in marked
    plain = json.loads(CliRunner().invoke(app, ["chaos", "compare", *both, "--json"]).output)
    assert [row["on"] for row in plain["rows"]] == ["groupd 1", "Apache Kafka 4.3.1"]
    refused = CliRunner().invoke(app, ["chaos", "compare", both[0], str(tmp_path / "other")])
    assert refused.exit_code == 2
    assert "do not have the same schedule" in refused.output
