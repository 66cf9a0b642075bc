"""Carries a chaos scenario out: part after part, until its time is up or its kills are done."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from bench.chaos import sites
from bench.chaos.fault import FaultKind
from bench.chaos.faults import KINDS
from bench.chaos.part import NotMended, Part, Show
from bench.chaos.schedule import steps
from bench.chaos.site import Site
from bench.chaos.state import State
from bench.chaos.swarm_process import CouldNotRun, SwarmProcess
from cluster.tier_file import TierError

PART_LEAST_S = 30.0
"""A part that would be shorter is not begun: nothing could be met in it."""


def run(state: State, directory: Path, show: Show) -> None:
    """Begin a run, or go on with one. Raises CouldNotRun. Whatever ends it, `state` in the directory says how
    far it came, and the parts keep what was seen."""
    while not state.is_done():
        part_s = state.scenario.part_minutes * 60
        if state.scenario.kills is None:
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
    show.now("a tier starts" if state.data_dir is None else "attaching")
    with _site(state) as site:
        kinds = available(site.has)
        reaches = {name: kind.reach for name, kind in kinds.items()}
        schedule = islice(steps(state.scenario, reaches, state.seed), state.steps, None)
        if next(steps(state.scenario, reaches, state.seed), None) is None:
            raise CouldNotRun(f"no kind of fault of {state.scenario.name} can be had on this tier")
        with SwarmProcess(here, _arguments(state, site, part_s)) as swarm:
            Part(site, kinds, state, directory, show).play(swarm, schedule, part_s)


@contextlib.contextmanager
def _site(state: State) -> Iterator[Site]:
    if state.data_dir is not None:
        with sites.running(state.data_dir) as site:
            yield site
        return
    scenario = state.scenario
    with sites.throw_away(*scenario.tier, small_disk=True, ray_nodes=scenario.ray_nodes) as site:
        yield site


def _arguments(state: State, site: Site, part_s: float) -> list[str]:
    return [
        *(state.scenario.swarm, "--bootstrap", site.bootstrap, "--no-report"),
        *("--seed", str(state.seed + state.parts), "--seconds", f"{part_s:g}"),
        *("--software", f"groupd {state.version}, attacked by `groupd chaos`"),
    ]


def available(has: frozenset[str]) -> dict[str, FaultKind]:
    """The kinds of faults that a site with these things can have."""
    return {name: kind for name, kind in KINDS.items() if kind.needs <= has}
