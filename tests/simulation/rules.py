"""Rules of leaders and memberships that a replica keeps or breaks by itself: looked at where it does.

elections   who leads was voted for, in this term, by a majority of its voters
commits     a leader commits by counting up to an entry of its own term only (Raft paper, section 5.4.2)
members     one voter is changed at a time, after the change before is committed (dissertation, 4.1); who
            belongs to the group is what the log says
"""

from __future__ import annotations

from typing import NamedTuple

from storage.raft.journal import Journal
from storage.raft.members import Members, unpack
from storage.raft.skeleton import MEMBERS
from tests.simulation.checkers import Violation
from tests.simulation.parts import Process, World


class _Look(NamedTuple):
    """A replica as it was after its last turn."""

    leads_term: int | None
    commit_index: int
    last_index: int
    last_term: int


def _newest_change(journal: Journal) -> int:
    """The newest entry that changes the membership; the log's base if it holds none."""
    for index in range(journal.last_index, journal.base_index, -1):
        if journal.entry(index)[0][:1] == MEMBERS:
            return index
    return journal.base_index


class Rules:
    def __init__(self, world: World) -> None:
        self._world = world
        self._last: dict[Process, _Look] = {}
        self._members: dict[Process, tuple[int, Members]] = {}
        """The members that count for each process, and the index of the entry that made them so."""

    def turned(self, process: Process) -> None:
        raft, journal = process.raft, process.journal
        before = self._last.get(process)
        now = self._last[process] = _Look(
            raft.term if raft.is_leader else None, raft.commit_index, journal.last_index, journal.last_term
        )
        if before is None:
            return
        if now.leads_term is not None:
            if before.leads_term != now.leads_term:
                self._check_election(process, now.leads_term)
            elif now.commit_index > before.commit_index:
                self._check_commit(process, now)
        if journal.term_at(before.last_index) != before.last_term and before.last_index > journal.base_index:
            self._check_log(process)

    def ended(self, process: Process) -> None:
        self._last.pop(process, None)
        self._members.pop(process, None)

    def _check_election(self, process: Process, term: int) -> None:
        voters = {member.member_id for member in process.members if member.votes}
        votes = self._world.votes.given(term, process.member_id) & voters
        if 2 * len(votes) <= len(voters):
            raise Violation(
                f"elections: {process.name} leads term {term}, voted for by {sorted(votes)} of "
                f"{sorted(voters)}"
            )

    def _check_commit(self, process: Process, now: _Look) -> None:
        term = process.journal.term_at(now.commit_index)
        if term != now.leads_term:
            raise Violation(
                f"commits: {process.name}, which leads term {now.leads_term}, commits up to entry "
                f"{now.commit_index} of term {term}"
            )

    def set_members(self, process: Process, members: Members) -> None:
        """Called while the log changes, and when a replica starts."""
        before = self._members.get(process)
        self._members[process] = _newest_change(process.journal), members
        if before is None or members == before[1] or not process.raft.is_leader:
            return
        if process.raft.commit_index < before[0]:
            raise Violation(
                f"members: {process.name} changes them at entry {process.journal.last_index} before the "
                f"change at entry {before[0]} is committed"
            )
        then, now = ({member.member_id for member in each if member.votes} for each in (before[1], members))
        if len(then ^ now) > 1:
            raise Violation(f"members: {process.name} makes {sorted(then)} {sorted(now)} in one step")

    def _check_log(self, process: Process) -> None:
        """Check the members of a log of which a part was taken back."""
        journal = process.journal
        index, base = _newest_change(journal), journal.base_index
        if index > base:
            expected = unpack(journal.entry(index)[0][1:])
        else:
            # A newcomer with the whole log has learned of nobody before the first change in it.
            expected = self._world.checks.members_at(base) if base else journal.founders
        if process.members != expected:
            raise Violation(
                f"members: {process.name} counts {process.members}; its log up to entry {journal.last_index} "
                f"says {expected}"
            )
