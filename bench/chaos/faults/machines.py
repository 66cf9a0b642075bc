"""Faults of whole machines: their network, their power, their Ray, their disk.

Each leaves every group a majority, so service goes on: what is on the machine fails over, and comes back by
itself when the machine does.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

import psutil

from bench.chaos.targets.fault import SAFE, FaultKind, Injury
from bench.chaos.targets.machine_site import MachineSite
from bench.chaos.targets.stand import Machine
from bench.chaos.targets.target import NothingToHit, Target, send

NEEDS: Final = frozenset({"machines"})
PIECE_BYTES: Final = 64 * 1024
FILLER: Final = "filler"

Begin = Callable[[MachineSite, Machine, Random], Injury]


@dataclass(slots=True, kw_only=True)
class MachineFault:
    """A fault that hits one machine, whichever."""

    name: str
    about: str
    hit: Begin
    reach: str = SAFE
    needs: frozenset[str] = NEEDS

    def begin(self, target: Target, chance: Random, for_s: float) -> Injury:
        assert isinstance(target, MachineSite), "the fault needs machines"
        return self.hit(target, chance.choice(target.machines.all), chance)


def _cut(site: MachineSite, machine: Machine, chance: Random) -> Injury:
    machine.cut()
    return Injury(_called(machine), machine.mend, silences=True)


def _mute(site: MachineSite, machine: Machine, chance: Random) -> Injury:
    """Let what the machine sends to the others be lost."""
    for other in _others(site, machine):
        machine.lose_all_to(other)
    return Injury(_called(machine), machine.mend, silences=True)


def _deaf(site: MachineSite, machine: Machine, chance: Random) -> Injury:
    """Let what the others send to the machine be lost."""
    others = _others(site, machine)
    for other in others:
        other.lose_all_to(machine)
    return Injury(_called(machine), partial(_mend, others), silences=True)


def _cut_between(site: MachineSite, machine: Machine, chance: Random) -> Injury:
    other = chance.choice(_others(site, machine))
    machine.lose_all_to(other)
    other.lose_all_to(machine)
    return Injury(
        f"machines {machine.number} and {other.number}", partial(_mend, [machine, other]), silences=True
    )


def _lose_power(site: MachineSite, machine: Machine, chance: Random) -> Injury:
    killed = len(machine.processes())
    machine.lose_power()
    return Injury(_called(machine), partial(site.machines.boot_again, machine), silences=True, killed=killed)


def _replace(site: MachineSite, machine: Machine, chance: Random) -> Injury:
    killed = len(machine.processes())
    machine.lose_power()

    def put_an_empty_one_there() -> None:
        machine.lose_disk()
        machine.boot()
        site.machines.join(machine)

    return Injury(_called(machine), put_an_empty_one_there, silences=True, killed=killed)


def _freeze(site: MachineSite, machine: Machine, chance: Random) -> Injury:
    machine.freeze()
    return Injury(_called(machine), machine.thaw, silences=True)


def _kill_raylet(site: MachineSite, machine: Machine, chance: Random) -> Injury:
    return _kill(machine, "raylet/raylet")


def _kill_gcs(site: MachineSite, machine: Machine, chance: Random) -> Injury:
    return _kill(machine, "gcs/gcs_server")


def _fill_disk(site: MachineSite, machine: Machine, chance: Random) -> Injury:
    filler = machine.disk / FILLER
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(PIECE_BYTES)):
            pass
    return Injury(_called(machine), filler.unlink)


def _kill(machine: Machine, what: str) -> Injury:
    found = machine.find(what)
    if not found:
        raise NothingToHit(f"there is no {what} on machine {machine.number} right now")
    for process in found:
        send(process, signal.SIGKILL)
    psutil.wait_procs(found, 1.0)
    return Injury(_called(machine), lambda: None, killed=len(found))


def _others(site: MachineSite, machine: Machine) -> list[Machine]:
    return [other for other in site.machines.all if other is not machine]


def _mend(machines: list[Machine]) -> None:
    for machine in machines:
        machine.mend()


def _called(machine: Machine) -> str:
    return f"machine {machine.number}"


KINDS: Final[tuple[FaultKind, ...]] = (
    MachineFault(name="machine-cut", about="A machine's cable is pulled.", hit=_cut),
    MachineFault(name="machine-mute", about="What a machine sends to the others is lost.", hit=_mute),
    MachineFault(name="machine-deaf", about="What the others send to a machine is lost.", hit=_deaf),
    MachineFault(name="machines-apart", about="Two machines cannot reach each other.", hit=_cut_between),
    MachineFault(name="machine-power", about="A machine loses its power, and boots again.", hit=_lose_power),
    MachineFault(
        name="machine-replaced", about="A machine is lost, and an empty one takes its place.", hit=_replace
    ),
    MachineFault(name="machine-frozen", about="All processes of a machine are frozen.", hit=_freeze),
    MachineFault(name="machine-raylet", about="A machine's raylet is killed.", hit=_kill_raylet),
    MachineFault(name="machine-gcs", about="A machine's GCS is killed.", hit=_kill_gcs),
    MachineFault(name="machine-disk-full", about="A machine's disk is full.", hit=_fill_disk),
)
