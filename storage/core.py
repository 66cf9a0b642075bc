"""What the parts of a Raft replica share: its settings, state machine, log, term, and application of entries.

The parts build on each other: core, following (take entries), leading (give entries), elections (change
roles), and raft.py with the public face. Nothing here reads a clock, sleeps, or starts a thread.
"""

from __future__ import annotations

import random as random_module
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from storage.errors import JournalDamaged, JournalFailed, RaftFatal
from storage.journal import Journal
from storage.messages import Message
from storage.skeleton import FOLLOWER, LEADER, REGULAR, Node, RaftTransport, Skeleton
from storage.snapshot import Snapshot, SnapshotStore

MIB: Final = 1024 * 1024
APPLY_ENTRIES_MAX: Final = 4096
"""Entries applied in one tick: a replica that catches up still answers its leader in time."""
NEVER: Final = float("-inf")


class StateMachine(Protocol):
    """What is replicated. Synchronous and total: whatever is raised in it ends the replica (RaftFatal)."""

    def apply(self, index: int, term: int, command: bytes) -> None:
        """One committed command, in order, on every replica, the leader included."""

    def snapshot(self) -> bytes:
        """The whole state after the last applied command."""

    def restore(self, data: bytes) -> None:
        """Replace the state with what `snapshot` gave, perhaps on another replica."""

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

    def __init__(
        self,
        *,
        self_id: str,
        peer_ids: tuple[str, ...],
        transport: RaftTransport,
        journal: Journal,
        snapshots: SnapshotStore,
        machine: StateMachine,
        clock: Callable[[], float],
        random: random_module.Random,
        settings: RaftConfig,
    ) -> None:
        """Restores the newest snapshot into `machine`. Raises JournalDamaged, SnapshotDamaged, OSError."""
        assert self_id not in peer_ids, "a replica is not its own peer"
        self._self_id = self_id
        # Sorted: message order must not depend on the hash of the ids (a simulation replays by seed).
        self._peers = tuple(Node(peer_id) for peer_id in sorted(peer_ids))
        self._by_id = {peer.id: peer for peer in self._peers}
        self._own_node = Node(self_id)
        self._majority = (len(self._peers) + 1) // 2 + 1
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
        # Follower's side of the current term; see following.py.
        self._verified_index = 0
        self._heard_leader_at = NEVER
        now = clock()
        # A restart forgets whom this replica promised not to depose: keep the promise for its longest life.
        fresh = journal.term == 0 and journal.last_index == 0
        self._restart_hold_until = NEVER if fresh or not peer_ids else now + settings.election_min_s
        super().__init__(self._own_node, list(self._peers), journal, transport)
        self._recover()
        self._election_deadline = now + self._election_timeout() if peer_ids else now

    def _recover(self) -> None:
        journal = self._journal
        snapshot = self._snapshots.load()
        if snapshot is None:
            if journal.base_index > 0:
                raise JournalDamaged(
                    f"the log begins after entry {journal.base_index} and there is no snapshot"
                )
            self._commit_index = self._applied_index = 0
            return
        if snapshot.index < journal.base_index:
            raise JournalDamaged(
                f"the log begins after entry {journal.base_index}, the snapshot ends at {snapshot.index}"
            )
        if journal.term_at(snapshot.index) != snapshot.term:
            # The process ended between saving an installed snapshot and resetting the log for it.
            journal.reset(snapshot.index, snapshot.term)
        self._restore(snapshot)
        self._commit_index = self._applied_index = snapshot.index

    def _restore(self, snapshot: Snapshot) -> None:
        try:
            self._machine.restore(snapshot.data)
        except Exception as error:
            raise RaftFatal(f"restoring the snapshot at entry {snapshot.index} raised {error!r}") from error

    # -- terms and roles ----------------------------------------------------------------------------

    def _election_timeout(self) -> float:
        return self._random.uniform(self._config.election_min_s, self._config.election_max_s)

    def _postpone_election(self, now: float) -> None:
        self._election_deadline = now + self._election_timeout()

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
        """False if it surely was not sent. After a failed write or sync nothing is said any more."""
        if self._journal.failed is not None:
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

    def _guarded(self, work: Callable[[], None]) -> None:
        """Run a message handler or a tick. A RaftFatal is remembered and raised by every later tick too."""
        try:
            try:
                work()
            except JournalFailed as error:
                self._fail(str(error))
        except RaftFatal as error:
            self._fatal = error
            raise
