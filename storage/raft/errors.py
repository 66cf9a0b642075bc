"""What can go wrong with replicated state. Every text names the place and what was expected there."""

from __future__ import annotations


class StorageError(Exception):
    """The base of everything that `storage` raises on purpose."""


class NotLeader(StorageError):
    """Only a leader accepts commands; ask again where `leader_id` says."""


class Busy(StorageError):
    """The bound on uncommitted bytes is reached, or leadership is being handed over: try again later."""


class RaftFatal(StorageError):
    """The replica's state can no longer be trusted: the process has to end."""


class DirectoryInUse(StorageError):
    """Another process holds the directory's lock."""


class WrongDirectory(StorageError):
    """The directory belongs to another tier or to another replica."""


class JournalDamaged(StorageError):
    """Bytes that were once whole are not: cutting them off could lose acknowledged entries."""


class SnapshotDamaged(StorageError):
    """The snapshot's checksum or size does not hold."""


class JournalFailed(StorageError):
    """A write or a sync failed: nothing more can be made durable until the process is started anew."""


class BadMessage(StorageError):
    """A peer sent what no peer of this format version sends."""
