"""A follower's side: take the leader's entries and snapshots, acknowledge what is verified and durable.

Stock pysyncobj cuts its log after the previous entry even if what follows matches, acknowledges before
anything is on disk, and commits what nobody compared. Here: what matches is kept; the log is cut at a real
conflict only, never at or below the commit index; `match_index` is verified in this term and durable; the
commit index follows the leader's only as far as verified.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from crc32c import crc32c

from storage.raft.core import NEVER, Core
from storage.raft.errors import RaftFatal
from storage.raft.members import unpack
from storage.raft.messages import (
    APPEND_ANSWER,
    CHUNK_ANSWER,
    Append,
    AppendAnswer,
    Chunk,
    ChunkAnswer,
)
from storage.raft.records import Entry
from storage.raft.skeleton import FOLLOWER, LEADER, MEMBERS, Node
from storage.raft.snapshot import Snapshot

UNASKED = -1
"""`previous_index` of an answer that only tells how far the disk has got."""


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


class Following(Core):
    _incoming: _Incoming | None = None
    _owed_since: float | None = None
    """When entries came that have not been answered: the answer waits a little for the disk."""
    _owed_sent_at = NEVER
    """The leader's send time to echo with it."""
    _owed_previous_index = UNASKED
    _acknowledged_index = 0

    def _hear_leader(self, node: Node, term: int) -> None:
        """`node` leads `term`, which is not below ours."""
        if self._leader is not node or term != self._term:
            self._follow(node, term)
        self._pre_votes = None
        self._heard_leader_at = now = self._clock()
        self._election_deadline = now + self._timeout_s

    def _follow(self, node: Node, term: int) -> None:
        """A leader, or a term, that was not followed before."""
        if self._role == LEADER and term == self._term:
            raise RaftFatal(f"{node.id} and {self._self_id} both lead term {term}")
        if term > self._term:
            self._adopt_term(term)
        if self._leader is not node:
            self._role = FOLLOWER
            self._leader = node
            self._incoming = None
            self._owe_nothing()
            self._acknowledged_index = 0

    def _owe_nothing(self) -> None:
        """Forget the leader's send time too: echoed to another leader, or over another connection, it would
        give a lease that nobody granted."""
        self._owed_since = None
        self._owed_sent_at = NEVER
        self._owed_previous_index = UNASKED

    def _on_append(self, node: Node, message: Append) -> None:
        _, term, sent_at, commit_index, previous, previous_term, entries = message
        if term < self._term:
            self._send(node, self._answer(sent_at, False, UNASKED))
            return
        self._hear_leader(node, term)
        # Every leader holds all committed entries, so there is nothing to compare up to the commit index.
        if previous > self._commit_index and self._journal.term_at(previous) != previous_term:
            self._send(node, self._answer(sent_at, False, previous))
            return
        self._take(message)
        verified = previous + len(entries)
        if verified > self._verified_index:
            self._verified_index = verified
        if commit_index > self._commit_index:
            self._commit_index = max(self._commit_index, min(commit_index, self._verified_index))
        if entries:
            # Answered in the tick, when the disk has them: one answer for all that one sync covers.
            if self._owed_since is None:
                self._owed_since = self._heard_leader_at
            self._owed_sent_at = sent_at
            self._owed_previous_index = previous
        else:
            self._acknowledge(node, sent_at, previous)

    def _take(self, message: Append) -> None:
        """Add the entries that are not in the log yet."""
        entries = message.entries
        if self._journal.last_index > message.previous_index:
            entries = self._not_held(message)
        for entry in entries:
            self._append_entry(entry)

    def _not_held(self, message: Append) -> tuple[Entry, ...]:
        """The entries that are not in the log yet, which is cut where it differs."""
        journal = self._journal
        held = 0
        for _, index, term in message.entries:
            known = journal.term_at(index)
            if known is None and index > journal.base_index:
                break
            if known is not None and known != term:
                if index <= self._commit_index:
                    raise RaftFatal(
                        f"entry {index} is committed with term {known}, "
                        f"the leader of term {message.term} has it with term {term}"
                    )
                journal.truncate_after(index - 1)
                if self._history.truncate_after(index - 1):
                    self._use_members()
                break
            held += 1
        return message.entries[held:]

    def _append_entry(self, entry: Entry) -> None:
        self._journal.append(entry)
        command, index, _ = entry
        if command[:1] == MEMBERS:
            self._history.add(index, unpack(command[1:]))
            self._use_members()

    def _answer(self, sent_at: float, success: bool, previous_index: int) -> AppendAnswer:
        journal = self._journal
        match_index = min(self._verified_index, journal.durable_index)
        return AppendAnswer(
            APPEND_ANSWER,
            self._term,
            sent_at,
            success,
            previous_index,
            match_index,
            journal.last_index,
            self._commit_index,
        )

    def _acknowledge(self, node: Node, sent_at: float, previous_index: int) -> None:
        answer = self._answer(sent_at, True, previous_index)
        self._acknowledged_index = answer.match_index
        self._send(node, answer)

    def _answer_leader(self, now: float) -> None:
        """Part of the tick: tell the leader how far the disk has got, and that we are here even if the
        disk is slow."""
        leader = self._leader
        if leader is None or self._role == LEADER:
            return
        verified, durable = self._verified_index, self._journal.durable_index
        owed_since = self._owed_since
        if (
            min(verified, durable) > self._acknowledged_index
            or (owed_since is not None and durable >= verified)
            or (owed_since is not None and now - owed_since >= self._config.heartbeat_s / 2)
        ):
            self._acknowledge(leader, self._owed_sent_at, self._owed_previous_index)
            self._owed_since = None

    # -- snapshots ----------------------------------------------------------------------------------

    def _on_chunk(self, node: Node, message: Chunk) -> None:
        if message.term < self._term:
            self._send(node, self._answer(message.sent_at, False, UNASKED))
            return
        self._hear_leader(node, message.term)
        if message.snapshot_index <= self._commit_index:
            # A stale one: installing it would turn the state back.
            self._incoming = None
            self._answer_chunk(node, message, message.size, covered=True)
            return
        if self._snapshots.saving:
            return  # our own save would replace it; the leader asks again
        incoming = self._incoming
        if incoming is None or not incoming.is_of(message):
            incoming = _Incoming(
                message.snapshot_index, message.snapshot_term, message.size, message.crc, message.members
            )
            self._incoming = incoming
        if message.offset == len(incoming.data):
            incoming.data += message.data
        if len(incoming.data) < incoming.size:
            self._answer_chunk(node, message, len(incoming.data), covered=False)
            return
        self._incoming = None
        data = bytes(incoming.data)
        if len(data) != incoming.size or crc32c(data) != incoming.crc:
            self._answer_chunk(node, message, 0, covered=False)
            return
        members = unpack(incoming.members)
        self._install(Snapshot(incoming.index, incoming.term, data, incoming.crc, members))
        self._answer_chunk(node, message, message.size, covered=True)

    def _install(self, snapshot: Snapshot) -> None:
        """Save, reset the log, restore, in this order: a crash between any two is repaired at start."""
        journal = self._journal
        try:
            self._snapshots.save(snapshot)
        except OSError as error:
            self._fail(f"snapshot at entry {snapshot.index}: save failed: {error}")
            return
        if journal.term_at(snapshot.index) == snapshot.term:
            journal.compact(snapshot.index)
        else:
            journal.reset(snapshot.index, snapshot.term)
        self._restore(snapshot)
        self._commit_index = self._applied_index = snapshot.index
        self._verified_index = max(self._verified_index, snapshot.index)

    def _answer_chunk(self, node: Node, message: Chunk, next_offset: int, *, covered: bool) -> None:
        answer = ChunkAnswer(
            CHUNK_ANSWER, self._term, message.sent_at, message.snapshot_index, next_offset, covered
        )
        self._send(node, answer)
