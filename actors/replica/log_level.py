"""The level of `groupd.version` at which a replica writes its entries and snapshots.

Each begins with a format version, which is the level's: whoever cannot serve the level refuses it, rather
than skip what it does not know. A leader writes at the level that the controller has finalized, as far as it
has heard of it, and says so in the log with an entry of its own: so a replica knows at its next start what it
needs to be able to read, before it takes part.
"""

from __future__ import annotations

from typing import Final

import msgpack

from actors.ground.features import ROWS_LEVEL
from actors.ground.release import LEVEL_MAX, ReleaseTooOld, unserved

FORMAT_VERSION: Final = 2
"""The format version of entries and snapshots at level 1; each level above has the next one. Version 1 had no
batches of offsets, and whoever reads it would skip them."""
REST_LEVEL: Final = 2
"""The level from which on every replica knows what a leader says that rests (`storage.raft.messages`)."""
READABLE_VERSIONS: Final = frozenset(range(1, FORMAT_VERSION + LEVEL_MAX))


class LogLevel:
    """The level of one replica."""

    __slots__ = ("known", "logged")

    def __init__(self) -> None:
        self.known = 1
        """The highest level that is known to be finalized: it never falls."""
        self.logged = 1
        """The highest level that the log is known to say."""

    @property
    def version(self) -> int:
        """Return the format version of what is written now."""
        return FORMAT_VERSION - 1 + self.known

    @property
    def has_rows(self) -> bool:
        """Return whether snapshots may have packed records (`OFFSET_ROWS`)."""
        return self.known >= ROWS_LEVEL

    @property
    def is_news(self) -> bool:
        """Return whether the log does not say yet what is known."""
        return self.known > self.logged

    def learn(self, level: int) -> None:
        """Take the level that the controller has finalized. One that this release cannot serve is not
        written: what comes of it is refused where it is read."""
        self.known = max(self.known, min(level, LEVEL_MAX))

    def read(self, version: int) -> None:
        """Take the format version of an entry or snapshot of the log. Raises ReleaseTooOld."""
        check_readable(version, "its log")
        level = version - FORMAT_VERSION + 1
        self.logged = max(self.logged, level)
        self.known = max(self.known, level)


def check_readable(version: int, where: str) -> None:
    """Check that this release reads a format version. Raises ReleaseTooOld."""
    if version not in READABLE_VERSIONS:
        raise ReleaseTooOld(unserved(version - FORMAT_VERSION + 1, where))


def check_entry(command: bytes, where: str) -> None:
    """Check that this release reads an entry. Raises ReleaseTooOld."""
    unpacker = msgpack.Unpacker(use_list=False, max_buffer_size=0)
    unpacker.feed(command)
    check_readable(unpacker.unpack()[0], where)
