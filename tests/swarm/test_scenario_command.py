"""`groupd swarm`: what it lists and shows, what wrong flags get, and what is seen while a swarm runs."""

from __future__ import annotations

import io
import json
import socket
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from bench.swarm.planning import scenario
from bench.swarm.rows.second import Second
from bench.swarm.told import screen
from bench.swarm.told.screen import Head, Screen
from cluster.cli import app
from storage.history.call_files import CallWriter

WITH_OWN_JUDGE = ("client-assignors", "push")
HEAD = Head("steady", "127.0.0.1:9092", 7, 60.0, 100)
SECOND = Second(
    at_s=12.0,
    requests_s=1234.0,
    errors_s=2.0,
    commits_s=20.0,
    members_by_state={"joining": 10, "stable": 90, "gone": 0},
    groups_stable=18,
    groups=20,
    moved_partitions=1120,
    p50_ms=1.25,
    p99_ms=9.5,
    requests=15_000,
    errors=24,
    commits=240,
)


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["swarm", *arguments])
    assert result.exit_code == 2, result.output
    return result.stderr.strip()


def test_the_list_names_every_ready_scenario() -> None:
    listed = CliRunner().invoke(app, ["swarm", "list"]).stdout.splitlines()
    names = [*scenario.names(), *WITH_OWN_JUDGE]
    assert [line.split()[0] for line in listed] == ["SCENARIO", *names]
    shown = json.loads(CliRunner().invoke(app, ["swarm", "list", "--json"]).stdout)
    assert [each["name"] for each in shown] == names
    assert {each["name"]: each["members"] for each in shown}["steady"] == 100


def test_a_shown_scenario_is_a_file_to_begin_with(tmp_path: Path) -> None:
    text = CliRunner().invoke(app, ["swarm", "show", "mixed"]).stdout
    (tmp_path / "mixed.toml").write_text(text)
    assert scenario.load(str(tmp_path / "mixed.toml")) == scenario.load("mixed")


def test_wrong_flags_are_told_and_nothing_is_run(tmp_path: Path) -> None:
    out = tmp_path / "run"
    (tmp_path / "bad.toml").write_text("duration_s = 0\n")
    assert "stedy: there is no such scenario; did you mean steady?" in refused("run", "stedy")
    assert f"{tmp_path}/bad.toml:1: duration_s: 0 is not" in refused("run", f"{tmp_path}/bad.toml")
    assert "one of --minutes and --seconds" in refused("run", "--minutes", "1", "--seconds", "30")
    assert "there is no such protocol; did you mean range?" in refused("run", "--protocol", "rang")
    assert "deploy begins after 10 s, and the run ends after 8" in refused(
        "run", "rolling-deploy", "--seconds", "8"
    )
    assert "--bootstrap nowhere: host:port is expected" in refused("run", "--bootstrap", "nowhere")
    assert "cannot be read" in refused("run", "--command-config", str(tmp_path / "none"), "--out", str(out))
    assert "one of --bootstrap, --data-dir and --tier" in refused(
        "run", "--bootstrap", "k:1", "--tier", "1", "--out", str(out)
    )
    assert f"there is no tier in {tmp_path}" in refused("run", "--data-dir", str(tmp_path), "--out", str(out))
    assert not out.exists()


