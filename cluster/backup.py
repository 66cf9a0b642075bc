"""Write a running tier's committed state to a directory of files (`groupd backup`).

Each Raft group is copied as of one entry of its log, from its leader, without stopping anything; what was
acknowledged before the backup began is in it. The groups are copied one after the other, so two groups of
consumers in different partitions may stand some moments apart, as their clients do anyway. The records of
topics are not copied: a tier coordinates, it is no message store.

The directory appears under its name when all of it is on disk, or not at all.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from actors import runtime
from cluster import backup_manifest
from cluster.backup_file import FileHeader, RecordFile, file_name
from cluster.backup_manifest import Manifest, Progress, groups_of
from cluster.group_leaders import GroupLeaders
from cluster.state_copy import open_copy
from cluster.tier_file import TierError


def take(leaders: GroupLeaders, directory: Path, progress: Progress) -> Manifest:
    """Back the tier up into `directory`, which must not exist. Raises TierError; then nothing is left."""
    leaders.refuse_in_a_split("a backup")
    spec = leaders.spec
    directory = directory.resolve()
    groups = groups_of(spec.offsets_partitions)
    with whole_or_nothing(directory) as partial:
        files = []
        for done, group in enumerate(groups):
            progress("copied", done, len(groups))
            files.append(_copy(leaders, group, partial))
        manifest = Manifest(
            tier_id=spec.tier_id,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            groupd=_version(),
            partitions=spec.offsets_partitions,
            files=tuple(files),
        )
        backup_manifest.write(partial, manifest)
    progress("copied", len(groups), len(groups))
    return manifest


def _copy(leaders: GroupLeaders, group: str, directory: Path) -> FileHeader:
    path = directory / file_name(group)

    def copy(leader: runtime.Handle) -> FileHeader:
        path.unlink(missing_ok=True)  # the file may be left of an attempt that its leader did not outlive
        state = open_copy(leader)
        with RecordFile(path) as file:
            for record in state.records:
                file.add(record)
            return file.finish(leaders.spec.tier_id, group, state.commit_index, state.term)

    return leaders.ask(group, copy)


@contextmanager
def whole_or_nothing(directory: Path) -> Iterator[Path]:
    """Give a directory to write into, that is synced and renamed at the end, or removed if anything goes
    wrong. Raises TierError for what the disk refuses."""
    partial = directory.with_name(f"{directory.name}.partial")
    if directory.exists():
        raise TierError(f"{directory} is there already: name a directory that is not")
    try:
        partial.mkdir()
    except FileExistsError:
        raise TierError(
            f"{partial} is there: a backup that is being written, or was interrupted; remove it if none runs"
        ) from None
    except OSError as error:
        raise TierError(f"{directory} cannot be made: {error.strerror}") from None
    try:
        yield partial
        _sync_directory(partial)
        partial.rename(directory)
        _sync_directory(directory.parent)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise TierError(f"the backup cannot be written to {directory}: {error.strerror or error}") from None
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _version() -> str:
    try:
        return version("groupd")
    except PackageNotFoundError:
        return "not installed"
