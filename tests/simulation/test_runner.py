"""The runner: what it finds it can show again, and it leaves nothing behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.simulation import replay
from tests.simulation.run import FAULTS_S
from tests.simulation.runner import Task, verdicts
from tests.simulation.trace import Line, Recorder, tail
from tests.simulation.verdict import Case, Verdict, examine, explain

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def red() -> Verdict:
    found = (examine(Case(seed, mutant="CommitsWithoutAMajority")) for seed in range(25))
    return next(verdict for verdict in found if verdict.violation)


def test_the_tail_tells_of_the_replicas_and_the_entry_that_the_violation_names() -> None:
    lines = [
        Line(0.1, "r0", "applies entry 7"),
        Line(0.2, "r1", "applies entry 7"),
        Line(0.3, "r1", "applies entry 8"),
        Line(0.4, "r2", "takes entry 9"),
    ]
    assert tail(lines, "log matching: r0 differs at entry 8") == [lines[0], lines[2]]
    assert tail(lines, "progress: nobody leads") == lines
    assert tail(lines, "progress: nobody leads", lines_max=1) == lines[-1:]


def test_a_recorder_keeps_the_newest_lines_only() -> None:
    recorder = Recorder(lines_max=2)
    for number in range(5):
        recorder(float(number), "r0", "beats")
    assert [line.now for line in recorder.lines] == [3.0, 4.0]


def test_a_replay_file_gives_the_case_back(tmp_path: Path) -> None:
    case = Case(17, replicas=5, mutant="VotesTwice", until=0.7)
    verdict = Verdict(case, "votes: r1 votes for r0 and r2", "votes", ("0.1 r1 votes",))
    assert replay.read(replay.write(tmp_path / "new" / "directory", verdict)) == case


def test_a_replay_file_of_another_format_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "seed-1.json"
    path.write_text('{"format_version": 99}')
    with pytest.raises(ValueError, match=r"seed-1.json is no replay file .* format version 99"):
        replay.read(path)


def test_a_red_run_is_red_again_with_no_more_faults_than_it_takes(red: Verdict) -> None:
    explained = explain(red)
    assert explained.violation
    assert 0 < len(explained.tail) <= 40
    assert explained.case.until is None or explained.case.until <= FAULTS_S
    assert examine(explained.case).violation == explained.violation


def test_a_red_seed_is_printed_kept_and_played_again(red: Verdict, tmp_path: Path) -> None:
    mutant, seed = red.case.mutant, str(red.case.seed)
    found = _run("--mutant", mutant, "--seeds", "1", "--from", seed, "--jobs", "1", "--out", str(tmp_path))
    assert found.returncode == 1
    assert f"seed {seed}" in found.stdout
    [path] = tmp_path.iterdir()
    again = _run("--replay", str(path))
    assert again.returncode == 1
    assert json.loads(path.read_text())["violation"].split(": ")[0] in again.stdout.splitlines()[-1]


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    environment = {**os.environ, "COLUMNS": "1000"}
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)


def test_workers_give_one_verdict_a_case_and_end_with_the_search() -> None:
    cases = tuple(Case(seed) for seed in range(6))
    found = list(verdicts([Task(cases[:3]), Task(cases[3:])], jobs=2))
    assert sorted(verdict.case for verdict in found) == sorted(cases)
    assert not any(verdict.violation for verdict in found)
    assert not _children(os.getpid())


def test_a_search_that_is_given_up_leaves_no_process() -> None:
    search = verdicts([Task((Case(seed),)) for seed in range(50)], jobs=2)
    next(search)
    assert _children(os.getpid())
    search.close()
    assert not _children(os.getpid())


def test_ctrl_c_ends_every_process() -> None:
    command = [sys.executable, "-m", "tests.simulation", "--seeds", "100000", "--jobs", "2"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as program:
        children = _wait_for_children(program.pid, 2)
        program.send_signal(signal.SIGINT)
        program.communicate(timeout=30)
        assert program.returncode == 130
    _, alive = psutil.wait_procs(children, timeout=10)
    assert not alive


def _children(pid: int) -> list[psutil.Process]:
    """Workers; not the tracker that Python itself keeps for spawned processes."""
    with contextlib.suppress(psutil.NoSuchProcess):
        children = psutil.Process(pid).children(recursive=True)
        return [child for child in children if "spawn_main" in " ".join(child.cmdline())]
    return []


def _wait_for_children(pid: int, count: int) -> list[psutil.Process]:
    for _ in range(300):
        children = _children(pid)
        if len(children) >= count:
            return children
        psutil.wait_procs([psutil.Process(pid)], timeout=0.1)
    raise AssertionError(f"{len(children)} workers after 30 s")
