"""The errors of replicated state. Every text names the place and what was expected there."""

from __future__ import annotations

from typing import Final

REBUILD: Final = "the replica has to be rebuilt from its peers (`groupd replicas replace`)"
WAY_OUT: Final = f"nothing was changed; {REBUILD}"


def explain(error: BaseException) -> str:
    """Return a failed write in words; if files are gone under a running replica, with the way out."""
    gone = f": the directory is gone, {REBUILD}" if isinstance(error, FileNotFoundError) else ""
    return f"{error}{gone}"


class StorageError(Exception):
    """The base of everything that `storage` raises on purpose."""


class NotLeader(StorageError):
    """Raised because only a leader accepts commands; `leader_id` says where to ask again."""


class Busy(StorageError):
    """Raised because the bound on uncommitted bytes is reached, or leadership is being handed over: try again
    later."""


class RaftFatal(StorageError):
    """Raised if the replica's state can no longer be trusted: the process has to end."""


class DirectoryInUse(StorageError):
    """Raised if another process holds the directory's lock."""


class WrongDirectory(StorageError):
    """Raised if the directory belongs to another tier or to another replica."""


class JournalDamaged(StorageError):
    """Raised if bytes that were once whole are not: cutting them off could lose acknowledged entries."""


class SnapshotDamaged(StorageError):
    """Raised if the snapshot's checksum or size does not hold."""


class JournalFailed(StorageError):
    """Raised if a write or a sync failed: nothing more can be made durable until the process is started
    anew."""


class BadMessage(StorageError):
    """Raised if a peer sent what no peer of this format version sends."""
