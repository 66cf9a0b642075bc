"""A disk that forgets: what was not synced may be gone, wholly or in part, after a power loss."""

from __future__ import annotations

import random
from collections.abc import Callable

from storage.disk import AppendFile, DirectoryLock


class SimFile:
    def __init__(self, disk: SimDisk) -> None:
        self.content = bytearray()
        self.synced = 0
        self._disk = disk

    def append(self, content: bytes) -> None:
        if self._disk.full:
            raise OSError(28, "No space left on device")
        self.content += content

    def sync(self) -> None:
        if self._disk.deferred is not None:
            self._disk.deferred.append((self, len(self.content)))
        else:
            self.synced = len(self.content)

    def close(self) -> None:
        pass


class _Lock:
    def release(self) -> None:
        pass


class SimDisk:
    """The files of one replica; it outlives the replica's processes."""

    def __init__(self, chance: random.Random) -> None:
        self.full = False
        self.deferred: list[tuple[SimFile, int]] | None = None
        self._chance = chance
        self._names: dict[str, SimFile] = {}
        self._durable_names: dict[str, SimFile] = {}

    def lose_power(self) -> None:
        if self._chance.random() < 0.5:
            self._names = dict(self._durable_names)
        for name in sorted(self._names):
            file = self._names[name]
            del file.content[self._chance.randint(file.synced, len(file.content)) :]
        self._durable_names = dict(self._names)

    def make_directory(self, path: str) -> None:
        pass

    def lock(self, directory: str) -> DirectoryLock:
        return _Lock()

    def list(self, directory: str) -> list[str]:
        start = f"{directory}/"
        return sorted(name.removeprefix(start) for name in self._names if name.startswith(start))

    def open_append(self, path: str) -> AppendFile:
        if path not in self._names:
            self._names[path] = SimFile(self)
        return self._names[path]

    def read(self, path: str) -> bytes:
        return bytes(self._names[path].content)

    def truncate(self, path: str, size: int) -> None:
        file = self._names[path]
        del file.content[size:]
        file.synced = size

    def remove(self, path: str) -> None:
        del self._names[path]

    def rename(self, old: str, new: str) -> None:
        self._names[new] = self._names.pop(old)

    def sync_directory(self, directory: str) -> None:
        self._durable_names = dict(self._names)


Later = Callable[[float, Callable[[], None]], None]


class SyncExecutor:
    """Ends a sync some time later; it then covers what was written before it began, and no more."""

    def __init__(self, disk: SimDisk, chance: random.Random, later: Later) -> None:
        self._disk = disk
        self._chance = chance
        self._later = later

    def submit(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        covered: list[tuple[SimFile, int]] = []
        self._disk.deferred = covered
        work()
        self._disk.deferred = None

        def end() -> None:
            for file, size in covered:
                file.synced = max(file.synced, min(size, len(file.content)))
            done(None)

        slow = self._chance.random() < 0.02
        self._later(self._chance.uniform(0.1, 0.4) if slow else self._chance.uniform(0.0001, 0.005), end)

    def close(self) -> None:
        pass


class SaveExecutor:
    """Does the whole work some time later."""

    def __init__(self, chance: random.Random, later: Later) -> None:
        self._chance = chance
        self._later = later

    def submit(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        def end() -> None:
            error: BaseException | None = None
            try:
                work()
            except OSError as raised:
                error = raised
            done(error)

        self._later(self._chance.uniform(0.001, 0.05), end)

    def close(self) -> None:
        pass
