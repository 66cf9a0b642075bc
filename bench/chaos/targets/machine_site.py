"""A tier of ours on machines of its own, under attack: what hits a machine hits all that is on it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Final

import psutil

from actors import runtime
from actors.ground.calls import ActorCallError
from bench.chaos.targets.operating import operate
from bench.chaos.targets.site import Site
from bench.chaos.targets.stand import Machine, Stand, stand
from bench.chaos.targets.target import NothingToHit, Server, until
from cluster import machine_secret
from cluster.machine.agent import READY
from cluster.tier_file import TierError

PORT: Final = 9_900
UP_TIMEOUT_S: Final = 90.0
STOP_TIMEOUT_S: Final = 30.0
AGENT: Final = "cluster.machine.agent"
CALLED: Final = "machine"
"""What a machine calls the directory of its agent."""


class MachineSite(Site):
    """A tier that lives on the machines of a stand. Made by `throw_away`."""

    def __init__(self, data_dir: Path, machines: Machines) -> None:
        super().__init__(data_dir)
        self.machines = machines

    @property
    def has(self) -> frozenset[str]:
        return frozenset({"machines"})

    def _handle(self, name: str) -> runtime.Handle:
        try:
            return super()._handle(name)
        except (ActorCallError, TimeoutError) as error:
            raise NothingToHit(str(error)) from None

    def find(self, whom: str, chance: Random) -> Sequence[Server]:
        raise NothingToHit("processes of machines are hit with their machine")


class Machines:
    """The machines of a stand, each with its agent."""

    def __init__(self, on: Stand) -> None:
        self._stand = on
        self._secret = on.home / machine_secret.NAME

    @property
    def all(self) -> list[Machine]:
        return self._stand.machines

    def start(self) -> None:
        """Start the agents: the first machine makes the secret, the others join it. Raises TimeoutError."""
        first, *others = self.all
        self._begin(first, "--head")
        shutil.copy(first.disk / CALLED / machine_secret.NAME, self._secret)
        for machine in others:
            self.join(machine, wait=False)
        for machine in others:
            self.wait_until_up(machine)

    def add(self) -> Machine:
        """Add a machine to the stand, which joins the others."""
        machine = self._stand.add()
        self.join(machine)
        return machine

    def join(self, machine: Machine, *, wait: bool = True) -> None:
        """Let a machine join the others for the first time, or after it lost its disk."""
        shutil.copy(self._secret, machine.disk / machine_secret.NAME)
        known = next(each for each in self.all if each is not machine and each.has_power)
        secret = str(machine.home / machine_secret.NAME)
        self._begin(machine, "--join", f"{known.host}:{PORT}", "--secret", secret, wait=wait)

    def boot_again(self, machine: Machine, *, wait: bool = True) -> None:
        """Give a machine its power back; its agent starts as a supervisor would start it."""
        machine.boot()
        machine.begin("machine", "up", "--dir", str(machine.home / CALLED))
        if wait:
            self.wait_until_up(machine)

    def lose_all_power(self) -> None:
        """Have all machines lose their power, and boot again together."""
        for machine in self.all:
            machine.lose_power()
        for machine in self.all:
            self.boot_again(machine, wait=False)
        for machine in self.all:
            self.wait_until_up(machine)

    def boot_elsewhere(self, machine: Machine, host: str) -> None:
        """Give a machine its power back under another address."""
        machine.readdress(host)
        machine.boot()
        machine.boots = 1  # at this address
        self._begin(machine)

    def exchange(self, machine: Machine, packages: Path | None) -> None:
        """Give a machine another groupd, as an operator does: its agent is stopped, and the machine boots
        with the packages of this folder (None: the sandbox's own)."""
        agents = machine.find(AGENT)
        for agent in agents:
            agent.terminate()
        psutil.wait_procs(agents, STOP_TIMEOUT_S)
        machine.lose_power()
        machine.packages = packages
        self.boot_again(machine)

    def wait_until_up(self, machine: Machine) -> None:
        output = machine.disk / "output.log"
        ready = f"{READY} {machine.host}:{PORT}".encode()

        def told() -> bytes:
            return output.read_bytes() if output.exists() else b""

        try:
            until(
                lambda: told().count(ready) >= machine.boots, f"machine {machine.number} is up", UP_TIMEOUT_S
            )
        except TimeoutError as error:
            raise TimeoutError(f"{error}: {told().decode(errors='replace')[-500:]}") from None

    def _begin(self, machine: Machine, *how: str, wait: bool = True) -> None:
        machine.begin("machine", "up", *how, "--host", machine.host, "--dir", str(machine.home / CALLED))
        if wait:
            self.wait_until_up(machine)


@contextmanager
def throw_away(*flags: str, count: int = 3) -> Iterator[MachineSite]:
    """Make a stand of machines with a tier on them, of one node each; nothing of it is left afterwards.
    Raises TierError, TimeoutError."""
    with stand(count) as made:
        machines = Machines(made)
        machines.start()
        data_dir = made.home / "tier"
        _up(machines, data_dir, flags, count)
        site = MachineSite(data_dir, machines)
        try:
            site.wait_until_whole()
            yield site
        finally:
            site.close()


def _up(machines: Machines, data_dir: Path, flags: Sequence[str], count: int) -> None:
    at = f"{machines.all[0].host}:{PORT}"
    secret = f"machine.secret={data_dir.parent / machine_secret.NAME}"
    done = operate(
        data_dir, "up", "--detach", "--nodes", str(count), "--machine", at, "--set", secret, *flags
    )
    if done.returncode:
        raise TierError(f"the tier on machines did not start: {done.stderr.strip()}")
