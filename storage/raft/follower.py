"""What a follower does: take the leader's entries and snapshots, acknowledge what is verified and durable.

Stock pysyncobj cuts its log after the previous entry even if what follows matches, acknowledges before
anything is on disk, and commits what nobody compared. Here, entries that match are kept; the log is cut at a
real conflict only, never at or below the commit index; `match_index` is verified in this term and durable;
the commit index follows the leader's only as far as verified.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from crc32c import crc32c

from storage.raft.compaction import Compaction
from storage.raft.contract import NEVER
from storage.raft.core import Core
from storage.raft.errors import RaftFatal
from storage.raft.members import unpack
from storage.raft.messages import (
    APPEND_ANSWER,
    CHUNK_ANSWER,
    Append,
    AppendAnswer,
    Chunk,
    ChunkAnswer,
    Rest,
    new_tuple,
)
from storage.raft.records import Entry
from storage.raft.roles import Roles
from storage.raft.skeleton import FOLLOWER, LEADER, MEMBERS, Node
from storage.raft.snapshot import Snapshot

MEMBERS_KIND = MEMBERS[0]
UNASKED = -1
"""The `previous_index` of an answer that only tells how far the disk has got."""


@dataclass(slots=True)
class _Incoming:
    """A snapshot that is arriving."""

    index: int
    term: int
    size: int
    crc: int
    members: bytes
    data: bytearray = field(default_factory=bytearray)

    def is_of(self, chunk: Chunk) -> bool:
        return (self.index, self.term, self.size, self.crc, self.members) == (
            chunk.snapshot_index,
            chunk.snapshot_term,
            chunk.size,
            chunk.crc,
            chunk.members,
        )


class Follower:
    """The following half of one replica, which hears leaders, one at a time."""

    def __init__(self, core: Core, roles: Roles, compaction: Compaction) -> None:
        self._core = core
        self._roles = roles
        self._compaction = compaction
        self._incoming: _Incoming | None = None
        self._owed_since: float | None = None
        """When entries came that have not been answered, because the answer waits a little for the disk;
        None: all are answered."""
        self._owed_sent_at = NEVER
        """The leader's send time that the answer echoes."""
        self._owed_previous_index = UNASKED
        self._acknowledged_index = 0
        """The index that the present leader was told last."""

    # -- who leads ----------------------------------------------------------------------------------

    def _hear_leader(self, node: Node, term: int) -> None:
        """Note that `node` leads `term`, which is not below ours."""
        core = self._core
        if core.leader is not node or term != core.term:
            self._follow(node, term)
        core.pre_votes = None
        core.rest_s = 0.0
        core.heard_leader_at = now = core.clock()
        core.election_deadline = now + core.election_timeout_s

    def _follow(self, node: Node, term: int) -> None:
        """Follow a leader, or a term, that was not followed before."""
        core = self._core
        if core.role == LEADER and term == core.term:
            raise RaftFatal(f"{node.id} and {core.group.self_id} both lead term {term}")
        if term > core.term:
            self._roles.adopt_term(term)
        if core.leader is not node:
            core.role = FOLLOWER
            core.leader = node
            self._incoming = None
            self._owe_nothing()
            self._acknowledged_index = 0

    def leader_unlinked(self) -> None:
        """Forget what is owed to the leader: the connection to it has ended."""
        self._owe_nothing()

    def _owe_nothing(self) -> None:
        """Owe no answer any more. The leader's send time is forgotten too: echoed to another leader, or over
        another connection, it would give a lease that nobody granted."""
        self._owed_since = None
        self._owed_sent_at = NEVER
        self._owed_previous_index = UNASKED

    # -- entries ------------------------------------------------------------------------------------

    def on_append(self, node: Node, message: Append) -> bool:
        """Take entries or a heartbeat. Return whether all of it is done, the answer included: else the tick
        has to see to it."""
        core = self._core
        if (
            message.term == core.term
            and core.leader is node
            and self._owed_since is None
            and core.journal.takes_at_once(message.previous_index, message.previous_term)
        ):
            return self._take_next(node, message)
        self._compare(node, message)
        return False

    def _take_next(self, node: Node, message: Append) -> bool:
        """Take what follows the end of the log from the leader that was heard last, sync and acknowledge it:
        all that a follower does as a rule, by as little code as can be."""
        core, journal = self._core, self._core.journal
        _, _, sent_at, commit_index, previous_index, _, entries = message
        core.pre_votes = None
        core.rest_s = 0.0
        core.heard_leader_at = now = core.clock()
        core.election_deadline = now + core.election_timeout_s
        if entries:
            for entry in entries:
                if entry[0][0] == MEMBERS_KIND:
                    self._append_one_by_one(entries)
                    break
            else:
                journal.take(entries)
            if journal.failed is not None:
                core.fail(journal.failed)
                return False
        index = journal.last_index
        if index > core.verified_index:
            core.verified_index = index
        if commit_index > core.commit_index:
            core.commit_index = commit_index if commit_index < index else index
        self._acknowledge(node, sent_at, previous_index)
        return True

    def _append_one_by_one(self, entries: tuple[Entry, ...]) -> None:
        """Add and sync entries among which there is a membership."""
        for entry in entries:
            self._core.append(entry)
        self._core.journal.flush()

    def _compare(self, node: Node, message: Append) -> None:
        """Take what agrees with the log, or say where it may agree."""
        core = self._core
        term, sent_at, previous = message.term, message.sent_at, message.previous_index
        if term < core.term:
            core.send(node, self._answer(sent_at, False, UNASKED))
            return
        self._hear_leader(node, term)
        # Every leader holds all committed entries, so there is nothing to compare up to the commit index.
        if previous > core.commit_index and core.journal.term_at(previous) != message.previous_term:
            core.send(node, self._answer(sent_at, False, previous))
            return
        self._take(message)
        verified = previous + len(message.entries)
        if verified > core.verified_index:
            core.verified_index = verified
        if message.commit_index > core.commit_index:
            core.commit_index = max(core.commit_index, min(message.commit_index, core.verified_index))
        if message.entries:
            # They are answered in the tick, when the disk has them: one answer for all that one sync covers.
            if self._owed_since is None:
                self._owed_since = core.heard_leader_at
            self._owed_sent_at = sent_at
            self._owed_previous_index = previous
        else:
            self._acknowledge(node, sent_at, previous)

    def on_rest(self, node: Node, message: Rest) -> None:
        """Take a heartbeat, and wait longer for the next one."""
        core = self._core
        self.on_append(node, message.heartbeat)
        if core.leader is node and core.term == message.term:
            core.rest_s = message.rest_s
            core.election_deadline += message.rest_s

    def _take(self, message: Append) -> None:
        """Add the entries that are not in the log yet."""
        core, entries = self._core, message.entries
        if core.journal.last_index > message.previous_index:
            entries = self._not_held(message)
        for entry in entries:
            core.append(entry)

    def _not_held(self, message: Append) -> tuple[Entry, ...]:
        """Return the entries that are not in the log yet, which is cut where it differs."""
        core, journal = self._core, self._core.journal
        held = 0
        for _, index, term in message.entries:
            known = journal.term_at(index)
            if known is None and index > journal.base_index:
                break
            if known is not None and known != term:
                if index <= core.commit_index:
                    raise RaftFatal(
                        f"entry {index} is committed with term {known}, "
                        f"the leader of term {message.term} has it with term {term}"
                    )
                core.truncate_after(index - 1)
                break
            held += 1
        return message.entries[held:]

    # -- answers ------------------------------------------------------------------------------------

    @property
    def owes_answer(self) -> bool:
        """Return whether the leader waits for an answer."""
        return self._owed_since is not None

    @property
    def answer_at(self) -> float | None:
        """Return when the leader has to hear something even if the disk is slow; None if nothing is owed, or
        nobody is known to lead: whoever is owed an answer then never gets it."""
        if self._owed_since is None or self._core.leader is None:
            return None
        return self._owed_since + self._core.settings.heartbeat_s / 2

    def answer_leader(self, now: float) -> None:
        """Tell the leader how far the disk has got, and that this replica is here even if the disk is slow.
        The tick calls this."""
        core = self._core
        leader = core.leader
        if leader is None or core.role == LEADER:
            return
        verified, durable = core.verified_index, core.journal.durable_index
        owed_since = self._owed_since
        if (
            min(verified, durable) > self._acknowledged_index
            or (owed_since is not None and durable >= verified)
            or (owed_since is not None and now - owed_since >= core.settings.heartbeat_s / 2)
        ):
            self._acknowledge(leader, self._owed_sent_at, self._owed_previous_index)
            self._owed_since = None

    def _answer(self, sent_at: float, success: bool, previous_index: int) -> AppendAnswer:
        core, journal = self._core, self._core.journal
        verified, durable = core.verified_index, journal.durable_index
        match = verified if verified < durable else durable
        told = sent_at, success, previous_index, match, journal.last_index, core.commit_index
        answer: AppendAnswer = new_tuple(AppendAnswer, (APPEND_ANSWER, core.term, *told))
        return answer

    def _acknowledge(self, node: Node, sent_at: float, previous_index: int) -> None:
        answer = self._answer(sent_at, True, previous_index)
        self._acknowledged_index = answer.match_index
        self._core.send(node, answer)

    # -- snapshots ----------------------------------------------------------------------------------

    def on_chunk(self, node: Node, message: Chunk) -> None:
        core = self._core
        if message.term < core.term:
            core.send(node, self._answer(message.sent_at, False, UNASKED))
            return
        self._hear_leader(node, message.term)
        if message.snapshot_index <= core.commit_index:
            # The snapshot is stale: to install it would take the state back.
            self._incoming = None
            self._answer_chunk(node, message, message.size, covered=True)
            return
        if core.snapshots.saving:
            return  # our own save would replace it; the leader asks again
        incoming = self._add(message)
        if len(incoming.data) < incoming.size:
            self._answer_chunk(node, message, len(incoming.data), covered=False)
            return
        self._incoming = None
        data = bytes(incoming.data)
        if len(data) != incoming.size or crc32c(data) != incoming.crc:
            self._answer_chunk(node, message, 0, covered=False)
            return
        self._install(
            Snapshot(
                index=incoming.index,
                term=incoming.term,
                data=data,
                crc=incoming.crc,
                members=unpack(incoming.members),
            )
        )
        self._answer_chunk(node, message, message.size, covered=True)

    def _add(self, chunk: Chunk) -> _Incoming:
        """Return the snapshot that is arriving, with this chunk if it is the next one."""
        incoming = self._incoming
        if incoming is None or not incoming.is_of(chunk):
            incoming = self._incoming = _Incoming(
                index=chunk.snapshot_index,
                term=chunk.snapshot_term,
                size=chunk.size,
                crc=chunk.crc,
                members=chunk.members,
            )
        if chunk.offset == len(incoming.data):
            incoming.data += chunk.data
        return incoming

    def _install(self, snapshot: Snapshot) -> None:
        """Save a snapshot, reset the log, restore the state, in this order: a crash between any two is
        repaired at start."""
        core, journal = self._core, self._core.journal
        try:
            core.snapshots.save(snapshot)
        except OSError as error:
            core.fail(f"snapshot at entry {snapshot.index}: save failed: {error}")
            return
        if journal.term_at(snapshot.index) == snapshot.term:
            journal.compact(snapshot.index)
        else:
            journal.reset(snapshot.index, snapshot.term)
        self._compaction.abandon()
        core.restore(snapshot)
        core.verified_index = max(core.verified_index, snapshot.index)

    def _answer_chunk(self, node: Node, message: Chunk, next_offset: int, *, covered: bool) -> None:
        answer = ChunkAnswer(
            kind=CHUNK_ANSWER,
            term=self._core.term,
            sent_at=message.sent_at,
            snapshot_index=message.snapshot_index,
            next_offset=next_offset,
            covered=covered,
        )
        self._core.send(node, answer)