def test_a_directory_that_has_a_run_is_not_used_again(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    assert "there is a run already" in refused("run", "--out", str(tmp_path))


def test_a_run_in_which_nothing_was_asked_is_no_success(tmp_path: Path) -> None:
    CallWriter(tmp_path / "worker-0.calls", "run").end(1)
    result = CliRunner().invoke(app, ["swarm", "report", str(tmp_path)])
    assert result.exit_code == 2
    assert "No request was ever sent." in result.stdout
    assert "holds no file of calls" in refused("report", str(tmp_path / "none"))
    assert "there is no such report" in refused("compare", str(tmp_path), str(tmp_path / "none"))


def test_nobody_at_the_address_is_told_in_a_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    told = refused("run", "--bootstrap", f"127.0.0.1:{port}", "--out", str(tmp_path / "run"))
    assert told.startswith(f"groupd: no Kafka can be reached at 127.0.0.1:{port}")
    assert len(told.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_without_a_terminal_there_is_a_line_every_ten_seconds() -> None:
    written = io.StringIO()
    with Screen(Console(file=written, force_terminal=False), HEAD) as show:
        for at_s in range(1, 33):
            show(SECOND._replace(at_s=float(at_s), requests=100 * at_s, errors=0, commits=5 * at_s))
    first, *lines = written.getvalue().splitlines()
    assert first == "steady on 127.0.0.1:9092, seed 7: 100 members, 60 s"
    assert [line.split(":")[0] for line in lines] == ["10 s", "20 s", "30 s", "32 s"]
    assert lines[1] == (
        "20 s: 2,000 requests (+100/s), 0 errors (+0/s), 100 commits (+5/s); "
        "p50 1.2 ms, p99 9.5 ms in the worst second; "
        "members: 90 stable, 10 joining; 18 of 20 groups stable; "
        "1,120 partitions moved since groups had started"
    )


def test_a_line_tells_the_lag_of_groups_if_records_are_written() -> None:
    """Once only the report told the lag, after the run."""
    assert screen.line([SECOND._replace(lag=1_500)]).endswith("; groups 1,500 records behind")
    assert "behind" not in screen.line([SECOND])
    console = Console(file=io.StringIO(), width=120, record=True)
    console.print(screen.board(HEAD, [SECOND._replace(lag=750), SECOND._replace(lag=1_500)]))
    shown = [" ".join(line.split()) for line in console.export_text().splitlines()]
    assert shown[-1] == "lag 1,500 records ▄█"


def test_what_happened_between_two_lines_is_seen_in_the_next() -> None:
    """Lines were snapshots of a second: "0 errors/s" while 724 requests had been refused."""
    written = io.StringIO()
    with Screen(Console(file=written, force_terminal=False), HEAD) as show:
        for at_s in range(1, 21):
            is_bad = at_s == 14
            errors = 724 if at_s >= 14 else 0
            second = SECOND._replace(at_s=float(at_s), errors_s=724.0 * is_bad, errors=errors)
            show(second._replace(groups_stable=3 if is_bad else 18, p99_ms=950.0 if is_bad else 9.5))
    line = written.getvalue().splitlines()[-1]
    assert "724 errors (+72/s)" in line
    assert "p99 950.0 ms in the worst second" in line
    assert "18 of 20 groups stable (at times 3)" in line


@pytest.mark.parametrize("width", [60, 120])
def test_a_board_shows_the_last_second_and_the_course(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, record=True)
    console.print(screen.board(HEAD, [SECOND._replace(requests_s=0.0), SECOND]))
    shown = [" ".join(line.split()) for line in console.export_text().splitlines()]
    assert shown[0] == "steady on 127.0.0.1:9092, seed 7"
    assert shown[1].endswith("0:12 of 1:00")
    assert shown[2:] == [
        "requests/s 1,234 (15,000 in all) █",
        "errors/s 2 (24 in all) ██",
        "commits/s 20 (240 in all) ██",
        "p50 1.2 ms ██",
        "p99 9.5 ms ██",
        "groups 18 of 20 stable ██",
        "moved since start 1,120 ██",
        "members 90 stable, 10 joining",
    ]


def test_on_a_terminal_the_board_is_drawn_and_stays() -> None:
    written = io.StringIO()
    with Screen(Console(file=written, force_terminal=True, width=100), HEAD) as show:
        show(SECOND)
    assert "connects" in written.getvalue()
    assert "90 stable, 10 joining" in written.getvalue()


def test_bars_are_never_outside_of_their_blocks() -> None:
    assert screen.bars([]) == screen.bars([0.0, 0.0]) == ""
    assert screen.bars([0.0, 4.0, 8.0, -1.0]) == " ▄█ "


def test_what_has_a_judge_of_its_own_is_listed_and_takes_no_flag_for_nothing() -> None:
    shown = json.loads(CliRunner().invoke(app, ["swarm", "list", "--json"]).stdout)
    assert [each["members"] for each in shown if each["name"] in WITH_OWN_JUDGE] == [50, 50]
    for name in WITH_OWN_JUDGE:
        assert f"{name} has a judge of its own and takes no --client:" in refused(
            "run", name, "--client", "java"
        )
        assert f"{name} has no file" in refused("show", name)
