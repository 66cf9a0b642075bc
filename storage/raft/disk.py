"""The outside of the journal and the snapshots: files, the directory lock, and the thread that syncs.

Everything storage does to a disk goes through a `Disk` and a `Worker`, so that a simulated world can
replace both and lose what was not synced. Nothing here interprets bytes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import queue
import shutil
import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

from storage.raft.errors import DirectoryInUse

QUICK_SYNC_S: Final = 0.001
"""A sync that is quicker than this costs less than the thread that would do it instead."""
QUICK_SYNCS_MIN: Final = 64
"""How many syncs, one after the other, have to be quick for a disk to count as quick."""
SLOW_SYNC_S: Final = 0.01
"""A sync that takes this long holds the loop up."""
SLOW_SYNC_REST: Final = 10
"""After a slow sync the loop does none for this many times as long as it took."""
KNOWN_SYNCS_MIN: Final = 8
"""How many syncs a thread does first, so that something is known of the disk."""
SYNC_SHARE_MAX: Final = 0.2
"""The share of the time that syncs may hold the loop up, over some seconds, if they are not quick."""
SYNC_DEBT_MAX_S: Final = 0.1
"""How many seconds syncs may have taken beyond that share."""


class AppendFile(Protocol):
    """A file open for appending. Methods raise OSError."""

    def append(self, content: bytes) -> None:
        """Write all of `content` at the end of the file; it is durable only after `sync`."""

    def sync(self) -> None:
        """Block until everything appended is durable (fdatasync). May be called from another thread."""

    def close(self) -> None: ...


class FixedFile(Protocol):
    """A small file that stays open and is written from its beginning, again and again. Methods raise
    OSError."""

    def write(self, content: bytes) -> None:
        """Put `content` at the beginning; it is not synced. The file is made anew if it was removed, which
        fails if its directory is gone."""

    def close(self) -> None: ...


class DirectoryLock(Protocol):
    """A lock that is held until it is released or the process ends."""

    def release(self) -> None: ...


class ReadFiles(Protocol):
    """File access as an inspection needs it. Methods raise OSError."""

    def list(self, directory: str) -> list[str]: ...
    def read(self, path: str) -> bytes: ...
    def size(self, path: str) -> int: ...


class Files(ReadFiles, Protocol):
    """File access as the journal and the snapshot store need it. Methods raise OSError."""

    def make_directory(self, path: str) -> None: ...
    def lock(self, directory: str) -> DirectoryLock: ...
    def open_append(self, path: str) -> AppendFile: ...
    def open_fixed(self, path: str) -> FixedFile: ...
    def overwrite(self, path: str, content: bytes, offset: int = 0) -> None:
        """Put `content` at `offset` of the file, made if need be; it is not synced."""

    def truncate(self, path: str, size: int) -> None: ...
    def remove(self, path: str) -> None: ...
    def rename(self, old: str, new: str) -> None: ...
    def sync_directory(self, directory: str) -> None: ...


Done = Callable[[BaseException | None, float], None]
"""What is called with the outcome of work: what it raised or None, and how many seconds it took."""


class Executor(Protocol):
    """A place where blocking work runs outside the loop."""

    def submit(self, work: Callable[[], None], done: Done) -> None:
        """Run `work`, then `done`, in the executor's thread."""

    def close(self) -> None:
        """Finish what was submitted, then stop."""


class SyncSpeed:
    """How long the last syncs of a journal took, and whether the loop itself had better do the next one.

    A thread costs more than a quick sync does. It costs more than a slower one, too, as long as syncs are
    rare: a replica that has a few commits a second has nothing better to do than to wait for its disk."""

    def __init__(self) -> None:
        self.is_light = False
        """Whether to wait for the next sync costs next to nothing, as far as the last ones tell."""
        self._quick = self._known = 0
        self._debt_s = self._debt_at = self._rest_until = 0.0

    def took(self, sync_s: float, now: float) -> None:
        """Note how long the last sync took, in seconds, and when it ended."""
        debt_s = self._debt_s - (now - self._debt_at) * SYNC_SHARE_MAX
        debt_s = sync_s + (debt_s if debt_s > 0 else 0.0)
        self._debt_s = debt_s = debt_s if debt_s < 2 * SYNC_DEBT_MAX_S else 2 * SYNC_DEBT_MAX_S
        self._debt_at = now
        self._quick = self._quick + 1 if sync_s < QUICK_SYNC_S else 0
        self._known += 1
        if sync_s >= SLOW_SYNC_S:
            self._rest_until = now + sync_s * SLOW_SYNC_REST
        self.is_light = self._quick >= QUICK_SYNCS_MIN or (
            self._known >= KNOWN_SYNCS_MIN and debt_s <= SYNC_DEBT_MAX_S and now >= self._rest_until
        )


class _File:
    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC, 0o600)

    def append(self, content: bytes) -> None:
        written = os.write(self._descriptor, content)
        while written < len(content):
            written += os.write(self._descriptor, memoryview(content)[written:])

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


class _FixedFile:
    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = self._opened()

    def _opened(self) -> int:
        return os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)

    def write(self, content: bytes) -> None:
        if os.fstat(self._descriptor).st_nlink == 0:
            removed, self._descriptor = self._descriptor, self._opened()
            os.close(removed)
        written = os.pwrite(self._descriptor, content, 0)
        if written != len(content):
            raise OSError(errno.ENOSPC, f"{written} of {len(content)} bytes were written", self._path)

    def close(self) -> None:
        os.close(self._descriptor)


class _Lock:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        os.close(self._descriptor)


class Disk:
    """The real disk."""

    def make_directory(self, path: str) -> None:
        os.makedirs(path, mode=0o700, exist_ok=True)

    def lock(self, directory: str) -> DirectoryLock:
        """Take the directory for this process. Raises DirectoryInUse if another has it."""
        path = os.path.join(directory, "lock")
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise DirectoryInUse(
                f"{directory} is in use by another process (its lock file is held)"
            ) from None
        return _Lock(descriptor)

    def list(self, directory: str) -> list[str]:
        return sorted(os.listdir(directory))

    def open_append(self, path: str) -> AppendFile:
        return _File(path)

    def open_fixed(self, path: str) -> FixedFile:
        return _FixedFile(path)

    def read(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def size(self, path: str) -> int:
        return os.path.getsize(path)

    def overwrite(self, path: str, content: bytes, offset: int = 0) -> None:
        descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            written = os.pwrite(descriptor, content, offset)
            while written < len(content):
                written += os.pwrite(descriptor, memoryview(content)[written:], offset + written)
        finally:
            os.close(descriptor)

    def truncate(self, path: str, size: int) -> None:
        """Cut the file to `size` bytes and make that durable."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.ftruncate(descriptor, size)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def remove(self, path: str) -> None:
        os.remove(path)

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def free_bytes(self, path: str) -> int:
        """Return how many bytes are left in the file system that holds `path`."""
        return shutil.disk_usage(path).free

    def sync_directory(self, directory: str) -> None:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class Worker:
    """One thread that does one blocking thing after another. Its users bound what they submit: the
    journal and the snapshot store each have at most one thing under way."""

    def __init__(self, name: str) -> None:
        self._tasks: queue.SimpleQueue[tuple[Callable[[], None], Done] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[], None], done: Done) -> None:
        self._tasks.put((work, done))

    def close(self) -> None:
        self._tasks.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            work, done = task
            outcome: BaseException | None = None
            began = time.perf_counter()
            try:
                work()
            except Exception as error:  # handed to `done`, which knows what it means
                outcome = error
            done(outcome, time.perf_counter() - began)
