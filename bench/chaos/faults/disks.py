"""Faults of disks: they are full, slow or failing, or a replica starts again on damaged files."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

import psutil

from bench.chaos.targets import aims
from bench.chaos.targets.aims import Aim
from bench.chaos.targets.damage import damage
from bench.chaos.targets.fault import OUTAGE, SAFE, FaultKind, Injury
from bench.chaos.targets.site import tier_of
from bench.chaos.targets.target import NothingToHit, Target, process, send, until
from storage.raft.injected import SYNC, WRITE, DiskFault, Faults

SLOW_SYNC_MS: Final = 150.0
FILL_BYTES: Final = 1 << 20
STOPPED_TIMEOUT_S: Final = 5.0


@dataclass(slots=True, kw_only=True)
class Disk:
    """A fault of one replica's disk, or of all disks, for a while."""

    name: str
    about: str
    fault: Callable[[str], DiskFault]
    aim: Aim | None = aims.leader
    """Chooses the replica; None: all replicas are hit."""
    reach: str = SAFE
    needs: frozenset[str] = frozenset({"injection"})

    def begin(self, target: Target, chance: Random, for_s: float) -> Injury:
        site = tier_of(target)
        whom, name = "all replicas", "*"
        if self.aim is not None:
            [hit] = self.aim(site, chance)
            whom, name = hit.label, hit.name
        return Injury(whom, site.fault_file.add(Faults(disks=(self.fault(name),))))


@dataclass(slots=True, kw_only=True)
class FullFileSystem:
    """Fill the real file system on which the whole tier has its data directory."""

    name: str = "disk-full-all"
    about: str = "The file system of the whole tier is full until room is made."
    reach: str = OUTAGE
    needs: frozenset[str] = frozenset({"tmpfs"})

    def begin(self, target: Target, chance: Random, for_s: float) -> Injury:
        site = tier_of(target)
        assert site.small_disk is not None, "the fault needs a file system of its own"
        filler = site.small_disk / f"filler-{chance.getrandbits(32):08x}"
        filled = _fill(filler)
        return Injury("all replicas", filler.unlink, detail=f"{filled >> 20} MiB")


def _fill(filler: Path) -> int:
    """Write into a file until nothing more fits. Returns how many bytes it took."""
    with filler.open("wb", buffering=0) as file:
        step = FILL_BYTES
        while step:
            try:
                os.posix_fallocate(file.fileno(), file.tell(), step)
                file.seek(step, os.SEEK_CUR)
            except OSError:
                step //= 2
        return file.tell()


@dataclass(slots=True, kw_only=True)
class Damaged:
    """Damage the files of a replica while no process has them open: the replica is frozen first, and killed
    after."""

    name: str = "journal-damaged"
    about: str = "A replica is killed, and finds its files damaged when it starts: bits, pages, files, tails."
    reach: str = SAFE
    needs: frozenset[str] = frozenset({"replicas"})

    def begin(self, target: Target, chance: Random, for_s: float) -> Injury:
        site = tier_of(target)
        [hit] = aims.replica(site, chance)
        assert hit.group is not None, "a replica has a group"
        directory = Path(site.spec.directory(hit.group, hit.replica_id, hit.node_id))
        if not directory.is_dir():
            raise NothingToHit(f"{directory} is on another machine")
        stopped = process(hit.pid)
        send(stopped, signal.SIGSTOP)
        try:
            until(partial(_has_stopped, stopped), f"{hit.name} stands still", STOPPED_TIMEOUT_S)
            done = damage(directory, chance)
        finally:
            send(stopped, signal.SIGKILL)
        return Injury(hit.label, lambda: None, detail=done.text, killed=1)


def _has_stopped(stopped: psutil.Process) -> bool:
    try:
        return bool(stopped.status() == psutil.STATUS_STOPPED)
    except psutil.NoSuchProcess:
        raise NothingToHit(f"process {stopped.pid} has ended already") from None


KINDS: tuple[FaultKind, ...] = (
    Disk(
        name="disk-full",
        about="A leader's disk has no room; it steps down and waits for some.",
        fault=lambda name: DiskFault(name, fails=WRITE, error="ENOSPC"),
    ),
    FullFileSystem(),
    Disk(
        name="disk-slow",
        about=f"Every sync of a leader's disk takes {SLOW_SYNC_MS:.0f} ms more.",
        fault=lambda name: DiskFault(name, delay_ms=SLOW_SYNC_MS),
    ),
    Disk(
        name="disk-slow-all",
        about=f"Every sync of all disks takes {SLOW_SYNC_MS:.0f} ms more.",
        fault=lambda name: DiskFault(name, delay_ms=SLOW_SYNC_MS),
        aim=None,
    ),
    Disk(
        name="disk-sync-fails",
        about="The next sync of a leader's disk fails: what it wrote may be lost.",
        fault=lambda name: DiskFault(name, fails=SYNC, error="EIO"),
    ),
    Damaged(),
)
