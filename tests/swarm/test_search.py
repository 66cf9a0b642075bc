"""`groupd swarm search` on made-up servers: what a probe shows, and the answer that comes of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from bench.swarm.planning import scenario
from bench.swarm.planning.thresholds import parse_all
from bench.swarm.runs import searched
from bench.swarm.runs.bisection import Range
from bench.swarm.runs.probes import COMMITS, MEMBERS, default_thresholds, load_of, probed
from bench.swarm.runs.reports import EXITS
from bench.swarm.runs.searched import Search, Wanted
from bench.swarm.told.compare import compare
from cluster.cli import app
from tests.swarm.test_compare_many import report

LIMITS = tuple(parse_all(["p99(Heartbeat) < 50ms", "errors <= 0"]))
STEADY = scenario.load("steady")
Server = Callable[[int], dict[str, Any]]


def told(
    p99_ms: float = 10.0,
    *,
    status: str = "kept",
    busy: tuple[float, float] = (0.3, 0.5),
    commits_s: float = 0.0,
) -> dict[str, Any]:
    """A report.json, as far as a search looks at it."""
    found = report(p99_ms)
    found |= {"status": status}
    found |= {"verdict": {"status": status, "summary": f"{status}: as judged"}, "words": []}
    found["run"]["busy"] = [{"mean": busy[0], "most": busy[1]}]
    found["figures"]["totals"] |= {"refused": 0, "lost": 0, "duration_s": 20.0, "requests_s": 50.0}
    found["figures"]["seconds"] = {
        "step_s": 1,
        "settled": [0] * 7 + [10] * 13,
        "commits_s": [0.0] * 8 + [commits_s] * 11 + [0.0],
    }
    return found


class Runs:
    """Stands for `groupd swarm run`: it writes the report that a server gives for each load."""

    def __init__(self, server: Server, by: str = MEMBERS) -> None:
        self.loads: list[int] = []
        self._server = server
        self._by = by

    def __call__(self, **flags: Any) -> None:
        load = flags["members"] if self._by == MEMBERS else flags["commit_interval_ms"]
        self.loads.append(load)
        flags["out"].mkdir(parents=True)
        told = self._server(load)
        (flags["out"] / "report.json").write_text(json.dumps(told))
        if told["status"] != "kept":
            raise typer.Exit(EXITS[told["status"]])


def search(runs: Runs, directory: Path, by: str = MEMBERS, most: int = 2_000, minutes: float = 60) -> Search:
    given = {"scenario": "steady", "groups": None}
    wanted = Wanted(STEADY, by, Range(100, most), LIMITS, given, seed=7, minutes=minutes)
    return searched.searched(runs, wanted, directory, quiet=True)


def slow_from(capacity: int) -> Server:
    return lambda load: told(10.0 if load <= capacity else 80.0)


def test_the_largest_load_and_the_threshold_that_the_next_one_missed_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = search(Runs(slow_from(700)), tmp_path)
    assert found.found.kept is not None
    assert found.found.kept.load == 700
    assert found.exit_code == 0
    searched.show(found, tmp_path)
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "The largest load that was kept: 700 members." in shown
    assert "The smallest that was not: 750 members. p99(Heartbeat) < 50ms: found 80 ms" in shown
    assert any(line.endswith("700 kept 50.0 0.00 30% 10.0 ms 0") for line in shown)
    assert any(line.endswith("750 failed 50.0 0.00 30% 80.0 ms ! 0") for line in shown)
    record = json.loads((tmp_path / "search.json").read_text())
    assert (record["kept"], record["failed"], record["by"], record["words"]) == (700, 750, "members", [])
    assert record["probes"][0]["name"] == "probe-1-100-members"
    assert "p99(Heartbeat) &lt; 50ms" in (tmp_path / "search.html").read_text()
    two = [tmp_path / record["probes"][place]["name"] for place in (0, -1)]
    assert len(compare(two).subjects) == 2


def test_a_failed_probe_is_tried_once_more_unless_a_promise_was_broken(tmp_path: Path) -> None:
    noisy = iter([told(), told(80.0), told(), told(80.0), told(80.0), told(), told(), told()])
    runs = Runs(lambda load: next(noisy))
    assert search(runs, tmp_path / "noisy", most=400).exit_code == 0
    assert runs.loads == [100, 200, 200, 400, 400, 300, 350, 375]
    broken = Runs(lambda load: told(status="broken" if load > 100 else "kept"))
    found = search(broken, tmp_path / "broken", most=200)
    assert broken.loads == [100, 200, 150, 125, 110]
    assert found.exit_code == 1, "a broken promise is never green"


def test_a_swarm_that_was_too_slow_itself_shows_nothing() -> None:
    """The swarm's own process had no time left: what it measured was itself."""
    probe = probed("p", 100, MEMBERS, told(80.0, busy=(0.97, 0.99)), LIMITS)
    assert probe.status == "not shown"
    assert "could not send what was planned: a process of its own was busy 97% all the time" in probe.because
    assert probe.because.endswith("--processes 2 or more")
    fast = probed("p", 100, MEMBERS, told(10.0, busy=(0.97, 0.99)), LIMITS)
    assert fast.status == "not shown"


