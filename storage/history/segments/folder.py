"""The folder of all history: a local directory, or any path that fsspec knows.

A segment is published whole: on a local disk it is written under a hidden name, synced and renamed; to
anything else it is put as one object. A crash leaves a hidden file at most, which a later writer removes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import fsspec
from fsspec.implementations.local import LocalFileSystem

from storage.history.segments.names import PARTITION, TEMPORARY_SUFFIX, Found, Segment, is_hidden, parse

FREE_BYTES_MIN: Final = 256 * 1024 * 1024
"""History leaves so much of a disk to the journals: without these nobody is served."""
TEMPORARY_KEPT_S: Final = 600.0
"""Longer than anybody takes to write a segment: who began it is dead."""


class FolderError(OSError):
    """A folder that cannot be used, in words for the user."""


class Listing(NamedTuple):
    """What a folder holds."""

    found: list[Found]
    """Oldest first."""
    foreign: list[str]
    """Paths of files that are no segments."""


class Folder:
    """Methods raise OSError (fsspec's file systems do, too)."""

    def __init__(self, url: str, *, free_bytes_min: int = FREE_BYTES_MIN) -> None:
        """Open a folder by its path or URL. Raises FolderError."""
        self.url = url
        try:
            self._fs, self._root = fsspec.url_to_fs(url)
        except (ValueError, ImportError) as error:
            raise FolderError(f"history.dir = {url!r}: {error}") from None
        self._is_local = isinstance(self._fs, LocalFileSystem)
        self._free_bytes_min = free_bytes_min

    def segments(self, offsets_partition: int | None = None) -> Listing:
        """List the segments of one offsets partition, or of all; a folder that is not there has none."""
        self._fs.invalidate_cache()
        found, foreign = [], []
        for directory in self._directories(offsets_partition):
            for path, info in self._fs.find(directory, detail=True).items():
                below = path[len(self._root.rstrip("/")) + 1 :]
                if is_hidden(below):
                    continue
                segment = parse(below)
                if segment is None:
                    foreign.append(below)
                else:
                    found.append(Found(segment, info["size"]))
        return Listing(sorted(found), sorted(foreign))

    def publish(self, segment: Segment, write: Callable[[Any], None]) -> int:
        """Have the segment that `write` writes into what it is given (a path, or a pyarrow stream). Returns
        its size in bytes. Also raises what `write` raises; then nothing is there."""
        return self._rename_in(segment, write) if self._is_local else self._put(segment, write)

    @contextlib.contextmanager
    def reading(self, segment: Segment) -> Iterator[Any]:
        """Give what pyarrow can read the segment from during the context: a path or an open file."""
        path = self._path(segment.path)
        if self._is_local:
            yield path
        else:
            with self._fs.open(path, "rb") as file:
                yield file

    def remove(self, segments: Iterable[Segment]) -> None:
        """Remove these segments if they are there, and directories that are empty then."""
        for segment in segments:
            with contextlib.suppress(FileNotFoundError):
                self._fs.rm_file(self._path(segment.path))
            if self._is_local:
                self._remove_empty(Path(self._path(segment.folder)))

    def remove_left_behind(self, offsets_partition: int) -> None:
        """Take away what writers that died had not published."""
        if not self._is_local:
            return
        pattern = f"*/{PARTITION}{offsets_partition}/.*{TEMPORARY_SUFFIX}"
        for path in Path(self._root).glob(pattern):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > TEMPORARY_KEPT_S:
                    path.unlink()

    def _path(self, below: str) -> str:
        return f"{self._root.rstrip('/')}/{below}"

    def _directories(self, offsets_partition: int | None) -> list[str]:
        """The directories to look into. One partition's are asked for by name: another's files may be
        many."""
        if offsets_partition is None:
            return [self._root] if self._fs.exists(self._root) else []
        try:
            days = self._fs.ls(self._root, detail=False)
        except FileNotFoundError:
            return []
        below = (f"{day.rstrip('/')}/{PARTITION}{offsets_partition}" for day in days)
        return [directory for directory in below if self._fs.isdir(directory)]

    def _rename_in(self, segment: Segment, write: Callable[[Any], None]) -> int:
        directory = self._path(segment.folder)
        os.makedirs(directory, mode=0o700, exist_ok=True)
        if shutil.disk_usage(directory).free < self._free_bytes_min:
            raise OSError(errno.ENOSPC, f"less than {self._free_bytes_min:,} bytes are free", directory)
        temporary = f"{directory}/.{segment.name}.{os.getpid()}{TEMPORARY_SUFFIX}"
        try:
            write(temporary)
            _sync(temporary, os.O_WRONLY)
            size_bytes = os.path.getsize(temporary)
            os.replace(temporary, self._path(segment.path))
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        _sync(directory, os.O_RDONLY | os.O_DIRECTORY)
        return size_bytes

    def _put(self, segment: Segment, write: Callable[[Any], None]) -> int:
        import pyarrow as pa

        stream = pa.BufferOutputStream()
        write(stream)
        content = stream.getvalue().to_pybytes()
        self._fs.makedirs(self._path(segment.folder), exist_ok=True)
        self._fs.pipe_file(self._path(segment.path), content)
        return len(content)

    def _remove_empty(self, directory: Path) -> None:
        for each in (directory, directory.parent):
            with contextlib.suppress(OSError):  # somebody else's segment is in it
                each.rmdir()


def _sync(path: str, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
