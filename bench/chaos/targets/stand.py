"""Machines in one sandbox: each has an address, processes, a temporary directory and disks of its own.

A machine is a network namespace on a bridge, and within it namespaces of processes and mounts: nothing of one
machine sees another one's processes or files, though all call their directories alike. What can happen to
real ones can be done to these: cables are cut, one way or both, machines lose power, freeze, come back empty.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psutil

NETWORKS: Final = [f"10.213.{number}" for number in range(1, 250)]
BRIDGE_HOST: Final = 254
"""The sandbox's own address on the bridge ends so: clients of the tests have it."""
DISK_MIB: Final = 1_024
ABOVE: Final = "/var/tmp"  # noqa: S108 (each stand makes a directory of its own there)
"""Where stands keep what they need: not below /tmp, of which each machine has its own."""
END_TIMEOUT_S: Final = 20.0


def why_not() -> str | None:
    """Return why there can be no stand here; None if there can be one."""
    missing = [tool for tool in ("ip", "unshare", "nsenter", "mount") if shutil.which(tool) is None]
    if missing:
        return f"{' and '.join(missing)} is missing (iproute2, util-linux)"
    if os.geteuid() != 0:
        return "only root makes network namespaces"
    try:
        _run("ip", "netns", "add", _name(0, "t"))
        _run("ip", "netns", "del", _name(0, "t"))
    except RuntimeError as error:
        return str(error)
    return None


