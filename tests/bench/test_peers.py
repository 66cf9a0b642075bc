"""`groupd bench peers`: what it makes of figures, loads against a bare server, and what wrong flags get."""

from __future__ import annotations

import io
import json
import socket
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from rich.console import Console
from typer.testing import CliRunner

from actors.network.wire import request_frame
from bench.cli import app
from bench.peers import load, markdown, table
from bench.peers.compared import plots, results
from bench.peers.compared.registry import BY_DEFAULT
from bench.peers.generator import Connection, error_codes
from bench.peers.load import Target
from bench.peers.options import Failed, Options, Refused
from bench.peers.peer import Peer
from bench.peers.plan import BEHIND, SATURATED, Command, Outcome, Report, Row, Sample, Scenario
from bench.peers.process import Floor
from bench.peers.runner import Runner
from bench.peers.works import heartbeats, offsets

OPTIONS = Options(runs=3, seconds=0.2, quick=True)


BEATS = Row(
    work=1,
    heading="Heartbeat",
    label="500/s, 500 connections",
    shown=("cpu_us", "own_cpu_us"),
    goals={("groupd-1", "cpu_us"): 12},
    rate=500.0,
)
KILLS = Row(work=5, heading="SIGKILL", label="300 groups", shown=("p50_s",))
CALL = Command("groupd bench peers", "2026-11-22 01:00 UTC", runs=3, seconds=0.2, is_whole=True)


def outcome(row: Row, peer: str, name: str, *values: float, marks: tuple[str, ...] = ()) -> Outcome:
    samples = [
        Sample(
            figures={name: value, "per_s": 500.0},
            requests=100,
            foreign=0.2,
            percentiles=(value, 2 * value),
            marks=frozenset(marks),
        )
        for value in values
    ]
    return Outcome(row=row, peer=peer, samples=samples)


def report_of(*outcomes: Outcome) -> Report:
    return Report(
        machine="a machine",
        cores=2,
        quick=False,
        commands=[CALL],
        peers={"groupd-1": "groupd 0.1", "kafka-1": "Kafka 4.3.1"},
        skipped={"kfake": "go not found"},
        outcomes=list(outcomes),
    )


@pytest.fixture
def report() -> Report:
    return report_of(
        outcome(BEATS, "groupd-1", "cpu_us", 14.0, 10.0, 9.0),
        outcome(BEATS, "kafka-1", "cpu_us", 20.0, 21.0, 19.0, marks=(SATURATED,)),
        Outcome(row=KILLS, peer="groupd-1", refused="nobody takes over"),
        outcome(KILLS, "kafka-1", "p50_s", 9.7),
    )


def printed(report: Report) -> list[str]:
    with io.StringIO() as screen:
        table.show(Console(file=screen, width=120), report)
        return screen.getvalue().splitlines()


def test_the_table_has_medians_ratios_goals_and_reasons(report: Report) -> None:
    lines = printed(report)
    assert any(line.split() == ["1", "Heartbeat", "·", "us", "CPU", "a", "request"] for line in lines)
    (beats,) = (line.split() for line in lines if line.startswith("500/s"))
    (kills,) = (line.split() for line in lines if line.startswith("300 groups"))
    assert beats == ["500/s,", "500", "connections", "10.0", "20.0*", "0.50", "12"]
    assert kills == ["300", "groups", "-", "9.70"]
    assert "groupd-1: nobody takes over (SIGKILL, 300 groups)" in lines
    assert "kfake skipped: go not found" in lines
    assert f"* kafka-1: {SATURATED} (Heartbeat, 500/s, 500 connections)" in lines
    assert any("idle peers had 20% of the processors: measure again" in line for line in lines)


