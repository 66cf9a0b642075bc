"""The manifest of a backup, which says what it is of and which files it has; and the check of a whole
backup."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from crc32c import crc32c

from actors.ground.spec import CONTROLLER_GROUP, partition_group
from cluster.backup_file import (
    BackupDamaged,
    FileHeader,
    PackedRecord,
    file_name,
    read_header,
    read_records,
)

FORMAT: Final = 1
"""The format of the manifest and of the directory's layout."""
NAME: Final = "manifest.json"
PARTITIONS_SETTING: Final = "offsets.topic.num.partitions"

Progress = Callable[[str, int, int], None]
"""A function that is called with what is being done, how much of it is done, and how much there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A backup as a whole. `files` are those of `groups_of(partitions)`, in that order."""

    tier_id: str
    created_at: str
    """When the backup was made, as ISO 8601 in UTC."""
    groupd: str
    """The version of groupd that wrote the backup."""
    partitions: int
    """How many offsets partitions the tier has; a tier with another number of them may take the backup."""
    files: tuple[FileHeader, ...]

    @property
    def records(self) -> int:
        return sum(header.records for header in self.files)


def groups_of(partitions: int) -> list[str]:
    """Return the Raft groups of a backup in the order in which they are copied. The controller comes last:
    every topic that a copied offset may name was there by then, or has been deleted."""
    return [*(partition_group(partition) for partition in range(partitions)), CONTROLLER_GROUP]


def plain(manifest: Manifest) -> dict[str, Any]:
    """Return the content of manifest.json without its checksum."""
    return {
        "format": FORMAT,
        "tier_id": manifest.tier_id,
        "created_at": manifest.created_at,
        "groupd": manifest.groupd,
        "settings": {PARTITIONS_SETTING: manifest.partitions},
        "files": [_listed(header) for header in manifest.files],
    }


def write(directory: Path, manifest: Manifest) -> None:
    """Write the manifest durably. Raises OSError."""
    content = plain(manifest)
    with (directory / NAME).open("x", encoding="utf-8") as file:
        json.dump({**content, "crc32c": _checksum(content)}, file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())


def read(directory: Path) -> Manifest:
    """Return the manifest of a backup whose files have the headers that it names. Raises BackupDamaged."""
    path = directory / NAME
    try:
        content: Any = json.loads(path.read_bytes())
    except OSError as error:
        raise BackupDamaged(f"{directory} is no backup: {path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise BackupDamaged(f"{path} is damaged: it is no JSON: {error}") from None
    if not isinstance(content, dict) or content.pop("crc32c", None) != _checksum(content):
        raise BackupDamaged(f"{path} is damaged, or was edited: it does not match its checksum")
    if content.get("format") != FORMAT:
        raise BackupDamaged(f"{path} has format {content.get('format')}; this groupd reads format {FORMAT}")
    try:
        partitions = int(content["settings"][PARTITIONS_SETTING])
        groups = groups_of(partitions)
        manifest = Manifest(
            tier_id=content["tier_id"],
            created_at=content["created_at"],
            groupd=content["groupd"],
            partitions=partitions,
            files=tuple(read_header(directory / file_name(group)) for group in groups),
        )
        for group, header, listed in zip(groups, manifest.files, content["files"], strict=True):
            if (header.tier_id, header.group) != (manifest.tier_id, group) or listed != _listed(header):
                raise BackupDamaged(
                    f"{directory / file_name(group)} is not the file that {NAME} tells of: it is of "
                    f"{header.group} of tier {header.tier_id} as of entry {header.commit_index}"
                )
    except (KeyError, TypeError, ValueError) as error:
        raise BackupDamaged(f"{path} is damaged: {error!r}") from None
    return manifest


def records_of(directory: Path, header: FileHeader) -> Iterator[PackedRecord]:
    """Yield the records of one file of a backup. Raises BackupDamaged."""
    return read_records(directory / header.file_name, header)


def check(directory: Path, progress: Progress) -> Manifest:
    """Read a backup from end to end and return its manifest. Raises BackupDamaged at the first thing that is
    not as written."""
    manifest = read(directory)
    done = 0
    for header in manifest.files:
        for _ in records_of(directory, header):
            done += 1
        progress("checked", done, manifest.records)
    return manifest


def _listed(header: FileHeader) -> dict[str, Any]:
    return {
        "name": header.file_name,
        "group": header.group,
        "commit_index": header.commit_index,
        "term": header.term,
        "records": header.records,
        "bytes": header.file_bytes,
        "crc32c": header.frames_crc,
    }


def _checksum(content: dict[str, Any]) -> int:
    checksum: int = crc32c(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())
    return checksum