class Machine:
    """One machine. It has power from `boot` to `lose_power`; its disk outlives that."""

    def __init__(self, stand: Stand, number: int) -> None:
        self.number = number
        self.host = f"{stand.network}.{number}"
        self._namespace = _name(number, "n")
        self._cable = _name(number, "c")
        self.home = stand.home
        """What every machine calls its disk."""
        self.disk = stand.directory / f"disk-{number}"
        """What the sandbox calls it."""
        self.disk.mkdir()
        _run("mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(self.disk))
        _run("ip", "netns", "add", self._namespace)
        _run(
            "ip", "link", "add", self._cable, "type", "veth", "peer", "name", "eth0", "netns", self._namespace
        )
        _run("ip", "link", "set", self._cable, "master", stand.bridge, "up")
        for command in (
            ("addr", "add", f"{self.host}/24", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
            ("link", "set", "lo", "up"),
        ):
            self._ip(*command)
        self.packages: Path | None = None
        """The folder of the groupd that the machine runs; None: the sandbox's own."""
        self.boots = 0
        """How often it was given power since its disk was empty."""
        self._power: subprocess.Popen[bytes] | None = None
        self._first: psutil.Process | None = None

    # Power.

    @property
    def has_power(self) -> bool:
        return self._power is not None

    def boot(self) -> None:
        """Begin the machine's processes with one that only waits; its temporary directory is empty. Raises
        RuntimeError with what `unshare` or the shell complains of."""
        assert self._power is None, "it has power"
        self.boots += 1
        waiting = (
            f"mount --bind {self.disk} {self.home} && mount -t tmpfs tmpfs /tmp && echo up && "
            "while true; do sleep 1000 & wait; done"  # it takes in orphans, as every first process must
        )
        self._power = subprocess.Popen(
            [
                *("ip", "netns", "exec", self._namespace),
                *("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"),
                *("sh", "-c", waiting),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,  # `unshare` complains of each loss of power
            start_new_session=True,
        )
        assert self._power.stdout is not None
        assert self._power.stderr is not None
        if self._power.stdout.readline() != b"up\n":
            raise RuntimeError(f"machine {self.number} has not booted: {self._power.stderr.read().decode()}")
        # `ip` becomes `unshare`, whose child is the first process of the machine.
        [self._first] = psutil.Process(self._power.pid).children()

    def lose_power(self) -> None:
        """Kill every process of the machine at once: the kernel does so when the first one is gone."""
        if self._power is None:
            return
        assert self._first is not None
        processes = self.processes()
        with contextlib.suppress(psutil.NoSuchProcess):
            self._first.kill()
        self._power.wait(END_TIMEOUT_S)
        psutil.wait_procs(processes, END_TIMEOUT_S)
        for stream in (self._power.stdout, self._power.stderr):
            assert stream is not None
            stream.close()
        self._power = self._first = None

    def lose_disk(self) -> None:
        """Empty the disk of a machine without power: it comes back as a new one under the same address."""
        assert self._power is None, "its power is on"
        self.boots = 0
        for each in self.disk.iterdir():
            shutil.rmtree(each) if each.is_dir() else each.unlink()

    def readdress(self, host: str) -> None:
        """Give a machine without power another address on the network."""
        assert self._power is None, "its power is on"
        self._ip("addr", "del", f"{self.host}/24", "dev", "eth0")
        self._ip("addr", "add", f"{host}/24", "dev", "eth0")
        self.host = host

    def freeze(self) -> None:
        # Not the first one, which does nothing: who waits for it outside would stop with it.
        for process in self.processes():
            if process == self._first:
                continue
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)

    def processes(self) -> list[psutil.Process]:
        """Every process of the machine: those of its namespace of processes."""
        if self._first is None:
            return []
        mine = os.readlink(f"/proc/{self._first.pid}/ns/pid")
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(OSError, psutil.NoSuchProcess):
                if os.readlink(f"/proc/{process.pid}/ns/pid") == mine:
                    found.append(process)
        return found

    def find(self, part: str) -> list[psutil.Process]:
        """The machine's processes whose command line has this part."""
        found = []
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                if part in " ".join(process.cmdline()):
                    found.append(process)
        return found

    # The network.

    def cut(self) -> None:
        """Pull the machine's cable."""
        _run("ip", "link", "set", self._cable, "down")

    def mend(self) -> None:
        """Plug the cable in, and forget all routes into the void."""
        _run("ip", "link", "set", self._cable, "up")
        shown = self._ip("route", "show", "type", "blackhole").stdout.decode().split()
        for address in shown[1::2]:
            self._ip("route", "del", "blackhole", address)

    def lose_all_to(self, other: Machine) -> None:
        """Lose whatever this machine sends to another one: what comes from there still arrives."""
        self._ip("route", "add", "blackhole", f"{other.host}/32")

    # Commands.

    def command(self, *arguments: str) -> list[str]:
        """A command line that runs on the machine."""
        assert self._first is not None, "it has no power"
        inside = [
            "nsenter",
            "--target",
            str(self._first.pid),
            "--net",
            "--pid",
            "--mount",
            f"--wd={self.home}",
        ]
        return [*inside, *arguments]

    def groupd(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command of `groupd` on the machine, to its end."""
        command = self.command(*self._groupd(*arguments))
        return subprocess.run(command, capture_output=True, text=True, timeout=180, **options)

    def begin(self, *arguments: str) -> None:
        """Begin a command of `groupd` that stays; its output goes to a file on the disk. It becomes a child
        of the machine's first process: nobody outside waits for it."""
        line = f'exec setsid "$@" </dev/null >>{self.home}/output.log 2>&1 &'
        subprocess.run(self.command("sh", "-c", line, "sh", *self._groupd(*arguments)), check=True)

    def _groupd(self, *arguments: str) -> list[str]:
        run = [sys.executable, "-m", "cluster.cli", *arguments]
        return run if self.packages is None else ["env", f"PYTHONPATH={self.packages}", *run]

    def remove(self) -> None:
        try:
            self.lose_power()
        finally:
            # What was in a namespace goes when the kernel has time, and the next stand has the same names.
            _run("ip", "link", "del", self._cable)
            _run("ip", "netns", "del", self._namespace)
            _run("umount", "--lazy", str(self.disk))

    def _ip(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return _run("ip", "-n", self._namespace, *arguments)


class Stand:
    """Some machines on one network."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.home = directory / "home"
        """The directory that every machine has for itself; the sandbox's own is the operator's."""
        self.home.mkdir()
        self.bridge = _name(0, "b")
        self.machines: list[Machine] = []
        self.network = _free_network()
        _run("ip", "link", "add", self.bridge, "type", "bridge")
        _run("ip", "addr", "add", f"{self.network}.{BRIDGE_HOST}/24", "dev", self.bridge)
        _run("ip", "link", "set", self.bridge, "up")

    def add(self) -> Machine:
        """Add a machine and boot it."""
        machine = Machine(self, len(self.machines) + 1)
        self.machines.append(machine)
        machine.boot()
        return machine

    def remove(self) -> None:
        with contextlib.ExitStack() as last:
            last.callback(_run, "ip", "link", "del", self.bridge)
            for machine in self.machines:
                last.callback(machine.remove)


@contextlib.contextmanager
def stand(count: int) -> Iterator[Stand]:
    """A stand of `count` machines with power; nothing of it is left afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="groupd-stand-", dir=ABOVE))
    made = Stand(directory)
    try:
        for _ in range(count):
            made.add()
        yield made
    finally:
        made.remove()
        shutil.rmtree(directory, ignore_errors=True)


def _free_network() -> str:
    """A network that the sandbox has not: another stand may be there, or what a killed one left."""
    taken = _run("ip", "-4", "-o", "addr", "show").stdout.decode()
    return next(network for network in NETWORKS if f" {network}." not in taken)


def _name(number: int, kind: str) -> str:
    """The name of something of the kernel's, which all stands of the sandbox share: at most 15 letters."""
    return f"gd{kind}{os.getpid() % 1_000_000}-{number}"


def _run(*command: str) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(command, capture_output=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.decode(errors='replace').strip()}")
    return done
