"""What a chaos run does to a replica from outside: to messages that leave, its disk, its wall clock.

A small JSON file (setting `raft.faults.file`) says what is wrong now. A thread looks at it a few times a
second, so that nothing is looked up where messages are sent; without the setting none of this exists.
Replicas are named "<group>-<replica>" ("partition-3-1", "controller-0"), with * for any.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import random
import threading
import time
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

from storage.raft.disk import AppendFile, Disk, FixedFile
from storage.raft.members import replica_of

log = logging.getLogger(__name__)

LOOK_INTERVAL_S: Final = 0.1
"""How late, in seconds, a replica may be to learn of a fault, and of its end."""
WRITE: Final = "write"
SYNC: Final = "sync"


class LinkFault(NamedTuple):
    """What happens to messages from one replica to another; the other's answers go their own way."""

    sender: str
    receiver: str
    loss: float = 0.0
    """The share of the messages that is lost; 1: all of them, and the link stays open."""
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    """The most that chance adds to the delay, in ms; order is kept."""


class DiskFault(NamedTuple):
    replica: str
    fails: str = ""
    """The operation that fails: "write" or "sync"; empty: none does."""
    error: str = "EIO"
    """The error of the operation, by errno's name. ENOSPC: the disk shows no room either."""
    delay_ms: float = 0.0
    """How much longer every sync takes, in ms."""


class ClockFault(NamedTuple):
    """The wall clock as a replica finds it when its process starts; afterwards it counts by itself."""

    replica: str
    ahead_ms: int


class Faults(NamedTuple):
    """Everything that is wrong now."""

    links: tuple[LinkFault, ...] = ()
    disks: tuple[DiskFault, ...] = ()
    clocks: tuple[ClockFault, ...] = ()

    def write(self, path: Path) -> None:
        """Write the faults by replacing the file in one step, so that nobody reads half of it."""
        content = {field: [row._asdict() for row in getattr(self, field)] for field in self._fields}
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(content), encoding="utf-8")
        partial.replace(path)

    @classmethod
    def read(cls, path: Path) -> Faults:
        """Read the file that `write` left. Raises OSError, ValueError."""
        content = json.loads(path.read_text(encoding="utf-8"))
        try:
            return cls(
                links=tuple(LinkFault(**row) for row in content["links"]),
                disks=tuple(DiskFault(**row) for row in content["disks"]),
                clocks=tuple(ClockFault(**row) for row in content["clocks"]),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path} holds no faults: {error!r}") from None

    def of(self, name: str) -> Faults:
        """Return the faults that concern one replica; a link concerns its sender."""
        return Faults(
            tuple(link for link in self.links if fnmatchcase(name, link.sender)),
            tuple(disk for disk in self.disks if fnmatchcase(name, disk.replica)),
            tuple(clock for clock in self.clocks if fnmatchcase(name, clock.replica)),
        )


class InjectedFaults:
    """The faults of one replica, as they are now. The transport takes them as its `LinkFaults`."""

    def __init__(self, path: Path, group: str, replica_id: int) -> None:
        """Begin to watch the file at `path`. It may not exist yet: then there are no faults."""
        self._path = path
        self._group = group
        self._name = f"{group}-{replica_id}"
        self._seen: tuple[int, int] | None = None
        """The file's time and inode when it was read last: it is replaced, never changed. None: it was not
        read."""
        self._now = Faults()
        self._chance = random.Random()
        self._closed = threading.Event()
        self._look()
        self._looking = threading.Thread(target=self._watch, name="faults", daemon=True)
        self._looking.start()

    def close(self) -> None:
        self._closed.set()
        self._looking.join()

    def delay_s(self, peer_id: str) -> float | None:
        """Return how late the next message to this member is; None if it is lost."""
        links = self._now.links
        if not links:
            return 0.0
        receiver = f"{self._group}-{replica_of(peer_id)}"
        delay_ms = 0.0
        for link in links:
            if fnmatchcase(receiver, link.receiver):
                if self._chance.random() < link.loss:
                    return None
                delay_ms += link.delay_ms + self._chance.random() * link.jitter_ms
        return delay_ms / 1000

    def clock(self, now_ms: Callable[[], int]) -> Callable[[], int]:
        """Return a clock that goes like `now_ms`, ahead of it by what the present faults say."""
        ahead_ms = sum(clock.ahead_ms for clock in self._now.clocks)
        return (lambda: now_ms() + ahead_ms) if ahead_ms else now_ms

    def disk(self) -> Disk:
        """Return the real disk, with these faults."""
        return _FaultyDisk(self)

    @property
    def is_full(self) -> bool:
        return any(disk.fails == WRITE and disk.error == "ENOSPC" for disk in self._now.disks)

    def before(self, what: str) -> None:
        """Delay or fail an operation, before each write and each sync. Raises OSError."""
        for disk in self._now.disks:
            if what == SYNC and disk.delay_ms:
                time.sleep(disk.delay_ms / 1000)
            if disk.fails == what:
                number = getattr(errno, disk.error)
                raise OSError(number, f"{os.strerror(number)} (injected)")

    def _watch(self) -> None:
        while not self._closed.wait(LOOK_INTERVAL_S):
            self._look()

    def _look(self) -> None:
        try:
            found = self._path.stat()
            seen = (found.st_mtime_ns, found.st_ino)
            if seen == self._seen:
                return
            self._seen = seen
            self._now = Faults.read(self._path).of(self._name)
        except FileNotFoundError:
            self._seen, self._now = None, Faults()
        except (OSError, ValueError) as error:
            log.error("%s: faults stay as they are: %s", self._name, error)
            return
        log.warning("%s: injected faults are %s", self._name, self._now)


class _FaultyDisk(Disk):
    """A disk that fails as it is told. Reading, renaming and removing work on a full disk, too."""

    def __init__(self, faults: InjectedFaults) -> None:
        self._faults = faults

    def free_bytes(self, path: str) -> int:
        return 0 if self._faults.is_full else super().free_bytes(path)

    def open_append(self, path: str) -> AppendFile:
        self._faults.before(WRITE)
        return _FaultyFile(super().open_append(path), self._faults)

    def overwrite(self, path: str, content: bytes, offset: int = 0) -> None:
        self._faults.before(WRITE)
        super().overwrite(path, content, offset)

    def open_fixed(self, path: str) -> FixedFile:
        self._faults.before(WRITE)
        return _FaultyFixedFile(super().open_fixed(path), self._faults)

    def truncate(self, path: str, size: int) -> None:
        self._faults.before(SYNC)
        super().truncate(path, size)

    def sync_directory(self, directory: str) -> None:
        self._faults.before(SYNC)
        super().sync_directory(directory)


class _FaultyFile:
    def __init__(self, file: AppendFile, faults: InjectedFaults) -> None:
        self._file = file
        self._faults = faults

    def append(self, content: bytes) -> None:
        self._faults.before(WRITE)
        self._file.append(content)

    def sync(self) -> None:
        self._faults.before(SYNC)
        self._file.sync()

    def close(self) -> None:
        self._file.close()


class _FaultyFixedFile:
    def __init__(self, file: FixedFile, faults: InjectedFaults) -> None:
        self._file = file
        self._faults = faults

    def write(self, content: bytes) -> None:
        self._faults.before(WRITE)
        self._file.write(content)

    def close(self) -> None:
        self._file.close()
