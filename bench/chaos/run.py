"""Carries a chaos scenario out: part after part, until its time is up or its kills are done."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from bench.chaos.faults import KINDS
from bench.chaos.part import NotMended, Part, Show
from bench.chaos.schedule import Step, fixed, steps
from bench.chaos.state import KAFKA, State
from bench.chaos.swarm_process import CouldNotRun, SwarmProcess
from bench.chaos.targets import kafka_site, machine_site, sites
from bench.chaos.targets.fault import FaultKind
from bench.chaos.targets.target import Target
from cluster.tier_file import TierError

PART_LEAST_S = 30.0
"""The shortest part: in a shorter one no fault could be played."""


def run(state: State, directory: Path, show: Show) -> None:
    """Begin a run, or go on with one. Whatever ends it, `state` in the directory says how far it came, and
    the parts keep their records. Raises CouldNotRun."""
    while not state.is_done():
        part_s = state.scenario.part_minutes * 60
        if state.fixed is not None:
            part_s = state.rest_s
        elif state.scenario.kills is None:
            part_s = min(part_s, state.scenario.least_s - state.lasted_s)
            if state.parts and part_s < PART_LEAST_S:
                break
        try:
            _play(state, directory, part_s, show)
        except NotMended as problem:
            state.unmended.append(f"part {state.parts}: {problem}")
            state.write(directory)
            return
        except (CouldNotRun, RuntimeError, TierError) as problem:
            raise _noted(problem, state, directory) from None
    state.is_finished = True
    state.write(directory)


def _noted(problem: Exception, state: State, directory: Path) -> CouldNotRun:
    state.words.append(f"part {state.parts}: {problem}")
    state.write(directory)
    return CouldNotRun(str(problem))


def _play(state: State, directory: Path, part_s: float, show: Show) -> None:
    state.parts += 1
    state.write(directory)
    here = state.part(directory, state.parts)
    show.now(f"{state.whom} starts" if state.data_dir is None else "attaching")
    with _target(state) as target:
        state.software = target.software
        kinds = available(target.has)
        _sort_out(state, kinds)
        schedule = islice(_steps(state, kinds), state.steps, None)
        if not state.kinds and (state.fixed is None or state.left_out):
            raise CouldNotRun(f"no kind of fault of {state.scenario.name} can be had on {state.whom}")
        with SwarmProcess(here, _arguments(state, target, part_s)) as swarm:
            Part(target, kinds, state, directory, show).play(swarm, schedule, part_s)


def _sort_out(state: State, kinds: Mapping[str, FaultKind]) -> None:
    """Sort out which of the planned kinds of faults the target can suffer."""
    planned = [name for name, times in (state.scenario.faults or dict.fromkeys(KINDS, 1)).items() if times]
    if state.fixed is not None:
        planned = list(dict.fromkeys([*state.left_out, *(fault.kind for fault in state.fixed)]))
        state.fixed = [fault for fault in state.fixed if fault.kind in kinds]
    state.kinds = [kind for kind in planned if kind in kinds]
    state.left_out = [kind for kind in planned if kind not in kinds]


def _steps(state: State, kinds: Mapping[str, FaultKind]) -> Iterator[Step]:
    if state.fixed is not None:
        return fixed(state.fixed)
    return steps(state.scenario, {name: kind.reach for name, kind in kinds.items()}, state.seed)


@contextlib.contextmanager
def _target(state: State) -> Iterator[Target]:
    if state.target == KAFKA:
        with kafka_site.throw_away(state.brokers, state.scenario.tier, state.kafka_home) as brokers:
            yield brokers
        return
    if state.data_dir is not None:
        with sites.running(state.data_dir) as site:
            yield site
        return
    scenario = state.scenario
    if scenario.machines:
        with machine_site.throw_away(*scenario.tier, count=scenario.machines) as site:
            yield site
        return
    if scenario.in_front:
        with sites.in_front_of_kafka(*scenario.tier, brokers=state.brokers, home=state.kafka_home) as site:
            yield site
        return
    with sites.throw_away(*scenario.tier, small_disk=True, ray_nodes=scenario.ray_nodes) as site:
        yield site


def _arguments(state: State, target: Target, part_s: float) -> list[str]:
    return [
        *(state.scenario.swarm, "--bootstrap", target.bootstrap, "--no-report"),
        *("--seed", str(state.seed + state.parts), "--seconds", f"{part_s:g}"),
        *("--software", f"{target.software}, attacked by `groupd chaos`"),
    ]


def available(has: frozenset[str]) -> dict[str, FaultKind]:
    """The kinds of faults that a target with these things can have."""
    return {name: kind for name, kind in KINDS.items() if kind.needs <= has}