def test_the_table_of_all_peers_fits_a_wide_screen() -> None:
    values = {peer: outcome(BEATS, peer, "cpu_us", 12_345.0, marks=(BEHIND,)) for peer in BY_DEFAULT}
    whole = report_of(*values.values())
    whole.peers = dict.fromkeys(BY_DEFAULT, "1.0")
    (heading,) = (line for line in printed(whole) if "groupd-1 groupd-3" in line)
    (figures,) = (line for line in printed(whole) if line.startswith("500/s"))
    assert figures.split()[3:10] == ["12,345*"] * len(BY_DEFAULT)
    assert heading.split()[-1] == "goal"


def test_an_unsynced_tier_stands_beside_kafka_where_it_was_measured() -> None:
    whole = report_of(outcome(BEATS, "unsynced-3", "cpu_us", 30.0), outcome(BEATS, "kafka-3", "cpu_us", 40.0))
    whole.peers = dict.fromkeys(("unsynced-3", "kafka-3"), "1.0")
    (heading,) = (line for line in printed(whole) if "unsynced-3 kafka-3" in " ".join(line.split()))
    (figures,) = (line for line in printed(whole) if line.startswith("500/s"))
    assert heading.split()[-2:] == ["u3/3", "goal"]
    assert "0.75" in figures.split()


def test_the_markdown_is_one_table(report: Report) -> None:
    lines = markdown.text(report).splitlines()
    assert "| **Heartbeat** | us CPU a request |  |  |  |  |" in lines
    assert "| 500/s, 500 connections |  | 10.0 | 20.0* | 0.50 |  |" in lines
    assert "* kfake skipped: go not found" in lines


def test_a_call_that_was_stopped_says_that_there_may_be_fewer_runs(report: Report) -> None:
    assert "medians of 3 interleaved runs" in table.conditions(report)
    report.commands[0] = CALL._replace(is_whole=False)
    assert "medians of at most 3 interleaved runs" in table.conditions(report)


def test_the_json_has_every_run_with_least_median_and_most(report: Report) -> None:
    told = json.loads(json.dumps(results.as_json(report)))
    ours, theirs, refused, _ = told["outcomes"]
    assert ours["figures"]["cpu_us"] == {
        "unit": "us CPU a request",
        "higher_is_better": False,
        "min": 9.0,
        "median": 10.0,
        "max": 14.0,
        "ours_divided_by_it": None,
        "goal": 12,
    }
    assert [sample["figures"]["cpu_us"] for sample in ours["samples"]] == [14.0, 10.0, 9.0]
    assert theirs["figures"]["cpu_us"]["ours_divided_by_it"] == 0.5
    assert theirs["samples"][0]["marks"] == [SATURATED]
    assert (refused["refused"], refused["figures"]) == ("nobody takes over", {})
    assert told["skipped"] == {"kfake": "go not found"}


def test_what_was_written_is_read_back(report: Report, tmp_path: Path) -> None:
    results.write(report, tmp_path)
    again = results.read(tmp_path)
    assert again is not None
    assert results.as_json(again) == results.as_json(report)
    assert printed(again) == printed(report)


def test_a_later_call_adds_its_works_to_what_is_there(report: Report) -> None:
    later = report_of(outcome(KILLS, "groupd-1", "p50_s", 0.2), Outcome(row=BEATS, peer="kafka-1"))
    later.skipped = {}
    both = results.merged(report, later)
    assert [(each.row.work, each.peer, len(each.samples), each.command) for each in both.outcomes] == [
        (1, "groupd-1", 3, 0),
        (1, "kafka-1", 3, 0),
        (5, "groupd-1", 1, 1),
        (5, "kafka-1", 1, 0),
    ]
    assert both.commands == [CALL, CALL]
    assert both.ratio(KILLS, "p50_s", "groupd-1", "kafka-1") is None, "not measured by one call"
    assert both.skipped == {"kfake": "go not found"}


def test_figures_of_another_machine_are_not_mixed_in(report: Report, tmp_path: Path) -> None:
    results.refuse_to_mix(report, "a machine", quick=False)
    with pytest.raises(results.Mismatch, match="another machine"):
        results.refuse_to_mix(report, "another", quick=False)
    with pytest.raises(results.Mismatch, match="--quick"):
        results.refuse_to_mix(report, "a machine", quick=True)
    (tmp_path / results.NAME).write_text('{"outcomes": []}')
    with pytest.raises(results.Mismatch, match="holds no report"):
        results.read(tmp_path)


