"""A failed run is shrunk to the fewest faults that still fail: targets here are made up, and fail as told."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench.chaos import scenario as scenarios
from bench.chaos import schedule_file
from bench.chaos.faults import KINDS
from bench.chaos.outcome import Outcome
from bench.chaos.report import with_faults
from bench.chaos.schedule import Played
from bench.chaos.shrink import Found, Shrinking
from bench.chaos.state import State
from cluster.cli import app
from storage.history.judge.verdict import combined

NAMES = ("clients-reset", "links-slow", "kill-leader", "clients-slow", "freeze-leader", "disk-slow")
PLAYED = [Played(kind=kind, at_s=10 + 7 * n, for_s=2, seed=n, target="x") for n, kind in enumerate(NAMES)]
FOREVER = time.monotonic() + 3_600


def failed() -> State:
    scenario = scenarios.load("short", KINDS)
    return State(scenario=scenario, seed=5, played=list(PLAYED), parts=1, target="kafka", brokers=5)


class Trials:
    """Stands for the runs of a shrink: it carries every trial out in no time."""

    def __init__(self, fails: Callable[[set[str]], bool]) -> None:
        self.fails = fails
        self.states: list[State] = []
        self.said: list[str] = []

    def carry(self, state: State, directory: Path) -> Outcome:
        assert directory.is_dir()
        self.states.append(state)
        assert state.fixed is not None
        if self.fails({fault.kind for fault in state.fixed}):
            state.unmended.append("part 1: not whole")
        return Outcome(state, with_faults(combined([]), state, []), [], directory, 1)

    def shrink(self, directory: Path, tries: int = 1, until_s: float = FOREVER) -> Found:
        return Shrinking(failed(), directory, self.carry, self.said.append).shrink(tries, until_s)


def test_the_one_fault_that_matters_is_left_with_a_schedule_that_plays_it(tmp_path: Path) -> None:
    trials = Trials(lambda kinds: "freeze-leader" in kinds)
    found = trials.shrink(tmp_path)
    assert [fault.kind for fault in found.faults] == ["freeze-leader"]
    assert found.is_minimal
    assert found.broke
    again = schedule_file.read(found.path, KINDS)
    assert (again.seed, again.faults) == (5, found.faults)
    assert {path.name for path in tmp_path.glob("shrink-*")} == {
        f"shrink-{n}" for n in range(1, len(trials.states) + 1)
    }


def test_every_trial_is_on_the_same_target_with_the_same_swarm(tmp_path: Path) -> None:
    trials = Trials(lambda kinds: "freeze-leader" in kinds)
    trials.shrink(tmp_path)
    assert {(state.target, state.brokers, state.seed) for state in trials.states} == {("kafka", 5, 5)}
    assert all(state.parts == 0 and not state.played for state in trials.states)


def test_what_fails_by_chance_is_tried_again(tmp_path: Path) -> None:
    """Here each list of faults that has the cause fails in its second run only."""
    seen: set[frozenset[str]] = set()

    def fails(kinds: set[str]) -> bool:
        is_second = frozenset(kinds) in seen
        seen.add(frozenset(kinds))
        return is_second and {"kill-leader", "disk-slow"} <= kinds

    found = Trials(fails).shrink(tmp_path, tries=2)
    assert [fault.kind for fault in found.faults] == ["kill-leader", "disk-slow"]


def test_a_run_that_does_not_fail_again_is_not_shrunk(tmp_path: Path) -> None:
    trials = Trials(lambda kinds: False)
    found = trials.shrink(tmp_path, tries=3)
    assert not found.broke
    assert len(trials.states) == 3
    assert not found.path.exists()


def test_what_fails_without_any_fault_is_put_down_to_none(tmp_path: Path) -> None:
    found = Trials(lambda kinds: True).shrink(tmp_path)
    assert found.faults == ()
    assert found.broke
    assert not found.path.exists()


def test_when_time_is_up_the_smallest_list_so_far_is_kept(tmp_path: Path) -> None:
    found = Trials(lambda kinds: "disk-slow" in kinds).shrink(tmp_path, until_s=0)
    assert len(found.faults) == len(PLAYED)
    assert not found.is_minimal


def test_ctrl_c_keeps_the_smallest_list_so_far(tmp_path: Path) -> None:
    turns: Iterator[bool] = iter([True, False, True])

    def fails(kinds: set[str]) -> bool:
        turn = next(turns, None)
        if turn is None:
            raise KeyboardInterrupt
        return turn

    found = Trials(fails).shrink(tmp_path)
    assert [fault.kind for fault in found.faults] == list(NAMES[3:])
    assert not found.is_minimal


def test_a_run_that_broke_nothing_cannot_be_shrunk(tmp_path: Path) -> None:
    failed().write(tmp_path)
    (tmp_path / "report.json").write_text('{"status": "kept"}')
    told = CliRunner().invoke(app, ["chaos", "shrink", str(tmp_path)])
    assert told.exit_code == 2
    assert "there is nothing to shrink" in told.output


@pytest.mark.parametrize("place", [0, 2, 5])
def test_faults_that_are_left_keep_their_distance_to_the_one_before(place: int, tmp_path: Path) -> None:
    """Time is not spent on those that are gone."""
    found = Trials(lambda kinds: NAMES[place] in kinds).shrink(tmp_path)
    assert [fault.at_s for fault in found.faults] == [10 if place == 0 else 7]
