"""`groupd bench path`: what is counted, and what is taken off."""

from __future__ import annotations

import os
import sys

import pytest
from typer.testing import CliRunner

from bench.cli import app
from bench.tier import path, path_command, path_counter
from bench.tier.path import Cost, Counts, calls_of

SUMMARY = """\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 61.59    0.020740         119       173        16 futex
100.00    0.033673          47       706        16 total
"""


def test_the_system_calls_of_a_trace_are_those_of_its_last_line() -> None:
    assert calls_of(SUMMARY) == 706
    assert calls_of(SUMMARY.replace("        16 total", "           total")) == 706


def test_a_trace_that_may_not_look_counts_nothing() -> None:
    assert calls_of("strace: attach: ptrace(PTRACE_SEIZE, 1): Operation not permitted\n") is None


def test_what_an_idle_process_does_is_taken_off_and_the_rest_is_per_request() -> None:
    busy = Counts(110, 30, 1_050, 520, 240, {"tick": 100, "beat": 10})
    idle = Counts(10, 30, 50, 20, 40, {"beat": 10})
    assert path._less("commit", "leader", busy, idle, 100) == Cost(
        *("commit", "leader", 1.0, 0.0, 10.0, 5.0, 2.0, {"tick": 1.0, "beat": 0.0})
    )


def test_without_strace_no_system_calls_are_told() -> None:
    assert path._less("commit", "leader", Counts(), Counts(), 1).syscalls is None


def test_calls_of_python_and_of_c_are_counted_by_their_names() -> None:
    counted = path_counter.Counted()
    before = sys.getprofile()
    sys.setprofile(counted.count)
    try:
        calls_of(SUMMARY)
    finally:
        sys.setprofile(before)
    assert counted.python == 1
    assert counted.functions["path.py:calls_of"] == counted.functions["str.splitlines"] == 1


def test_only_processes_that_are_started_meanwhile_are_told_of_the_counter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    with path._counters() as folder:
        assert os.environ["PYTHONPATH"].split(os.pathsep)[0] == os.environ[path_counter.FOLDER] == str(folder)
        assert (folder / "sitecustomize.py").read_text() == path_counter.SITE
    assert os.environ["PYTHONPATH"] == "/somewhere"
    assert path_counter.FOLDER not in os.environ
    assert not folder.exists()


def test_the_table_has_a_row_for_each_process(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = [
        Cost("OffsetCommit of 10", name, 2.0, 0.0, 12.3, 4.0, None, {"tick": 1.5}) for name in ("a", "b")
    ]
    monkeypatch.setattr(path, "measure", lambda plan, say: costs)
    done = CliRunner().invoke(app, ["path", "--functions", "1"])
    assert done.exit_code == 0, done.output
    assert done.output.count("12.3") == 2
    assert "not counted" in done.output
    assert "1.50  tick" in done.output
    assert path_command.machine() in done.output
