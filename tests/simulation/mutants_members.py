"""Mistakes with the membership: who counts, from when, and under which name."""

from __future__ import annotations

from typing import Any

from storage.raft.core import Core
from storage.raft.journal import Genesis, Journal
from storage.raft.leader import Leader
from storage.raft.members import FOUNDING_INCARNATION, Member, Members, Memberships, View, next_step
from storage.raft.raft import Raft
from storage.raft.records import Entry
from storage.raft.skeleton import MEMBERS
from storage.raft.snapshot import Snapshot, SnapshotStore


class _CountsWhenCommitted(Core):
    """The part of `CountsMembersWhenCommitted` that keeps the log."""

    counting: Members = ()

    def use_members(self) -> None:
        whole = self.memberships
        index = max(self.commit_index, whole._held[0][0])
        self.memberships = Memberships(index, whole.at(index))
        super().use_members()
        self.memberships, self.counting = whole, whole.at(index)


class CountsMembersWhenCommitted(Raft):
    """A membership counts from the moment it is in the log, committed or not."""

    PARTS = Raft.PARTS._replace(core=_CountsWhenCommitted)

    def _tick(self) -> None:
        _count_committed(self)
        super()._tick()

    def apply_committed(self) -> None:
        _count_committed(self)
        super().apply_committed()


def _count_committed(raft: Raft) -> None:
    """Let the committed membership count if another one did."""
    core = raft._core
    assert isinstance(core, _CountsWhenCommitted)
    if core.counting != core.memberships.at(core.commit_index):
        core.use_members()
        if raft._roles.leading is not None:
            raft._roles.leading._follow_members()


class DoesNotWaitForTheLastChange(Leader):
    """A membership changes only when the one before is committed."""

    def change_members(self) -> None:
        if self.target is None or self.transfer_to is not None or not self.serving:
            return
        view = View(self._core.group.self_id, self._has_caught_up, self._is_online)
        step = next_step(self._core.memberships.current, self.target, view)
        if isinstance(step, str):
            self.begin_transfer(step)
        elif step is not None:
            self._append_members(step)


class ChangesAllAtOnce(Leader):
    """One member at a time: so that majorities before and after have one in common."""

    def change_members(self) -> None:
        core = self._core
        if self.target is None or not self.serving or core.memberships.index > core.commit_index:
            return
        target, self.target = self.target, None
        if target.keys() != core.group.voters:
            members = sorted(Member(name, node_id, True) for name, node_id in target.items())
            self._append_members(tuple(members))


class CountsLearners(Leader):
    """What a learner has counts for nothing."""

    def _follow_members(self) -> None:
        super()._follow_members()
        self._voting = list(self.progress.values())


class TruncationKeepsMembers(Core):
    """A membership whose entry is taken back is taken back with it."""

    def truncate_after(self, index: int) -> None:
        self.journal.truncate_after(index)

    def append(self, entry: Entry) -> None:
        if entry[0][:1] == MEMBERS:
            self.memberships.truncate_after(entry[1] - 1)
        super().append(entry)


class LearnersCampaign(Core):
    """Only a voter campaigns."""

    def use_members(self) -> None:
        super().use_members()
        self.group.has_vote = True


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
