"""Signals to the tier's processes: killed, asked to end, frozen."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

import psutil

from bench.chaos.fault import OUTAGE, SAFE, FaultKind, Injury
from bench.chaos.faults import aims
from bench.chaos.faults.aims import Aim
from bench.chaos.site import Site, process, send

TERM_GRACE_S: Final = 5.0
"""An actor of Ray that is asked to end while it is called may linger for ever: then it is killed, as whoever
stops machines does."""


@dataclass(slots=True, kw_only=True)
class Signal:
    """One signal to all that an aim names."""

    name: str
    about: str
    aim: Aim
    number: signal.Signals
    reach: str = SAFE
    needs: frozenset[str] = frozenset()

    def begin(self, site: Site, chance: Random, for_s: float) -> Injury:
        hit = self.aim(site, chance)
        processes = [process(actor.pid) for actor in hit]
        for each in processes:
            send(each, self.number)
        return Injury(
            target=", ".join(actor.label for actor in hit),
            undo=partial(_UNDO[self.number], processes),
            # Who is asked to end may neither serve nor hang up for a while.
            silences=self.number != signal.SIGKILL,
            killed=0 if self.number == signal.SIGSTOP else len(hit),
        )


def _nothing(processes: list[psutil.Process]) -> None:
    """Ray starts anew what was killed."""


def _end(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, TERM_GRACE_S)
    for each in alive:
        send(each, signal.SIGKILL)


def thaw(processes: list[psutil.Process]) -> None:
    """Let them go on."""
    for each in processes:
        send(each, signal.SIGCONT)


_UNDO = {signal.SIGKILL: _nothing, signal.SIGTERM: _end, signal.SIGSTOP: thaw}
_DEEDS = {
    "kill": (signal.SIGKILL, "is killed (SIGKILL)"),
    "term": (signal.SIGTERM, "is asked to end (SIGTERM)"),
    "freeze": (signal.SIGSTOP, "stands still for a while (SIGSTOP)"),
}
_AIMS: tuple[tuple[str, Aim, str, str], ...] = (
    ("leader", aims.leader, SAFE, "The leader of a partition"),
    ("follower", aims.follower, SAFE, "A follower of a partition"),
    ("replica", aims.replica, SAFE, "Any replica of a partition"),
    ("majority", aims.majority, OUTAGE, "Two of three copies of a partition, its leader among them:"),
    ("all", aims.copies, OUTAGE, "All copies of a partition, at the same time:"),
    ("broker", aims.broker, SAFE, "The broker of a node"),
    ("controller", aims.controller, SAFE, "The controller's leader"),
)


def _about(who: str, what: str) -> str:
    return f"{who} each {what}." if who.endswith(":") else f"{who} {what}."


KINDS: tuple[FaultKind, ...] = tuple(
    Signal(name=f"{deed}-{whom}", about=_about(who, what), aim=aim, number=number, reach=reach)
    for deed, (number, what) in _DEEDS.items()
    for whom, aim, reach, who in _AIMS
)
