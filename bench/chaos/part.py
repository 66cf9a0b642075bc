"""One part of a chaos run: a swarm on a target, and the schedule's next faults until its time is up."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Final, Protocol

from bench.chaos import schedule_file
from bench.chaos.schedule import Played, Step
from bench.chaos.schedule_file import Schedule
from bench.chaos.state import State
from bench.chaos.swarm_process import END_TIMEOUT_S, CouldNotRun, SwarmProcess
from bench.chaos.targets.fault import FaultKind, Injury
from bench.chaos.targets.target import NothingToHit, Target
from cluster.tier_file import TierError
from storage.history.call_files import CallWriter
from storage.history.calls import NEVER, Fault

POLL_S: Final = 0.2
FAULTS_FILE: Final = "faults.calls"
UNDER_WAY: Final = "under way"
"""The detail in the row of a fault that has not ended yet."""


class NotMended(Exception):
    """A fault could not be undone, or the target did not come back after it; the text says which and why."""


class Show(Protocol):
    """Shows the course of a run to its user."""

    def now(self, what: str) -> None:
        """Called with what is going on."""

    def met(self, step: Step, fault: Fault) -> None:
        """Called when a fault is over."""

    def went_on(self, state: State) -> None:
        """Called when the run has come further."""


class Part:
    """One part of a run. It goes on in the schedule from where the run is."""

    def __init__(
        self, target: Target, kinds: Mapping[str, FaultKind], state: State, directory: Path, show: Show
    ) -> None:
        self._target = target
        self._kinds = kinds
        self._state = state
        self._directory = directory
        self._show = show
        self._run_began_s = 0.0
        """When the run would have begun if it had had no pauses, by the monotonic clock."""

    def play(self, swarm: SwarmProcess, schedule: Iterator[Step], part_s: float) -> None:
        """Play faults, give the groups time to recover, and end the swarm. Raises CouldNotRun, NotMended."""
        run_id = swarm.wait_until_begun()
        began_s = time.monotonic()
        scenario = self._state.scenario
        lasted_s = self._state.lasted_s
        self._run_began_s = began_s - lasted_s
        with _Recorder(swarm.directory / FAULTS_FILE, run_id) as recorder:
            self._wait(swarm, began_s + scenario.settle_s, "members join")
            self._begin_under_load()
            for step in schedule:
                faults_end_s = began_s + part_s - scenario.recovery_s
                if step.at_s is not None:
                    self._wait(swarm, self._run_began_s + step.at_s, "the next fault's time comes")
                if self._is_done or time.monotonic() + step.for_s > faults_end_s:
                    break
                self._meet(step, recorder)
                self._came_to(step.number + 1, lasted_s + time.monotonic() - began_s)
                self._mend()
                self._wait(
                    swarm, min(time.monotonic() + step.breath_s, faults_end_s), f"{self._state.whom} breathes"
                )
            end_s = began_s + part_s
            ends_early = self._is_done
            if ends_early:
                end_s = min(end_s, time.monotonic() + scenario.recovery_s)
            self._wait(swarm, end_s, f"{self._state.whom} recovers", may_end=True)
        self._came_to(self._state.steps, lasted_s + time.monotonic() - began_s)
        self._show.now("the swarm ends")
        if not ends_early:
            swarm.wait(END_TIMEOUT_S)  # the fault's time is up as well
        swarm.stop()

    @property
    def _is_done(self) -> bool:
        """Whether the part ends before its time. A run that counts minutes alone has its time from the
        start."""
        scenario = self._state.scenario
        has_count = scenario.kills is not None or self._state.fixed is not None
        return has_count and self._state.is_done(scenario.recovery_s)

    def _came_to(self, steps: int, lasted_s: float) -> None:
        self._state.steps = steps
        self._state.lasted_s = lasted_s
        self._state.write(self._directory)
        self._show.went_on(self._state)

    def _meet(self, step: Step, recorder: _Recorder) -> None:
        """Play the step's kind of fault, or the next one that finds something to hit."""
        for name in step.kinds:
            began_us = time.monotonic_ns() // 1_000
            self._show.now(name)
            try:
                injury = self._kinds[name].begin(self._target, Random(step.seed), step.for_s)
            except NothingToHit:
                continue
            except Exception as error:
                raise NotMended(f"{name} could not begin: {error}") from error
            recorder.begun(name, injury, began_us, step.for_s)
            self._played(name, injury, began_us, step)
            killed = injury.killed
            self._show.now(f"{name}: {injury.target}")
            try:
                time.sleep(max(0.0, step.for_s - (time.monotonic() - began_us / 1e6)))
            finally:
                try:
                    killed += injury.undo() or 0
                except Exception as error:
                    raise NotMended(f"{name} of {injury.target}: {error}") from error
                finally:
                    self._state.count(name, killed)
                    self._show.met(step, recorder.ended(name, injury, began_us, killed))
            return
        if step.at_s is None:
            raise NotMended(f"step {step.number} finds nothing that it could hit")
        self._state.missed.append(f"{step.kinds[0]} at {step.at_s:g} s")

    def _played(self, kind: str, injury: Injury, began_us: int, step: Step) -> None:
        """Play one fault. It is written down when it begins, for it may be the last one."""
        at_s = round(began_us / 1e6 - self._run_began_s, 3)
        played = Played(kind=kind, at_s=at_s, for_s=step.for_s, seed=step.seed, target=injury.target)
        state = self._state
        state.played.append(played)
        whole = Schedule(scenario=state.scenario, seed=state.seed, faults=tuple(state.played))
        schedule_file.write(self._directory / schedule_file.FILE_NAME, whole)

    def _begin_under_load(self) -> None:
        try:
            self._target.begin_under_load()
        except TierError as error:
            raise NotMended(str(error)) from None

    def _mend(self) -> None:
        self._show.now(f"{self._state.whom} mends")
        try:
            self._target.wait_until_whole()
        except TimeoutError as error:
            raise NotMended(str(error)) from None

    def _wait(self, swarm: SwarmProcess, until_s: float, what: str, *, may_end: bool = False) -> None:
        self._show.now(what)
        while (left_s := until_s - time.monotonic()) > 0:
            if swarm.wait(min(left_s, POLL_S)):
                if may_end:
                    return
                raise CouldNotRun(f"the swarm ended before its time: {swarm.last_words()}")


class _Recorder:
    """Writes `faults.calls`: a row when a fault begins, which stays if this process is killed, and one when
    it has ended."""

    def __init__(self, path: Path, run_id: str) -> None:
        self._writer = CallWriter(path, run_id)

    def __enter__(self) -> _Recorder:
        return self

    def __exit__(self, *exc: object) -> None:
        with contextlib.suppress(OSError):
            # The swarm says when its history ended: to read and write it down takes it a while longer, in
            # which nothing is asked of the target.
            self._writer.end(NEVER)

    def begun(self, kind: str, injury: Injury, began_us: int, for_s: float) -> None:
        ended_us = began_us + int(for_s * 1e6)
        self._write(Fault(kind, injury.target, began_us, ended_us, injury.silences, UNDER_WAY))

    def ended(self, kind: str, injury: Injury, began_us: int, killed: int) -> Fault:
        now_us = time.monotonic_ns() // 1_000
        detail = "; ".join(filter(None, (injury.detail, f"{killed} killed" if killed > 1 else "")))
        fault = Fault(kind, injury.target, began_us, now_us, injury.silences, detail)
        self._write(fault)
        return fault

    def _write(self, fault: Fault) -> None:
        self._writer.write(fault)
        self._writer.flush()