def test_pictures_are_drawn_of_what_there_is(report: Report, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    storm = Row(work=3, heading="Storm", label="1 group", shown=("seconds",))
    report.outcomes.append(outcome(storm, "groupd-1", "seconds", 0.3, 0.2))
    drawn = plots.draw(report, tmp_path)
    assert [path.name for path in drawn] == ["heartbeats.png", "stable.png", "failover.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in drawn)


def test_errors_are_found_at_any_depth_of_an_answer() -> None:
    answer = {"error_code": 0, "topics": [{"partitions": [{"error_code": 3}, {"error_code": 0}]}]}
    assert error_codes(answer) == [3]


# A bare server under load.


def test_a_closed_loop_keeps_every_connection_busy(floor: Floor) -> None:
    told = load.run(floor, heartbeats.classic_targets(floor, 10), 0.2)
    assert told.requests > 10
    assert told.figures["per_s"] == told.requests / 0.2
    assert 0 < told.figures["p50_ms"] <= told.figures["p99_ms"]


def test_an_open_loop_sends_at_its_rate(floor: Floor) -> None:
    told = load.run(floor, offsets.commit_targets(floor, 10, 10), 0.5, rate=200)
    assert told.requests <= 101
    assert BEHIND in told.marks or told.requests >= 95


@pytest.mark.parametrize("partitions", [1, 10])
def test_what_members_commit_rises_in_every_partition(floor: Floor, partitions: int) -> None:
    (target,) = offsets.commit_targets(floor, 1, partitions)
    assert target.rising is not None
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = Connection(
            server.getsockname()[:2],
            target.api,
            8,
            [b64encode(target.frames[0]).decode()],
            list(target.rising),
        )
        accepted, _ = server.accept()
        frames = []
        for _ in range(3):
            connection.send(0.0)
            frames.append(accepted.recv(len(target.frames[0]), socket.MSG_WAITALL))
        accepted.close()
        connection.socket.close()
    first, stride, count = target.rising
    committed = [
        [int.from_bytes(frame[at : at + 8], "big") for at in range(first, first + stride * count, stride)]
        for frame in frames
    ]
    assert [len(set(each)) for each in committed] == [1] * 3
    assert count == partitions
    assert committed[0][0] < committed[1][0] < committed[2][0]
    rest = {frame[:first] + frame[first + 8 : first + stride] for frame in frames}
    assert len(rest) == 1, "nothing else changes"


def test_what_opens_a_connection_does_not_count_and_the_ends_of_a_load_are_told(floor: Floor) -> None:
    (target,) = heartbeats.classic_targets(floor, 1)
    target = target._replace(opening=[target.frames[0]] * 3)
    ends: list[float] = []
    pace = load.Pace(0.2, rate=50, ramp_s=0.1)
    driven = load.drive_at(
        pace, floor.generators, floor.pids(), [target], lambda: ends.append(time.monotonic())
    )
    assert 0 < sum(each["requests"] for each in driven.told) <= 11
    assert len(ends) == 2
    assert ends[1] - ends[0] > pace.seconds * 0.9
    assert list(driven.cpu_s) == floor.pids()


def test_a_server_that_hangs_up_gives_no_figure(floor: Floor) -> None:
    host, port = floor.bootstrap[0]
    frame = request_frame("leave_group", 0, 1, "bench", {"group_id": "g", "member_id": "m"})
    with pytest.raises(Failed, match="the server hung up"):
        load.run(floor, [Target(host, port, "leave_group", 0, [frame])], 0.2)


def test_what_a_peer_cannot_do_is_asked_once_and_told() -> None:
    said: list[str] = []
    floor = Floor(OPTIONS)
    with Runner([floor], OPTIONS, said.append) as runner:
        (beats,) = (
            each
            for each in heartbeats.scenarios(OPTIONS)
            if each.name.startswith("Consumer") and "closed" in each.name
        )
        (told,) = runner.run([beats])
    assert (told.refused, told.samples) == ("it has no groups", [])


def scenario(measure: Callable[[Peer], Sample]) -> Scenario:
    return Scenario(work=1, heading="Heartbeat", label="once", shown=("cpu_us",), measure=measure)


def test_a_failure_costs_one_run_and_the_peer_is_started_anew() -> None:
    pids: list[int] = []

    def measure(peer: Peer) -> Sample:
        pids.extend(peer.pids())
        if len(pids) == 2:
            raise OSError("the server hung up")
        return Sample(figures={"cpu_us": 1.0}, requests=1)

    with Runner([Floor(OPTIONS)], OPTIONS, lambda _: None) as runner:
        (told,) = runner.run([scenario(measure)])
    assert (len(told.samples), told.failures) == (OPTIONS.runs, ["the server hung up"])
    assert pids[0] == pids[1] != pids[2] == pids[3]


def test_what_fails_twice_is_given_up_and_the_next_scenario_is_measured() -> None:
    def fails(peer: Peer) -> Sample:
        raise ValueError("not even a number")

    def refuses(peer: Peer) -> Sample:
        raise Refused("never heard of it")

    kept: list[int] = []
    with Runner([Floor(OPTIONS)], OPTIONS, lambda _: None, lambda: kept.append(1)) as runner:
        runner.run(
            [
                scenario(fails),
                scenario(refuses),
                scenario(lambda peer: Sample(figures={"cpu_us": 1.0}, requests=1)),
            ]
        )
        failed, refused, told = runner.outcomes
    assert (failed.failures, failed.samples) == (["not even a number"] * 2, [])
    assert (refused.refused, refused.failures) == ("never heard of it", [])
    assert len(told.samples) == OPTIONS.runs
    assert len(kept) == 3, "progress is told after each"


# The command.


def test_a_wrong_flag_is_one_line() -> None:
    for flags, line in (
        (["--peers", "kafka-2"], "groupd: --peers kafka-2: groupd-1, groupd-3, unsynced-1, "),
        (["--work", "1,10"], "groupd: --work 10: 1, 2, 3, 4, 5, 6, 7, 8, 9 are allowed"),
    ):
        ended = CliRunner().invoke(app, ["peers", *flags])
        assert (ended.exit_code, ended.output.count("\n")) == (2, 1)
        assert ended.output.startswith(line)


def test_the_command_measures_the_floor_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = psutil.Process().children(recursive=True)
    out = tmp_path / "out"
    flags = ("--quick", "--seconds", "0.2", "--peers", "floor,kafka-1", "--work", "2", "--out", str(out))
    ended = CliRunner().invoke(app, ["peers", *flags], env={"KAFKA_HOME": str(tmp_path)})
    assert ended.exit_code == 0, ended.output
    assert "kafka-1 skipped: no jars of Kafka" in ended.output
    assert "| **Offsets, closed loop** | us CPU a request |" in (out / "peers.md").read_text()
    told = json.loads((out / "peers.json").read_text())
    commits = [each for each in told["outcomes"] if each["label"].startswith("OffsetCommit")]
    assert [len(each["samples"]) for each in commits] == [1, 1]  # in a closed loop, and at a rate
    left = set(psutil.Process().children(recursive=True)) - set(before)
    assert [child for child in left if child.status() != psutil.STATUS_ZOMBIE] == []
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.timeout(900)
def test_our_tier_does_all_work_in_small(tmp_path: Path) -> None:
    flags = ("--quick", "--peers", "groupd-3", "--work", "1,2,3,4,5,9", "--out", str(tmp_path))
    ended = CliRunner().invoke(app, ["peers", *flags])
    assert ended.exit_code == 0, ended.output
    told = json.loads((tmp_path / "peers.json").read_text())
    assert [(each["refused"], each["failures"]) for each in told["outcomes"]] == [(None, [])] * 11
