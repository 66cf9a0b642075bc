"""A disk that forgets: what was not synced may be gone, wholly or in part, after a power loss.

It also fails as disks do: full (a part of the last write may be there), a sync that fails (the kernel may
have dropped what it could not write; a later sync that succeeds proves nothing), a bit that flips, a
directory that vanishes under the process, and the machine's end between any two operations.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from storage.raft.disk import AppendFile, DirectoryLock, Done
from storage.raft.journal import SEGMENT_SUFFIX
from storage.raft.records import RECORD_MAGIC

ENOENT, EIO, ENOSPC = 2, 5, 28
SYNC_S = (0.0001, 0.005)
QUICK_SYNC_S = (0.0001, 0.0009)
SLOW_SYNC_S = (0.05, 0.3)
STUCK_SYNC_S = (0.2, 0.9)
TORN_BYTES_MAX = 12
"""How many bytes of a torn write's end are zeros at most: fewer than any record has."""


class PowerLost(BaseException):
    """The machine ends here, in the middle of what it did. No production code may catch it."""


class SimFile:
    """The content of a file, the same for all that have it open."""

    __slots__ = ("content", "dropped", "failures", "synced")

    def __init__(self) -> None:
        self.content = bytearray()
        self.synced = 0
        self.dropped: int | None = None
        """Bytes from here on were in pages that a failed sync may have dropped."""
        self.failures = 0

    def fail_sync(self) -> None:
        """Fail a sync. Where all was synced already there is no page that could be dropped."""
        self.failures += 1
        if self.dropped is None and self.synced < len(self.content):
            self.dropped = self.synced

    @property
    def kept(self) -> int:
        """Return how many bytes survive any loss of power."""
        return self.synced if self.dropped is None else min(self.synced, self.dropped)

    def drop(self, chance: random.Random) -> None:
        """Lose power: from some place on, bytes that were not synced are gone, and the end may be torn."""
        kept = self.kept
        end = chance.randint(kept, len(self.content))
        del self.content[end:]
        if chance.random() < 0.3:
            torn = chance.randint(0, min(TORN_BYTES_MAX, end - kept))
            self.content[end - torn :] = bytes(torn)
        self.synced, self.dropped = len(self.content), None


class Handle:
    """An open file. A failed sync is told once to each handle, to whoever syncs it first (Linux's errseq)."""

    def __init__(self, disk: SimDisk, file: SimFile) -> None:
        self._disk = disk
        self._file = file
        self._failures_told = file.failures

    def append(self, content: bytes) -> None:
        disk = self._disk
        disk.operate()
        if disk.full:
            self._file.content += content[: disk.chance.randint(0, len(content))]
            raise OSError(ENOSPC, "No space left on device")
        self._file.content += content

    def sync(self) -> None:
        disk = self._disk
        disk.operate()
        if disk.failing:
            self._file.fail_sync()
        self._tell()
        if disk.deferred is not None:
            disk.deferred.append((self, len(self._file.content)))
        else:
            self._file.synced = len(self._file.content)

    def end_sync(self, size: int) -> None:
        """A sync that began when the file had this size ends. Raises OSError."""
        if self._disk.failing:
            self._file.fail_sync()
        self._tell()
        self._file.synced = max(self._file.synced, min(size, len(self._file.content)))

    def _tell(self) -> None:
        if self._failures_told != self._file.failures:
            self._failures_told = self._file.failures
            raise OSError(EIO, "Input/output error")

    def close(self) -> None:
        pass


class FixedHandle:
    """An open file that is written again and again from its beginning."""

    def __init__(self, disk: SimDisk, path: str) -> None:
        self._disk = disk
        self._path = path

    def write(self, content: bytes) -> None:
        self._disk.overwrite(self._path, content)

    def close(self) -> None:
        pass


class _Lock:
    def release(self) -> None:
        pass


