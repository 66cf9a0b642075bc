"""Upkeep, which must not hurt: leaders that move, a rolling restart, a clock that was set."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Final

from actors.runtime import ActorCallError
from bench.chaos.targets import aims
from bench.chaos.targets.actor import Actor
from bench.chaos.targets.fault import SAFE, FaultKind, Injury
from bench.chaos.targets.site import BACK_TIMEOUT_S, CALL_TIMEOUT_S, Site, tier_of
from bench.chaos.targets.target import NothingToHit, Target, process, send, until
from storage.raft.injected import ClockFault, Faults

MOVE_INTERVAL_S: Final = 2.0
AHEAD_MS: Final = (-3_600_000, 3_600_000)
"""How far the clock is set, an hour, as with a wrong time zone. More would end offsets that nobody uses, in
Kafka as here."""


class Work:
    """Work that goes on in a thread until it is done or told to end. What it raises is raised by `end`."""

    def __init__(self, work: Callable[[threading.Event], None], name: str) -> None:
        self._stop = threading.Event()
        self._problem: Exception | None = None
        self._work = work
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Tell the work to end, and wait until it has."""
        self._stop.set()
        self._thread.join()
        if self._problem is not None:
            raise self._problem

    def _run(self) -> None:
        try:
            self._work(self._stop)
        except Exception as problem:
            self._problem = problem


@dataclass(slots=True, kw_only=True)
class MoveLeaders:
    """Move leaderships again and again, as `groupd leaders move` does."""

    name: str = "leaders-move"
    about: str = f"Every {MOVE_INTERVAL_S:.0f} s the leadership of a partition is handed to another replica."
    reach: str = SAFE
    needs: frozenset[str] = frozenset({"replicas"})

    def begin(self, target: Target, chance: Random, for_s: float) -> Injury:
        site = tier_of(target)
        first = aims.one_leader(site, chance)
        _move(site, first)

        def work(stop: threading.Event) -> None:
            while not stop.wait(MOVE_INTERVAL_S):
                with suppress(NothingToHit):  # between two leaders nobody leads
                    _move(site, aims.one_leader(site, chance))

        return Injury(f"{first.label} and others", Work(work, "moving leaders").end)


def _move(site: Site, leader: Actor, to_replica: int | None = None) -> bool:
    """Have a leader hand over to a replica; False if it cannot do so now."""
    with suppress(ActorCallError, TimeoutError):
        return bool(site.call(leader.name, "move_leadership", to_replica, timeout_s=CALL_TIMEOUT_S))
    return False


@dataclass(slots=True, kw_only=True)
class RollingRestart:
    """Restart node by node: a node's processes are stopped as for an upgrade, and started anew."""

    name: str = "rolling-restart"
    about: str = "All processes of one node after the other are stopped and started anew."
    reach: str = SAFE
    needs: frozenset[str] = frozenset()

    def begin(self, target: Target, chance: Random, for_s: float) -> Injury:
        """Begin the restart. The fault ends when the last node is back, however long that takes."""
        nodes = target.nodes

        def work(stop: threading.Event) -> None:
            for node in nodes:
                target.restart(node)

        return Injury(f"nodes {', '.join(map(str, nodes))}", Work(work, "rolling restart").end)


@dataclass(slots=True, kw_only=True)
class ClockJump:
    """Start a replica with the wrong time and give it the lead; in the end it starts with the right one. The
    wall clock matters only when a process starts."""

    name: str = "clock-jump"
    about: str = "A replica starts with a wall clock that is an hour off, and leads."
    reach: str = SAFE
    needs: frozenset[str] = frozenset({"injection"})

    def begin(self, target: Target, chance: Random, for_s: float) -> Injury:
        site = tier_of(target)
        hit = aims.one_leader(site, chance)
        ahead_ms = chance.choice(AHEAD_MS)
        end = site.fault_file.add(Faults(clocks=(ClockFault(hit.name, ahead_ms),)))
        try:
            _start_anew(site, hit)
            _give_lead(site, hit)
        except BaseException:
            end()
            raise

        def undo() -> int:
            end()
            found = [actor for actor in site.actors() if actor.name == hit.name]
            for actor in found:
                send(process(actor.pid), signal.SIGKILL)
            return len(found)

        return Injury(hit.label, undo, detail=f"{ahead_ms / 3_600_000:+.0f} h", killed=1)


def _start_anew(site: Site, hit: Actor) -> None:
    send(process(hit.pid), signal.SIGKILL)

    def is_back() -> bool:
        return any(a.name == hit.name and a.pid != hit.pid and a.is_up for a in site.actors())

    until(is_back, f"{hit.name} is back", BACK_TIMEOUT_S)


def _give_lead(site: Site, hit: Actor) -> None:
    """Give the lead to the replica that was hit, unless the tier has done so itself: leaders return to their
    preferred places."""
    assert hit.group is not None, "a replica has a group"
    group = hit.group

    def leads() -> bool:
        leader = site.leader(group)
        return leader is not None and (leader.name == hit.name or _move(site, leader, hit.replica_id))

    until(leads, f"{hit.name} leads", BACK_TIMEOUT_S)


KINDS: tuple[FaultKind, ...] = (MoveLeaders(), RollingRestart(), ClockJump())
