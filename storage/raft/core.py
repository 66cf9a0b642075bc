"""The state that the parts of a replica share: role, term and vote, the log, what of it is committed.

`Core` decides nothing about elections or replication; it keeps the state whole: a term and its vote are
durable before anybody sees them, a membership counts as soon as it is in the log, and a replica that has
failed sends nothing. Nothing here reads a clock of its own, sleeps, or starts a thread.
"""

from __future__ import annotations

import random as random_module
import sys
from collections.abc import Callable
from typing import NamedTuple

from storage.raft.contract import NEVER, RaftConfig, StateMachine
from storage.raft.errors import JournalDamaged, RaftFatal
from storage.raft.group import Group
from storage.raft.journal import WAY_OUT, Journal
from storage.raft.members import Members, Memberships, unpack
from storage.raft.messages import Message
from storage.raft.records import Entry
from storage.raft.skeleton import MEMBERS, Node, RaftTransport
from storage.raft.snapshot import Snapshot, SnapshotStore


class Given(NamedTuple):
    """What a host gives to a replica."""

    self_id: str
    links: RaftTransport
    journal: Journal
    snapshots: SnapshotStore
    machine: StateMachine
    clock: Callable[[], float]
    random: random_module.Random
    settings: RaftConfig


class Core:
    """The state of one replica in whatever role. pysyncobj's constructor gives role, term, vote and the
    positions in the log their first values, from the journal; then `recover` has to be called."""

    role: int
    """The replica's role: FOLLOWER, CANDIDATE or LEADER."""
    term: int
    voted_for: str | None
    """The member for which this replica votes in `term`; None: it has not voted."""
    leader: Node | None
    """The member that leads `term`, as far as this replica knows."""
    commit_index: int
    applied_index: int
    election_deadline: float
    """When this replica campaigns, if it hears no leader before."""
    election_timeout_s: float
    """The election timeout in force, in seconds, drawn anew for each election."""

    def __init__(self, given: Given) -> None:
        self.links = given.links
        self.journal = given.journal
        self.snapshots = given.snapshots
        self.machine = given.machine
        self.clock = given.clock
        self.random = given.random
        self.settings = given.settings
        self.group = Group(given.self_id)
        self.memberships = Memberships(0, ())
        self.era = 0
        """How often another membership has come to count."""
        self.verified_index = 0
        """The index up to which the log is known to be the present leader's: its messages of this term said
        so."""
        self.heard_leader_at = NEVER
        self.rest_s = 0.0
        """How much longer than usual the leader may be silent, as it said when it was heard last."""
        self.may_rest = False
        """Whether every replica knows what Rest is, so that a leader may say it."""
        self.restart_hold_until = NEVER
        """The time until which this replica votes for nobody: it may have promised so before it was
        restarted."""
        self.pre_votes: set[str] | None = None
        """The members that would vote for this replica in the next term; None while it does not ask."""
        self.failure: str | None = None
        """Why this replica takes no more part; None: it does."""

    # -- start --------------------------------------------------------------------------------------

    def recover(self) -> None:
        """Restore the newest snapshot, read the membership, and set the first election deadline. Raises
        JournalDamaged, SnapshotDamaged, OSError."""
        now = self.clock()
        self._recover_log()
        is_alone = self.group.has_vote and self.group.majority == 1
        # A restart forgets which leader this replica promised not to depose: it keeps the promise for its
        # longest life.
        is_new = self.journal.term == 0 and self.journal.last_index == 0
        if not is_new and not is_alone:
            self.restart_hold_until = now + self.settings.election_min_s
        self.postpone_election(now)
        if is_alone:
            self.election_deadline = now

    def _recover_log(self) -> None:
        journal = self.journal
        snapshot = self.snapshots.load()
        if snapshot is None:
            if journal.base_index > 0:
                raise JournalDamaged(
                    f"the log begins after entry {journal.base_index} and there is no snapshot: {WAY_OUT}"
                )
            self.commit_index = self.applied_index = 0
            self._read_members(0, journal.founders)
            return
        if snapshot.index < journal.base_index:
            raise JournalDamaged(
                f"the log begins after entry {journal.base_index}, the snapshot ends at {snapshot.index}: "
                f"{WAY_OUT}"
            )
        if journal.term_at(snapshot.index) != snapshot.term:
            # The process ended between saving an installed snapshot and resetting the log for it.
            journal.reset(snapshot.index, snapshot.term)
        self.restore(snapshot)

    def restore(self, snapshot: Snapshot) -> None:
        """Begin again from `snapshot`, which the log already stands at."""
        try:
            self.machine.restore(snapshot.data)
        except Exception as error:
            raise RaftFatal(f"restoring the snapshot at entry {snapshot.index} raised {error!r}") from error
        self._read_members(snapshot.index, self.members_of(snapshot))
        self.commit_index = self.applied_index = snapshot.index

    def members_of(self, snapshot: Snapshot) -> Members:
        """Return the membership after the snapshot's last entry. A snapshot of format version 1 names none:
        the group was as it began."""
        return self.journal.founders if snapshot.members is None else snapshot.members

    # -- membership ---------------------------------------------------------------------------------

    def _read_members(self, index: int, members: Members) -> None:
        """Begin with `members`, as of the entry at `index`, and go on with what the log says above it."""
        self.memberships = Memberships(index, members)
        for command, entry_index, _ in self.journal.entries_from(index + 1, sys.maxsize):
            if command[:1] == MEMBERS:
                self.memberships.add(entry_index, unpack(command[1:]))
        self.use_members()

    def use_members(self) -> None:
        """Take the newest membership in the log for the one that counts."""
        self.era += 1
        members = self.memberships.current
        self.group.count(members)
        self.links.set_members(members)

    # -- log ----------------------------------------------------------------------------------------

    def append(self, entry: Entry) -> None:
        """Add `entry` to the log; a membership in it counts at once."""
        self.journal.append(entry)
        command, index, _ = entry
        if command[:1] == MEMBERS:
            self.memberships.add(index, unpack(command[1:]))
            self.use_members()

    def truncate_after(self, index: int) -> None:
        """Take every entry above `index` back, and the memberships that they brought."""
        self.journal.truncate_after(index)
        if self.memberships.truncate_after(index):
            self.use_members()

    # -- terms --------------------------------------------------------------------------------------

    def election_timeout(self) -> float:
        return self.random.uniform(self.settings.election_min_s, self.settings.election_max_s)

    def postpone_election(self, now: float) -> None:
        """Wait for a whole election timeout, newly drawn: two that campaigned at once must not do it
        again."""
        self.election_timeout_s = self.election_timeout()
        self.election_deadline = now + self.election_timeout_s

    def set_term(self, term: int, vote: str | None) -> None:
        """Make term and vote durable, then use them. Raises JournalFailed."""
        self.journal.set_hard_state(term, vote)
        if term != self.term:
            # What another leader verified says nothing about this one's log.
            self.verified_index = 0
        self.term, self.voted_for = term, vote

    # -- talking and failing ------------------------------------------------------------------------

    def send(self, node: Node, message: Message) -> bool:
        """Send a message. Return False if it surely was not sent. After a failed write, sync or save nothing
        is sent any more."""
        if self.journal.failed is not None or self.failure is not None:
            return False
        return self.links.send(node, message)

    def fail(self, reason: str) -> None:
        """Take no more part from now on; the first reason is kept."""
        if self.failure is None:
            self.failure = reason
