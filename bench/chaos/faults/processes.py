"""Faults by signals to the target's processes: they are killed, asked to end, or frozen."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

import psutil

from bench.chaos.targets import target as targets
from bench.chaos.targets.fault import OUTAGE, SAFE, FaultKind, Injury
from bench.chaos.targets.target import Server, Target, process, send


@dataclass(slots=True, kw_only=True)
class Signal:
    """Send one signal to all processes that the fault hits."""

    name: str
    about: str
    whom: str
    """Whom the fault hits, by a name that `Target.find` knows."""
    number: signal.Signals
    reach: str = SAFE
    needs: frozenset[str] = frozenset()

    def begin(self, target: Target, chance: Random, for_s: float) -> Injury:
        hit = target.find(self.whom, chance)
        processes = [process(each.pid) for each in hit]
        for each in processes:
            send(each, self.number)
        return Injury(
            target=", ".join(each.label for each in hit),
            undo=partial(_UNDO[self.number], target, hit, processes),
            # A process that is asked to end may neither serve nor hang up for a while.
            silences=self.number != signal.SIGKILL,
            killed=0 if self.number == signal.SIGSTOP else len(hit),
        )


def _start_anew(target: Target, hit: Sequence[Server], processes: list[psutil.Process]) -> None:
    target.bring_back(hit)


def _end(target: Target, hit: Sequence[Server], processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, target.term_grace_s)
    for each in alive:
        send(each, signal.SIGKILL)
    target.bring_back(hit)


def _thaw(target: Target, hit: Sequence[Server], processes: list[psutil.Process]) -> None:
    thaw(processes)


def thaw(processes: list[psutil.Process]) -> None:
    """Let frozen processes go on."""
    for each in processes:
        send(each, signal.SIGCONT)


_UNDO = {signal.SIGKILL: _start_anew, signal.SIGTERM: _end, signal.SIGSTOP: _thaw}
_DEEDS = {
    "kill": (signal.SIGKILL, "is killed (SIGKILL)"),
    "term": (signal.SIGTERM, "is asked to end (SIGTERM)"),
    "freeze": (signal.SIGSTOP, "stands still for a while (SIGSTOP)"),
}
_REPLICAS = frozenset({"replicas"})
_UPSTREAM = frozenset({"upstream"})
_WHOM: tuple[tuple[str, str, str, frozenset[str], str], ...] = (
    ("leader", targets.LEADER, SAFE, frozenset(), "A process that coordinates groups"),
    (
        "follower",
        targets.FOLLOWER,
        SAFE,
        frozenset(),
        "A process with copies of what others coordinate",
    ),
    ("replica", targets.REPLICA, SAFE, _REPLICAS, "Any replica of a partition"),
    (
        "majority",
        targets.MAJORITY,
        OUTAGE,
        _REPLICAS,
        "Two of three copies of a partition, its leader among them:",
    ),
    ("all", targets.COPIES, OUTAGE, _REPLICAS, "All copies of a partition, at the same time:"),
    ("broker", targets.BROKER, SAFE, frozenset(), "A broker"),
    ("controller", targets.CONTROLLER, SAFE, _REPLICAS, "The controller's leader"),
    ("kafka-broker", targets.KAFKA_BROKER, SAFE, _UPSTREAM, "A broker that the tier stands in front of"),
    (
        "kafka-controller",
        targets.KAFKA_CONTROLLER,
        SAFE,
        _UPSTREAM,
        "The brokers' active controller",
    ),
    ("kafka", targets.KAFKA, OUTAGE, _UPSTREAM, "All brokers that the tier stands in front of:"),
)


def _about(who: str, what: str) -> str:
    return f"{who} each {what}." if who.endswith(":") else f"{who} {what}."


KINDS: tuple[FaultKind, ...] = tuple(
    Signal(name=f"{deed}-{name}", about=_about(who, what), whom=whom, number=number, reach=reach, needs=needs)
    for deed, (number, what) in _DEEDS.items()
    for name, whom, reach, needs, who in _WHOM
)
