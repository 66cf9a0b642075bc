"""Mistakes with the membership: who counts, from when, and under which name."""

from __future__ import annotations

from typing import Any

from storage.raft.journal import Genesis, Journal
from storage.raft.members import FOUNDING_INCARNATION, History, Member, Members, View, next_step, pack
from storage.raft.messages import Append
from storage.raft.raft import Raft
from storage.raft.records import Entry
from storage.raft.skeleton import MEMBERS
from storage.raft.snapshot import Snapshot, SnapshotStore


class CountsMembersWhenCommitted(Raft):
    """A membership counts from the moment it is in the log, committed or not."""

    _counting: Members = ()

    def _use_members(self) -> None:
        whole = self._history
        index = max(self._commit_index, whole._held[0][0])
        self._history = History(index, whole.at(index))
        super()._use_members()
        self._history, self._counting = whole, whole.at(index)

    def _change_members(self) -> None:
        if self._counting != self._history.at(self._commit_index):
            self._use_members()
        super()._change_members()

    def _apply_committed(self) -> None:
        if self._counting != self._history.at(self._commit_index):
            self._use_members()
        super()._apply_committed()


class DoesNotWaitForTheLastChange(Raft):
    """A membership changes only when the one before is committed."""

    def _change_members(self) -> None:
        if self._target is None or self._transfer_to is not None or not self._serving:
            return
        view = View(self._self_id, self._has_caught_up, self._is_online)
        step = next_step(self._history.current, self._target, view)
        if isinstance(step, str):
            self._begin_transfer(step)
        elif step is not None:
            self._append_own(MEMBERS + pack(step))


class ChangesAllAtOnce(Raft):
    """One member at a time: so that majorities before and after have one in common."""

    def _change_members(self) -> None:
        if self._target is None or not self._serving or self._history.index > self._commit_index:
            return
        target, self._target = self._target, None
        if target.keys() != self._voters:
            members = sorted(Member(name, node_id, True) for name, node_id in target.items())
            self._append_own(MEMBERS + pack(tuple(members)))


class CountsLearners(Raft):
    """What a learner has counts for nothing."""

    def _follow_members(self) -> None:
        super()._follow_members()
        self._voting = list(self._progress.values())


class TruncationKeepsMembers(Raft):
    """A membership whose entry is taken back is taken back with it."""

    def _take(self, message: Append) -> None:
        history = self._history
        held = list(history._held)
        super()._take(message)
        if len(history._held) < len(held):
            history._held[:] = held
            self._use_members()

    def _append_entry(self, entry: Entry) -> None:
        if entry[0][:1] == MEMBERS:
            self._history.truncate_after(entry[1] - 1)
        super()._append_entry(entry)


class LearnersCampaign(Raft):
    """Only a voter campaigns."""

    def _use_members(self) -> None:
        super()._use_members()
        self._is_voter = True


class KeepsItsNameWithoutItsDirectory(Journal):
    """Whoever lost its directory is somebody else from then on."""

    def __init__(self, disk: Any, directory: str, identity: Any, *, genesis: Genesis, **others: Any) -> None:
        first = vars(disk).setdefault("first_genesis", genesis)
        super().__init__(disk, directory, identity, genesis=first, **others)


class SnapshotWithoutMembers(SnapshotStore):
    """A snapshot carries the membership: the entries that made it are gone."""

    def _write(self, snapshot: Snapshot) -> None:
        founders: Members = tuple(
            Member(f"{name.partition('.')[0]}.{FOUNDING_INCARNATION}", node_id, True)
            for name, node_id, _ in snapshot.members or ()
        )
        super()._write(Snapshot(snapshot.index, snapshot.term, snapshot.data, snapshot.crc, founders))
