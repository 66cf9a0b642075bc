"""Many processes are killed at a time, or as fast as they come back: so a run comes to a thousand kills."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Final

from bench.chaos.faults.processes import Signal
from bench.chaos.faults.upkeep import Work
from bench.chaos.targets import aims
from bench.chaos.targets.aims import Aim
from bench.chaos.targets.fault import OUTAGE, SAFE, FaultKind, Injury
from bench.chaos.targets.site import Site, tier_of
from bench.chaos.targets.target import EVERYBODY, LOOK_INTERVAL_S, NODE, NothingToHit, Target, process, send

KILLS: Final = 8
"""How many processes are killed in a row."""
NOBODY_TIMEOUT_S: Final = 60.0
"""How long a burst waits for a process that it may kill: a replica may take so long to come back."""


@dataclass(slots=True, kw_only=True)
class InTurn:
    """Kill one process after the other, whatever time the fault is given: the next one as soon as some
    partition misses no replica. Those killed before may still be on their way back, in other partitions."""

    name: str
    about: str
    aim: Aim
    hit: str
    """What the burst hit, in words."""
    reach: str = SAFE
    needs: frozenset[str] = frozenset({"replicas"})

    def begin(self, target: Target, chance: Random, for_s: float) -> Injury:
        """Begin to kill; the fault ends when all are killed. Raises NothingToHit if no process can be killed
        now."""
        site = tier_of(target)
        killed = _kill(self.aim, site, chance)

        def work(stop: threading.Event) -> None:
            nonlocal killed
            last_s = time.monotonic()
            while killed < KILLS:
                with suppress(NothingToHit):
                    killed += _kill(self.aim, site, chance)
                    last_s = time.monotonic()
                if time.monotonic() - last_s > NOBODY_TIMEOUT_S:
                    raise TimeoutError(f"no partition is whole for {NOBODY_TIMEOUT_S:g} s")
                time.sleep(LOOK_INTERVAL_S)

        going_on = Work(work, self.name)

        def undo() -> int:
            going_on.end()
            return killed

        return Injury(self.hit, undo)


def _kill(aim: Aim, site: Site, chance: Random) -> int:
    """Kill the processes. Returns how many there were. Raises NothingToHit, also if one ended by itself."""
    targets = [process(actor.pid) for actor in aim(site, chance)]
    for each in targets:
        send(each, signal.SIGKILL)
    return len(targets)


KINDS: tuple[FaultKind, ...] = (
    InTurn(
        name="kill-leaders-in-turn",
        about=f"{KILLS} leaders are killed one after the other, each when its partition has all its copies.",
        aim=aims.whole_leader,
        hit="leaders",
    ),
    InTurn(
        name="kill-majorities-in-turn",
        about=f"Two of three copies of one partition after the other are killed, {KILLS} processes in all.",
        aim=aims.whole_majority,
        hit="leaders and followers",
        reach=OUTAGE,
    ),
    Signal(
        name="kill-node",
        about="All processes of one node (replicas, controller, broker) are killed at the same time.",
        whom=NODE,
        number=signal.SIGKILL,
    ),
    Signal(
        name="kill-tier",
        about="All processes of all nodes are killed at the same time.",
        whom=EVERYBODY,
        number=signal.SIGKILL,
        reach=OUTAGE,
    ),
)
