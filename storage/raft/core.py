"""What the parts of a Raft replica share: its settings, state machine, log, term, and application of entries.

The parts build on each other: core, following (take entries), leading (give entries), elections (change
roles), and raft.py with the public face. Nothing here reads a clock, sleeps, or starts a thread.
"""

from __future__ import annotations

import random as random_module
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from storage.raft.errors import JournalDamaged, RaftFatal
from storage.raft.journal import WAY_OUT, Journal
from storage.raft.members import History, Members, unpack
from storage.raft.messages import Message
from storage.raft.skeleton import FOLLOWER, LEADER, MEMBERS, REGULAR, Node, RaftTransport, Skeleton
from storage.raft.snapshot import Snapshot, SnapshotStore

MIB: Final = 1024 * 1024
APPLY_ENTRIES_MAX: Final = 4096
"""Entries applied in one tick: a replica that catches up still answers its leader in time."""
NEVER: Final = float("-inf")


class SnapshotBuild(Protocol):
    """A snapshot in the making, of the state at the moment it was begun, whatever is applied meanwhile."""

    def step(self) -> bytes | None:
        """Do some milliseconds of the work; the whole snapshot once it is complete, which ends the build."""


class StateMachine(Protocol):
    """What is replicated. Synchronous and total: whatever is raised in it ends the replica (RaftFatal)."""

    def apply(self, index: int, term: int, command: bytes) -> None:
        """One committed command, in order, on every replica, the leader included."""

    def begin_snapshot(self) -> SnapshotBuild:
        """Begin a snapshot of the whole state after the last applied command. There is one build at a time:
        a new one, or `restore`, abandons it, and it must not be stepped any more."""

    def restore(self, data: bytes) -> None:
        """Replace the state with what a build gave, perhaps on another replica."""

    def on_leading(self, term: int) -> None:
        """Elected, and everything committed before has been applied."""

    def on_fallen(self) -> None:
        """No longer leader, whether or not `on_leading` was called; no entry of another leader has been
        applied yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftConfig:
    """Times in seconds, sizes in bytes."""

    heartbeat_s: float = 0.05
    election_min_s: float = 0.25
    election_max_s: float = 0.5
    batch_bytes: int = MIB
    """Commands in one message; a bigger command travels alone."""
    window_bytes_max: int = 8 * MIB
    """Sent to one peer and not yet acknowledged."""
    entry_bytes_max: int = 32 * MIB
    pending_bytes_max: int = 64 * MIB
    """Proposed and not yet applied; beyond it `propose` raises Busy."""
    snapshot_journal_bytes_min: int = 16 * MIB
    """A snapshot is taken when the journal holds more than this and than twice the last snapshot."""
    snapshot_chunk_bytes: int = MIB

    def __post_init__(self) -> None:
        if not 0 < 3 * self.heartbeat_s <= self.election_min_s < self.election_max_s:
            raise ValueError(
                f"heartbeat_s {self.heartbeat_s}, election_min_s {self.election_min_s} and election_max_s "
                f"{self.election_max_s}: three heartbeats must fit the shortest election timeout, and that "
                "must be below the longest"
            )
        if self.entry_bytes_max > self.pending_bytes_max:
            raise ValueError("entry_bytes_max must not be above pending_bytes_max")


class Core(Skeleton):
    """State and helpers of every role."""

    _peers: tuple[Node, ...] = ()
    _voting_peers: tuple[Node, ...] = ()
    _voters: frozenset[str] = frozenset()
    _is_voter = False
    _majority = 1
    _timeout_s: float
    """The election timeout of now."""

    def __init__(
        self,
        *,
        self_id: str,
        transport: RaftTransport,
        journal: Journal,
        snapshots: SnapshotStore,
        machine: StateMachine,
        clock: Callable[[], float],
        random: random_module.Random,
        settings: RaftConfig,
    ) -> None:
        """Restores the newest snapshot into `machine`. The members are those of the snapshot and the log
        above it, or else the journal's founders; with none at all this is a newcomer, which waits to be
        called and votes for nobody. Raises JournalDamaged, SnapshotDamaged, OSError."""
        self._self_id = self_id
        self._own_node = Node(self_id)
        self._nodes = {self_id: self._own_node}
        self._history = History(0, ())
        self._links = transport
        self._journal = journal
        self._snapshots = snapshots
        self._machine = machine
        self._clock = clock
        self._random = random
        self._config = settings
        self._online: set[str] = set()
        self._fatal: RaftFatal | None = None
        self._failure: str | None = None
        self._closed = False
        self._serving = False
        self._no_op_index = 0
        self._pending_bytes = 0
        self._pre_votes: set[str] | None = None
        self._target: Mapping[str, int] | None = None
        # Follower's side of the current term; see following.py.
        self._verified_index = 0
        self._heard_leader_at = NEVER
        now = clock()
        super().__init__(self._own_node, journal, transport)
        self._recover()
        is_alone = self._is_voter and self._majority == 1
        # A restart forgets whom this replica promised not to depose: keep the promise for its longest life.
        fresh = journal.term == 0 and journal.last_index == 0
        self._restart_hold_until = NEVER if fresh or is_alone else now + settings.election_min_s
        self._postpone_election(now)
        if is_alone:
            self._election_deadline = now

    def _recover(self) -> None:
        journal = self._journal
        snapshot = self._snapshots.load()
        if snapshot is None:
            if journal.base_index > 0:
                raise JournalDamaged(
                    f"the log begins after entry {journal.base_index} and there is no snapshot: {WAY_OUT}"
                )
            self._commit_index = self._applied_index = 0
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
        self._restore(snapshot)
        self._commit_index = self._applied_index = snapshot.index

    def _read_members(self, index: int, members: Members) -> None:
        """`members` as of the entry at `index`, and what the log says above it."""
        history = History(index, members)
        for command, entry_index, _ in self._journal.entries_from(index + 1, sys.maxsize):
            if command[:1] == MEMBERS:
                history.add(entry_index, unpack(command[1:]))
        self._history = history
        self._use_members()

    def _use_members(self) -> None:
        """Take the newest membership in the log for the one that counts. Sorted: the order of messages must
        not depend on the hash of ids (a simulation replays by seed)."""
        members = self._history.current
        others = [member for member in members if member.member_id != self._self_id]
        self._peers = tuple(self._node(member.member_id) for member in others)
        self._voters = frozenset(member.member_id for member in members if member.votes)
        self._voting_peers = tuple(peer for peer in self._peers if peer.id in self._voters)
        self._is_voter = self._self_id in self._voters
        self._majority = len(self._voters) // 2 + 1
        self._links.set_members(members)

    def _node(self, member_id: str) -> Node:
        node = self._nodes.get(member_id)
        if node is None:  # each message asks: making one is dear
            node = self._nodes[member_id] = Node(member_id)
        return node

    def _restore(self, snapshot: Snapshot) -> None:
        try:
            self._machine.restore(snapshot.data)
        except Exception as error:
            raise RaftFatal(f"restoring the snapshot at entry {snapshot.index} raised {error!r}") from error
        self._read_members(snapshot.index, self._members_of(snapshot))

    def _members_of(self, snapshot: Snapshot) -> Members:
        """One of format version 1 names none: the group was as it began."""
        return self._journal.founders if snapshot.members is None else snapshot.members

    # -- terms and roles ----------------------------------------------------------------------------

    def _election_timeout(self) -> float:
        return self._random.uniform(self._config.election_min_s, self._config.election_max_s)

    def _postpone_election(self, now: float) -> None:
        """With a new draw: two that campaigned at once must not do it again."""
        self._timeout_s = self._election_timeout()
        self._election_deadline = now + self._timeout_s

    def _set_term(self, term: int, vote: str | None) -> None:
        """Durable before it returns. Raises JournalFailed."""
        self._journal.set_hard_state(term, vote)
        if term != self._term:
            # What another leader verified says nothing about this one's log.
            self._verified_index = 0
        self._term, self._voted_for = term, vote

    def _adopt_term(self, term: int, vote: str | None = None) -> None:
        """Someone is ahead: follow, without a leader so far."""
        self._resign()
        self._role = FOLLOWER
        self._leader = None
        self._pre_votes = None
        self._set_term(term, vote)

    def _resign(self) -> None:
        """Stop leading, if leading."""
        if self._role != LEADER:
            return
        self._role = FOLLOWER
        self._leader = None
        self._serving = False
        self._pending_bytes = 0
        self._target = None
        self._postpone_election(self._clock())
        try:
            self._machine.on_fallen()
        except Exception as error:
            raise RaftFatal(f"on_fallen raised {error!r}") from error

    # -- log ----------------------------------------------------------------------------------------

    def _apply_committed(self) -> None:
        machine, journal = self._machine, self._journal
        end = min(self._commit_index, self._applied_index + APPLY_ENTRIES_MAX)
        while self._applied_index < end:
            command, index, term = journal.entry(self._applied_index + 1)
            try:
                if command[:1] == REGULAR:
                    machine.apply(index, term, command[1:])
                self._applied_index = index
                if self._role == LEADER and term == self._term:
                    self._pending_bytes -= len(command)
                    if index == self._no_op_index:
                        self._serving = True
                        machine.on_leading(term)
            except Exception as error:
                raise RaftFatal(f"entry {index} of term {term} raised {error!r} when applied") from error

    def _send(self, node: Node, message: Message) -> bool:
        """False if it surely was not sent. After a failed write, sync or save nothing is said any more."""
        if self._journal.failed is not None or self._failure is not None:
            return False
        return self._links.send(node, message)

    def _check_journal(self) -> None:
        """After a failed write or sync this replica takes no more part: it could not keep its promises."""
        failed = self._journal.failed
        if failed is not None:
            self._fail(failed)

    def _fail(self, reason: str) -> None:
        if self._failure is None:
            self._failure = reason
        self._resign()
        self._role = FOLLOWER
        self._leader = None
