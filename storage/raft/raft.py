"""Raft on pysyncobj's skeleton: the public face, the tick, and which part gets which message.

One loop owns a `Raft`: it calls `tick` after each batch of proposals, when the transport had activity, when
the journal or the snapshot store notifies, and at `next_tick_at`. Messages are handled as they arrive; the
tick writes, sends, commits and applies. README.md says what the parts are.
"""

from __future__ import annotations

import random as random_module
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from storage.raft.compaction import Compaction
from storage.raft.contract import NEVER, RaftConfig, StateMachine
from storage.raft.core import Core, Given
from storage.raft.errors import Busy, JournalFailed, NotLeader, RaftFatal
from storage.raft.follower import Follower
from storage.raft.journal import Journal
from storage.raft.leader import Leader
from storage.raft.members import Members
from storage.raft.messages import (
    APPEND,
    APPEND_ANSWER,
    CHUNK,
    CHUNK_ANSWER,
    PRE_VOTE,
    PRE_VOTE_ANSWER,
    REST,
    TIMEOUT_NOW,
    VOTE,
    VOTE_ANSWER,
    AppendAnswer,
    ChunkAnswer,
    decode,
)
from storage.raft.roles import Roles
from storage.raft.skeleton import LEADER, REGULAR, ROLE_NAMES, Node, RaftTransport, Skeleton
from storage.raft.snapshot import SnapshotStore
from storage.raft.votes import Votes

__all__ = ["Busy", "NotLeader", "Raft", "RaftConfig", "RaftFatal", "StateMachine"]

FOREVER: Final = float("inf")
APPLY_ENTRIES_MAX: Final = 4096
"""How many entries are applied in one tick: a replica that catches up still answers its leader in time."""
APPLY_LATER_MAX: Final = 128
"""How many committed entries a replica that does not lead leaves lying before it applies them."""
APPLY_LATER_S: Final = 0.5
"""How long, in seconds, a replica that does not lead leaves committed entries lying, and then until its timer
for an election: many that are applied together cost less than one after the other. A leader applies all of
them before it serves."""


class Parts(NamedTuple):
    """The classes that a replica is made of; a simulation puts one with a mistake in the place of each."""

    core: type[Core] = Core
    votes: type[Votes] = Votes
    follower: type[Follower] = Follower
    leader: type[Leader] = Leader


