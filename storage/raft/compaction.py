"""Snapshots of this replica's own state, which let the journal forget its beginning."""

from __future__ import annotations

from typing import NamedTuple

from storage.raft.contract import SnapshotBuild
from storage.raft.core import Core
from storage.raft.errors import RaftFatal
from storage.raft.members import Members
from storage.raft.snapshot import Snapshot


class Building(NamedTuple):
    """A snapshot in the making: the state as of `at_index`."""

    at_index: int
    at_term: int
    members: Members
    build: SnapshotBuild


class Compaction:
    """The snapshots of one replica. One is taken when the journal has outgrown the last one: it is built and
    saved, and then the journal is shortened."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.building: Building | None = None
        """The snapshot in the making, a slice of whose work waits for the next tick; None: there is none."""
        self.has_begun = False
        """Whether a snapshot is being built or saved, as far as `advance` knows."""
        self._above_bytes = 0.0
        """How many bytes the journal must have before the next snapshot is worth it."""

    def abandon(self) -> None:
        """Stop the build under way: another state is restored."""
        self.building = None

    def advance(self) -> None:
        """Take the next step: a part of the tick."""
        journal, snapshots = self._core.journal, self._core.snapshots
        least = self._core.settings.snapshot_journal_bytes_min
        if snapshots.saving:
            if snapshots.collect():
                self._shorten()
            if not snapshots.saving:
                # A snapshot that could not shorten the journal, or a failed save, must not lead to another
                # one in every tick.
                self._above_bytes = journal.entry_bytes + least // 2
        elif self.building is not None:
            self._build(self.building)
        elif journal.entry_bytes > max(least, 2 * snapshots.size, self._above_bytes):
            self._begin()
        self.has_begun = self.building is not None or snapshots.saving

    def _begin(self) -> None:
        core, index = self._core, self._core.applied_index
        term = core.journal.term_at(index)
        if term is not None and index > core.snapshots.index:
            try:
                build = core.machine.begin_snapshot()
            except Exception as error:
                raise RaftFatal(f"the snapshot at entry {index} raised {error!r}") from error
            self.building = Building(
                at_index=index, at_term=term, members=core.memberships.at(index), build=build
            )

    def _build(self, building: Building) -> None:
        """Do one slice of the build: requests are served between two ticks."""
        index = building.at_index
        try:
            data = building.build.step()
        except Exception as error:
            raise RaftFatal(f"the snapshot at entry {index} raised {error!r}") from error
        if data is not None:
            self.building = None
            self._core.snapshots.save_later(Snapshot.of(index, building.at_term, data, building.members))

    def _shorten(self) -> None:
        """Drop the entries that the new snapshot stands for. A tail stays, so that a peer that lags a little
        needs no snapshot."""
        core, journal, index = self._core, self._core.journal, self._core.snapshots.index
        tail_bytes = core.settings.snapshot_journal_bytes_min // 4
        keep_from = min(journal.tail_within(tail_bytes), index)
        if keep_from > journal.base_index:
            journal.compact(keep_from)
        core.memberships.forget_before(index)