def test_a_peak_of_the_swarms_own_excuses_a_missed_threshold_but_harms_no_kept_one() -> None:
    assert probed("p", 100, MEMBERS, told(80.0, busy=(0.5, 0.95)), LIMITS).status == "not shown"
    assert probed("p", 100, MEMBERS, told(10.0, busy=(0.5, 0.95)), LIMITS).status == "kept"


def test_what_was_not_shown_is_not_kept() -> None:
    probe = probed("p", 100, MEMBERS, told(status="not shown"), LIMITS)
    assert (probe.status, probe.because) == ("not shown", "not shown: as judged")
    unseen = probed("p", 100, MEMBERS, told(), parse_all(["p99(JoinGroup) < 1s"]))
    assert (unseen.status, unseen.because) == ("not shown", "p99(JoinGroup) < 1s: no JoinGroup was sent")


def test_commits_that_were_planned_have_to_be_acknowledged() -> None:
    """Commits count from the moment at which all members are there; in a short run that is late."""
    there = probed("p", 100, COMMITS, told(commits_s=95.0), LIMITS)
    assert (there.status, there.commits_s) == ("kept", 95.0)
    short = probed("p", 100, COMMITS, told(commits_s=80.0), LIMITS)
    assert (short.status, short.because) == ("failed", "80 of 100 commits a second were acknowledged")
    read_on = told(commits_s=95.0)
    read_on["run"]["plan"]["duration_s"] = 20.0
    read_on["figures"]["seconds"]["commits_s"] += [0.0, 0.0]
    assert probed("p", 100, COMMITS, read_on, LIMITS).commits_s == 95.0, "final reads are no lack of commits"
    late = told(commits_s=95.0)
    late["figures"]["seconds"]["settled"] = [0] * 17 + [10] * 3
    probe = probed("p", 100, COMMITS, late, LIMITS)
    assert probe.status == "not shown"
    assert probe.because == "the members were not there for 3 s: more --seconds show more"


def test_commits_are_scaled_by_the_time_between_those_of_the_same_members() -> None:
    """`steady` has a hundred members that commit every five seconds: twenty commits a second."""
    assert load_of(STEADY, COMMITS, 20, None) == (20, {"commit_interval_ms": 5_000})
    assert load_of(STEADY, COMMITS, 300, None) == (300, {"commit_interval_ms": 333})
    assert load_of(STEADY, COMMITS, 10_000_000, None) == (100_000, {"commit_interval_ms": 1})
    assert load_of(STEADY, MEMBERS, 103, None) == (105, {"members": 103})


def test_a_search_by_commits_ends_though_not_every_load_can_be_had(tmp_path: Path) -> None:
    runs = Runs(lambda interval_ms: told(commits_s=min(100_000 / interval_ms, 3_000.0)), COMMITS)
    found = search(runs, tmp_path, COMMITS, most=1_000_000)
    assert found.found.kept is not None
    assert 3_000 <= found.found.kept.load <= 3_000 / 0.9
    assert found.exit_code == 0


def test_nothing_kept_and_time_over_are_no_answer(tmp_path: Path) -> None:
    nothing = search(Runs(slow_from(50)), tmp_path / "nothing")
    assert next(searched.answer(nothing)) == "No load was kept."
    assert nothing.exit_code == 2
    late = search(Runs(slow_from(700)), tmp_path / "late", minutes=-1)
    assert late.words == ("the -1 minutes were over",)
    assert late.exit_code == 2


def test_what_was_found_is_kept_when_a_probe_is_stopped(tmp_path: Path) -> None:
    found = search(Runs(lambda load: told() | {"words": ["stopped after 3 s"] * (load > 200)}), tmp_path)
    assert found.exit_code == 2
    assert found.found.kept is not None
    assert found.found.kept.load == 200
    assert json.loads((tmp_path / "search.json").read_text())["words"] == [
        "probe 3 was stopped before its end: it does not count"
    ]


def test_a_first_probe_that_cannot_begin_leaves_nothing(tmp_path: Path) -> None:
    def refuse(load: int) -> dict[str, Any]:
        raise typer.Exit(2)

    with pytest.raises(typer.Exit):
        search(Runs(refuse), tmp_path)
    assert not (tmp_path / "search.json").exists()


def test_the_defaults_are_about_commits_where_members_commit() -> None:
    assert default_thresholds(STEADY) == ["errors <= 0", "p99(OffsetCommit) < 100ms"]
    silent = STEADY.model_copy(
        update={"groups": tuple(t.model_copy(update={"commit_interval_ms": 0}) for t in STEADY.groups)}
    )
    assert default_thresholds(silent) == ["errors <= 0"]
    with pytest.raises(scenario.BadScenario, match="nobody commits"):
        load_of(silent, COMMITS, 100, None)


def test_wrong_flags_are_told_and_nothing_is_run(tmp_path: Path) -> None:
    def refused(*flags: str) -> str:
        result = CliRunner().invoke(app, ["swarm", "search", *flags, "--out", str(tmp_path / "new")])
        assert result.exit_code == 2, result.output
        return result.stderr

    assert "--members is what --by members searches" in refused("--members", "10")
    assert "--commit-interval-ms is what" in refused("--by", "commits", "--commit-interval-ms", "10")
    assert "--from 10 is more than --to 5" in refused("--from", "10", "--to", "5")
    assert "--tolerance much: a percentage above 0" in refused("--tolerance", "much")
    assert "there is no figure q99" in refused("--threshold", "q99(Heartbeat) < 1s")
    assert not (tmp_path / "new").exists()