class SimDisk:
    """The files of one replica; it outlives the replica's processes."""

    def __init__(self, chance: random.Random) -> None:
        self.full = False
        self.failing = False
        """Whether syncs fail."""
        self.gone = False
        """The directory was removed under a process that still has its files open."""
        self.is_quick = chance.random() < 0.3
        """Whether syncs are so quick that a replica waits for them."""
        self.sync_s = self.usual_sync_s
        """The shortest and the longest time that a sync takes."""
        self.operations_left: int | None = None
        """The number of operations after which the machine ends; None if it does not."""
        self.deferred: list[tuple[Handle, int]] | None = None
        self.chance = chance
        self._names: dict[str, SimFile] = {}
        self._durable_names: dict[str, SimFile] = {}

    @property
    def usual_sync_s(self) -> tuple[float, float]:
        return QUICK_SYNC_S if self.is_quick else SYNC_S

    def calm(self) -> None:
        """Let syncs take their usual time again."""
        self.sync_s = self.usual_sync_s

    def operate(self) -> None:
        if self.operations_left is not None:
            self.operations_left -= 1
            if self.operations_left < 0:
                self.operations_left = None
                raise PowerLost

    # -- what happens to it -------------------------------------------------------------------------

    def lose_power(self) -> None:
        self.deferred = None
        if self.chance.random() < 0.5:
            self._names = dict(self._durable_names)
        for name in sorted(self._names):
            self._names[name].drop(self.chance)
        self._durable_names = dict(self._names)

    def surviving(self) -> dict[str, bytes]:
        """Return the files, by name, as they would surely be found if the machine lost power now."""
        return {name: bytes(file.content[: file.kept]) for name, file in self._durable_names.items()}

    def process_ended(self) -> None:
        """Note the end of a process, whose pages stay. Those that a failed sync has dropped are gone now, or
        are in memory only and look clean: no sync writes them unless they are written again."""
        self.deferred = None
        for name in sorted(self._names):
            file = self._names[name]
            if file.dropped is not None and self.chance.random() < 0.5:
                del file.content[file.dropped :]
                file.synced, file.dropped = len(file.content), None

    def vanish(self) -> None:
        self._names.clear()
        self._durable_names.clear()
        self.gone = True

    def replaced(self) -> None:
        """Replace the disk by an empty one."""
        self.vanish()
        self.gone = self.full = self.failing = False

    def flip(self) -> str | None:
        """One bit that was synced, in a snapshot or in front of a whole record: what the very last record
        says cannot be told from a torn write. Returns what was hit."""
        reach = {name: self._damageable(name) for name in sorted(self._names)}
        targets = [name for name, end in reach.items() if end > 0]
        if not targets:
            return None
        name = self.chance.choice(targets)
        position = self.chance.randrange(reach[name])
        self._names[name].content[position] ^= 1 << self.chance.randrange(8)
        return f"{name} at byte {position}"

    def _damageable(self, name: str) -> int:
        file = self._names[name]
        if not name.endswith(SEGMENT_SUFFIX):
            return file.synced if file.synced == len(file.content) else 0
        end = file.content.rfind(RECORD_MAGIC, 0, file.synced)
        return max(file.content.rfind(RECORD_MAGIC, 0, max(end, 0)), 0)

    # -- storage.raft.disk.Files -------------------------------------------------------------------------

    def make_directory(self, path: str) -> None:
        self.gone = False

    def lock(self, directory: str) -> DirectoryLock:
        return _Lock()

    def list(self, directory: str) -> list[str]:
        start = f"{directory}/"
        return sorted(name.removeprefix(start) for name in self._names if name.startswith(start))

    def open_append(self, path: str) -> AppendFile:
        self._touch()
        if path not in self._names:
            if self.full:
                raise OSError(ENOSPC, "No space left on device")
            self._names[path] = SimFile()
        return Handle(self, self._names[path])

    def open_fixed(self, path: str) -> FixedHandle:
        self.overwrite(path, b"")
        return FixedHandle(self, path)

    def read(self, path: str) -> bytes:
        return bytes(self._named(path).content)

    def size(self, path: str) -> int:
        return len(self._named(path).content)

    def overwrite(self, path: str, content: bytes, offset: int = 0) -> None:
        self.open_append(path)
        file = self._names[path]
        file.content[offset : offset + len(content)] = content
        if file.dropped is not None and offset <= file.dropped and offset + len(content) == len(file.content):
            file.synced, file.dropped = min(file.synced, offset), None

    def truncate(self, path: str, size: int) -> None:
        self._touch()
        file = self._named(path)
        del file.content[size:]
        file.synced = size
        if file.dropped is not None and size <= file.dropped:
            file.dropped = None

    def remove(self, path: str) -> None:
        self._touch()
        self._named(path)
        del self._names[path]

    def rename(self, old: str, new: str) -> None:
        self._touch()
        self._named(old)
        self._names[new] = self._names.pop(old)

    def sync_directory(self, directory: str) -> None:
        self._touch()
        start = f"{directory}/"
        elsewhere = {n: file for n, file in self._durable_names.items() if not n.startswith(start)}
        here = {n: file for n, file in self._names.items() if n.startswith(start)}
        self._durable_names = elsewhere | here

    def _touch(self) -> None:
        self.operate()
        if self.gone:
            raise OSError(ENOENT, "No such file or directory")

    def _named(self, path: str) -> SimFile:
        if path not in self._names:
            raise OSError(ENOENT, f"No such file or directory: {path}")
        return self._names[path]


Later = Callable[[float, Callable[[], None]], None]
"""Do this so many seconds from now, if the process still lives."""


class SyncExecutor:
    """Ends a sync some time later; it then covers what was written before it began, and no more."""

    def __init__(self, disk: SimDisk, chance: random.Random, later: Later) -> None:
        self._disk = disk
        self._chance = chance
        self._later = later

    def submit(self, work: Callable[[], None], done: Done) -> None:
        disk = self._disk
        covered: list[tuple[Handle, int]] = []
        disk.deferred = covered
        error: OSError | None = None
        try:
            work()
        except OSError as raised:
            error = raised
        finally:
            disk.deferred = None

        is_slow = not disk.is_quick and self._chance.random() < 0.02
        took_s = self._chance.uniform(*(SLOW_SYNC_S if is_slow else disk.sync_s))

        def end() -> None:
            failed = error
            try:
                for handle, size in covered:
                    handle.end_sync(size)
            except OSError as raised:
                failed = raised
            done(failed, took_s)

        self._later(took_s, end)

    def close(self) -> None:
        pass


class SaveExecutor:
    """An executor that does a snapshot's whole work at once, some time later."""

    def __init__(self, chance: random.Random, later: Later) -> None:
        self._chance = chance
        self._later = later

    def submit(self, work: Callable[[], None], done: Done) -> None:
        def end() -> None:
            error: BaseException | None = None
            try:
                work()
            except OSError as raised:
                error = raised
            done(error, 0.0)

        self._later(self._chance.uniform(0.001, 0.05), end)

    def close(self) -> None:
        pass