class Raft(Skeleton):
    """One replica of a Raft group. It is not thread-safe.

    It owns the transport, the journal and the snapshot store from then on: `close` closes them. After a
    failed write or sync, or a full disk, it takes no more part (`status()["failure"]` says why) until the
    process is started anew; a restart under the same identity is safe, because nothing was promised since."""

    PARTS = Parts()

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
        """Restore the newest snapshot into `machine`. The members are those of the snapshot and the log above
        it, or else the journal's founders; with none at all this is a newcomer, which waits to be called and
        votes for nobody. Raises JournalDamaged, SnapshotDamaged, OSError."""
        self._core = core = self.PARTS.core(
            Given(
                self_id=self_id,
                links=transport,
                journal=journal,
                snapshots=snapshots,
                machine=machine,
                clock=clock,
                random=random,
                settings=settings,
            )
        )
        self._roles = Roles(core, self.PARTS.leader)
        self._votes = self.PARTS.votes(core, self._roles)
        self._compaction = Compaction(core)
        self._follower = self.PARTS.follower(core, self._roles, self._compaction)
        self._fatal: RaftFatal | None = None
        self._closed = False
        self._apply_at = FOREVER
        """When the committed entries that lie here are to be applied; FOREVER: none lies here."""
        self.stand: tuple[int, int, Node | None, int] | None = None
        """Term, role, leader and era of the members at the end of the last tick: while it is the same object,
        nothing of that has changed."""
        self._least_bytes = settings.snapshot_journal_bytes_min
        self._handlers: dict[int, Callable[[Node, Any], bool | None]] = {
            PRE_VOTE: self._votes.on_pre_vote,
            PRE_VOTE_ANSWER: self._votes.on_pre_vote_answer,
            VOTE: self._votes.on_vote,
            VOTE_ANSWER: self._votes.on_vote_answer,
            APPEND: self._follower.on_append,
            APPEND_ANSWER: self._on_answer,
            CHUNK: self._follower.on_chunk,
            REST: self._follower.on_rest,
            CHUNK_ANSWER: self._on_answer,
            TIMEOUT_NOW: self._votes.on_timeout_now,
        }
        super().__init__(core.group.own_node, core, journal, transport)
        core.recover()

    # -- what a host reads --------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        """Return whether this replica was elected; `serving` says whether it may already answer."""
        return self._core.role == LEADER

    @property
    def serving(self) -> bool:
        """Return whether `on_leading` was called for the current term."""
        leading = self._roles.leading
        return leading is not None and leading.serving

    @property
    def leader_id(self) -> str | None:
        """Return the replica believed to lead now, if any."""
        leader = self._core.leader
        return None if leader is None else leader.id

    @property
    def term(self) -> int:
        return self._core.term

    @property
    def commit_index(self) -> int:
        return self._core.commit_index

    @property
    def last_index(self) -> int:
        return self._core.journal.last_index

    @property
    def last_term(self) -> int:
        """Return the term of the newest entry."""
        return self._core.journal.last_term

    @property
    def applied_index(self) -> int:
        return self._core.applied_index

    @property
    def members(self) -> Members:
        """Return the members of the group, as far as this replica's log tells."""
        return self._core.memberships.current

    @property
    def pending_bytes(self) -> int:
        """Return how many bytes this leader has proposed that are not yet applied."""
        leading = self._roles.leading
        return 0 if leading is None else leading.pending_bytes

    def has_lease(self) -> bool:
        """Return whether the leader's own state is the newest there is, right now: reads may be answered from
        it. Whoever asks needs the leader: if it rests it is woken, and has the lease when its peers have
        answered."""
        if self._roles.leading is not None:
            self._roles.leading.asked()
        return self.holds_lease

    @property
    def holds_lease(self) -> bool:
        """Return what `has_lease` does, for those who only look on."""
        leading = self._roles.leading
        return leading is not None and leading.has_lease()

    def learn_to_rest(self) -> None:
        """Let this replica rest when it leads and nobody asks it for anything: every replica of its group
        knows what that is."""
        self._core.may_rest = True

    @property
    def is_resting(self) -> bool:
        """Return whether this replica leads and is silent for longer than usual."""
        leading = self._roles.leading
        return leading is not None and leading.is_resting

    @property
    def lease_until(self) -> float:
        """Return until when `has_lease` is true, by the clock, unless this replica learns otherwise: whoever
        relies on it asks anew in each iteration of the loop. A leader that is asked for it does not rest."""
        leading = self._roles.leading
        if leading is None:
            return NEVER
        leading.asked()
        return leading.lease_until

    @property
    def next_tick_at(self) -> float:
        """Return the clock time at which `tick` has to be called if nothing happens before."""
        core, leading = self._core, self._roles.leading
        if self._fatal is not None:
            return NEVER
        if core.failure is not None or self._closed:
            return FOREVER
        unapplied = core.commit_index - core.applied_index
        if unapplied > (APPLY_LATER_MAX - 1 if leading is None else 0):
            return NEVER
        if core.journal.unwritten or self._compaction.building is not None:
            return NEVER
        if leading is not None:
            return leading.next_tick_at if core.group.peers else FOREVER
        election_at = core.election_deadline if core.group.has_vote else FOREVER
        answer_at = self._follower.answer_at
        return min(self._apply_at, election_at, FOREVER if answer_at is None else answer_at)

    @property
    def is_settled(self) -> bool:
        """Return whether a tick would find nothing to do: nothing has changed since the last one but that
        this replica has heard from its leader or its followers once more."""
        core, leading = self._core, self._roles.leading
        if core.applied_index < core.commit_index and (leading is not None or self._apply_at == FOREVER):
            return False  # a leader applies at once; else nobody has noted yet when they are to be applied
        if self.stand != (core.term, core.role, core.leader, core.era) or self._follower.owes_answer:
            return False
        if leading is not None and not leading.is_settled:
            return False
        return self.next_tick_at > core.clock()

    @property
    def only_commits(self) -> bool:
        """Return whether a tick would find nothing to do but to apply what is committed, as a leader that
        serves: `apply_committed` is enough then."""
        core, leading = self._core, self._roles.leading
        return (
            leading is not None
            and leading.serving
            and core.applied_index < core.commit_index
            and self.stand == (core.term, core.role, core.leader, core.era)
            and leading.is_settled
            and not core.journal.unwritten
            and self._compaction.building is None
            and core.failure is None
            and self._fatal is None
            and not self._closed
        )

    def status(self) -> dict[str, Any]:
        """Return what operators and metrics see: plain values, times in seconds."""
        core = self._core
        status: dict[str, Any] = {
            "id": core.group.self_id,
            "role": ROLE_NAMES[core.role],
            "term": core.term,
            "leader": self.leader_id,
            "serving": self.serving,
            "lease": self.holds_lease,
            "resting": self.is_resting,
            "last_index": core.journal.last_index,
            "durable_index": core.journal.durable_index,
            "commit_index": core.commit_index,
            "applied_index": core.applied_index,
            "snapshot_index": core.snapshots.index,
            "snapshot_bytes": core.snapshots.size,
            "journal_bytes": core.journal.entry_bytes,
            "pending_bytes": self.pending_bytes,
            "peers_online": sorted(core.group.online),
            "members": [
                {"id": member.member_id, "node_id": member.node_id, "votes": member.votes}
                for member in self.members
            ],
            "members_committed": core.memberships.index <= core.commit_index,
            "failure": core.failure,
            "snapshot_failure": core.snapshots.failed,
        }
        if self._roles.leading is not None:
            status["peers"] = self._roles.leading.peers_status()
        return status

    # -- what a host does ---------------------------------------------------------------------------

    def propose(self, command: bytes) -> int:
        """Append `command` to the log and return its index; it is written and sent by the next `tick`.

        It is committed when `apply` is called with that index and the term of now; after `on_fallen` its
        fate is unknown. Raises NotLeader, Busy, ValueError (too large)."""
        leading = self._roles.leading
        if leading is None or self._core.failure is not None:
            raise NotLeader(f"{self._core.group.self_id} does not lead, {self.leader_id} may")
        return leading.propose(command)

    def tick(self) -> None:
        """Do all that is due. Never sleeps. Raises RaftFatal: the process has to end."""
        if self._fatal is not None:
            raise self._fatal
        if self._closed:
            return
        core = self._core
        try:
            try:
                self._tick()
            except JournalFailed as error:
                core.fail(str(error))
                self._roles.end_if_failed()
        except RaftFatal as error:
            self._fatal = error
            raise
        stand = core.term, core.role, core.leader, core.era
        if stand != self.stand:
            self.stand = stand

    def transfer(self, to: str | None = None) -> bool:
        """Hand leadership to `to`, or to the peer that is furthest. Return False if that cannot begin: this
        replica does not serve, a transfer is under way already, or no such peer is connected. `on_fallen`
        tells of the success."""
        leading = self._roles.leading
        return leading is not None and leading.begin_transfer(to)

    def set_target(self, target: Mapping[str, int]) -> None:
        """Make these the voters (member id -> node id), one change at a time, newcomers as learners until
        they have caught up. Only a leader does anything, and forgets it when it falls: call again."""
        if self._roles.leading is not None:
            self._roles.leading.target = dict(target)

    def peer_lost(self, peer_id: str) -> None:
        """Campaign soon, instead of waiting for an election timeout, if the peer led whose host closed its
        connection to us."""
        self._votes.leader_lost(peer_id)

    def close(self) -> None:
        """Close the transport, the journal (what was written is synced) and the snapshot store."""
        if self._closed:
            return
        self._closed = True
        self.destroy()
        self._core.snapshots.close()

    # -- the tick -----------------------------------------------------------------------------------

    def _tick(self) -> None:
        core, roles, journal = self._core, self._roles, self._core.journal
        journal.collect()
        if (journal.failed is not None or core.failure is not None) and roles.end_if_failed():
            return
        now = core.clock()
        leading = roles.leading
        if leading is None:
            if now >= core.election_deadline:
                self._votes.campaign(now)
        elif leading.has_to_resign(now):
            roles.resign()
        elif leading.target is not None:
            leading.change_members()
        # What takes longest comes first: entries travel, and peers write them, while this replica writes them
        # too. It counts its own copy when that is durable, and no sooner.
        if roles.leading is not None:
            roles.leading.replicate(now)
            if core.failure is not None:
                roles.end_if_failed()
        journal.flush()
        if roles.leading is not None:
            roles.leading.advance_commit()
        else:
            self._follower.answer_leader(now)
        if core.applied_index < core.commit_index or self._apply_at != FOREVER:
            self._apply_what_is_due(now)
        if journal.entry_bytes > self._least_bytes or self._compaction.has_begun:
            self._compaction.advance()
        if journal.failed is not None or core.failure is not None:
            roles.end_if_failed()

    def _apply_what_is_due(self, now: float) -> None:
        core = self._core
        unapplied = core.commit_index - core.applied_index
        if unapplied > 0:
            if self._roles.leading is None:
                self._apply_at = min(self._apply_at, now + APPLY_LATER_S)
            if self._roles.leading is not None or unapplied >= APPLY_LATER_MAX or now >= self._apply_at:
                self.apply_committed()
        if core.applied_index >= core.commit_index:
            self._apply_at = FOREVER

    def apply_committed(self) -> None:
        """Apply what is committed. Raises RaftFatal: the process has to end."""
        core, roles = self._core, self._roles
        journal, machine = core.journal, core.machine
        end = min(core.commit_index, core.applied_index + APPLY_ENTRIES_MAX)
        while core.applied_index < end:
            command, index, term = journal.entry(core.applied_index + 1)
            try:
                if command[:1] == REGULAR:
                    machine.apply(index, term, command[1:])
                core.applied_index = index
                if roles.leading is not None and term == core.term:
                    roles.leading.applied(index, len(command))
            except Exception as error:
                fatal = f"entry {index} of term {term} raised {error!r} when applied"
                self._fatal = RaftFatal(fatal)
                raise self._fatal from error

    # -- called by the transport --------------------------------------------------------------------

    def _message_arrived(self, node: Node, fields: Any) -> bool:
        """Give a message to the part that handles its kind. Return whether that has left nothing to do.
        Raises BadMessage: the transport closes the connection."""
        core = self._core
        if self._fatal is not None or core.failure is not None or self._closed:
            return False
        peer = core.group.node(node.id)
        message = decode(fields)
        had_vote = core.group.has_vote
        try:
            try:
                is_done = self._handlers[message[0]](peer, message)
            except JournalFailed as error:
                core.fail(str(error))
                is_done = False
            if core.failure is not None:
                self._roles.end_if_failed()
                return False
        except RaftFatal as error:
            self._fatal = error  # raised by the tick that follows
            return False
        if is_done is not True or core.group.has_vote is not had_vote:
            return False  # who has a vote now has no timer for an election yet
        unapplied = core.commit_index - core.applied_index
        if unapplied >= APPLY_LATER_MAX:
            return False
        if unapplied > 0 and self._apply_at == FOREVER:
            # The timer for an election brings the next tick, which applies it. Who has no vote has no timer.
            self._apply_at = core.heard_leader_at + APPLY_LATER_S
            return core.group.has_vote
        return True

    def _on_answer(self, node: Node, message: AppendAnswer | ChunkAnswer) -> None:
        """Give an answer to the leader: it counts in its term only, and only if a member gives it."""
        core, roles = self._core, self._roles
        if message.term > core.term:
            roles.adopt_term(message.term)
        if roles.leading is None or message.term != core.term:
            return
        progress = roles.leading.progress.get(node.id)
        if progress is None:
            return
        if type(message) is AppendAnswer:
            roles.leading.on_append_answer(progress, message)
        elif type(message) is ChunkAnswer:
            roles.leading.on_chunk_answer(progress, message)

    def _peer_connected(self, node: Node) -> None:
        self._core.group.online.add(node.id)
        if self._roles.leading is not None:
            self._roles.leading.link_up(node.id)

    def _peer_disconnected(self, node: Node) -> None:
        core = self._core
        core.group.online.discard(node.id)
        if self._roles.leading is not None:
            self._roles.leading.link_down(node.id)
        if core.leader is not None and core.leader.id == node.id:
            self._follower.leader_unlinked()
