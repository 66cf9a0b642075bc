"""Raft on pysyncobj's skeleton: the public face, the tick, and compaction.

One loop owns a `Raft`: it calls `tick` after each batch of proposals, when the transport had activity, when
the journal or the snapshot store notifies, and at `next_tick_at`. Messages are handled as they arrive; the
tick writes, sends, commits and applies. See core, following, leading and elections for the parts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from storage.raft.core import NEVER, RaftConfig, SnapshotBuild, StateMachine
from storage.raft.elections import Elections
from storage.raft.errors import Busy, JournalFailed, NotLeader, RaftFatal
from storage.raft.members import Members
from storage.raft.messages import (
    APPEND,
    APPEND_ANSWER,
    CHUNK,
    CHUNK_ANSWER,
    PRE_VOTE,
    PRE_VOTE_ANSWER,
    TIMEOUT_NOW,
    VOTE,
    VOTE_ANSWER,
    decode,
)
from storage.raft.skeleton import LEADER, REGULAR, ROLE_NAMES, Node
from storage.raft.snapshot import Snapshot

__all__ = ["Busy", "NotLeader", "Raft", "RaftConfig", "RaftFatal", "StateMachine"]

FOREVER = float("inf")


class _Building(NamedTuple):
    """A snapshot in the making: the state as of `at_index`."""

    at_index: int
    at_term: int
    members: Members
    build: SnapshotBuild


class Raft(Elections):
    """One replica of a Raft group. Not thread-safe. See `Core.__init__` for the constructor.

    Owns the transport, the journal and the snapshot store from then on: `close` closes them. After a failed
    write or sync, or a full disk, it takes no more part (`status()["failure"]` says why) until the process
    is started anew; a restart under the same identity is safe, because nothing was promised since."""

    _compact_above = 0.0
    _building: _Building | None = None

    # -- what a host reads --------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        """Elected; `serving` says whether it may already answer."""
        return self._role == LEADER

    @property
    def serving(self) -> bool:
        """`on_leading` was called for the current term."""
        return self._serving

    @property
    def leader_id(self) -> str | None:
        """The replica believed to lead now, if any."""
        leader = self._leader
        return None if leader is None else leader.id

    @property
    def term(self) -> int:
        return self._term

    @property
    def commit_index(self) -> int:
        return self._commit_index

    @property
    def last_index(self) -> int:
        return self._journal.last_index

    @property
    def last_term(self) -> int:
        """Of the newest entry."""
        return self._journal.last_term

    @property
    def applied_index(self) -> int:
        return self._applied_index

    @property
    def members(self) -> Members:
        """Who belongs to the group, as far as this replica's log tells."""
        return self._history.current

    @property
    def pending_bytes(self) -> int:
        """Proposed by this leader and not yet applied."""
        return self._pending_bytes

    def has_lease(self) -> bool:
        """Whether the leader's own state is the newest there is, right now: reads may be answered from it."""
        if not self._serving or self._transfer_sent:
            return False
        return self._majority == 1 or self._clock() < self._lease_until

    @property
    def next_tick_at(self) -> float:
        """The clock time at which `tick` has to be called if nothing happens before."""
        if self._fatal is not None:
            return NEVER
        if self._failure is not None or self._closed:
            return FOREVER
        if self._journal.unwritten or self._applied_index < self._commit_index or self._building:
            return NEVER
        if self._role == LEADER:
            return self._heartbeat_due_at if self._peers else FOREVER
        election_at = self._election_deadline if self._is_voter else FOREVER
        if self._owed_since is not None:
            return min(election_at, self._owed_since + self._config.heartbeat_s / 2)
        return election_at

    def status(self) -> dict[str, Any]:
        """For operators and metrics: plain values, times in seconds."""
        now = self._clock()
        status: dict[str, Any] = {
            "id": self._self_id,
            "role": ROLE_NAMES[self._role],
            "term": self._term,
            "leader": self.leader_id,
            "serving": self._serving,
            "lease": self.has_lease(),
            "last_index": self._journal.last_index,
            "durable_index": self._journal.durable_index,
            "commit_index": self._commit_index,
            "applied_index": self._applied_index,
            "snapshot_index": self._snapshots.index,
            "snapshot_bytes": self._snapshots.size,
            "journal_bytes": self._journal.entry_bytes,
            "pending_bytes": self._pending_bytes,
            "peers_online": sorted(self._online),
            "members": [
                {"id": member.member_id, "node_id": member.node_id, "votes": member.votes}
                for member in self.members
            ],
            "members_committed": self._history.index <= self._commit_index,
            "failure": self._failure,
            "snapshot_failure": self._snapshots.failed,
        }
        if self._role == LEADER:
            status["peers"] = {
                peer_id: {
                    "match_index": progress.match_index,
                    "lag": self._journal.last_index - progress.match_index,
                    "online": progress.online,
                    "heard_s_ago": now - progress.heard_at,
                    "snapshot": progress.snapshot is not None,
                }
                for peer_id, progress in self._progress.items()
            }
        return status

    # -- what a host does ---------------------------------------------------------------------------

    def propose(self, command: bytes) -> int:
        """Append `command` to the log and return its index; it is written and sent by the next `tick`.

        It is committed when `apply` is called with that index and the term of now; after `on_fallen` its
        fate is unknown. Raises NotLeader, Busy, ValueError (too large)."""
        if self._role != LEADER or self._failure is not None:
            raise NotLeader(f"{self._self_id} does not lead, {self.leader_id} may")
        size = len(command)
        if size > self._config.entry_bytes_max:
            raise ValueError(f"a command of {size} bytes, at most {self._config.entry_bytes_max} are allowed")
        if self._transfer_to is not None:
            raise Busy(f"leadership is being handed to {self._transfer_to}")
        if self._pending_bytes + size > self._config.pending_bytes_max:
            raise Busy(f"{self._pending_bytes} bytes are not committed yet")
        return self._append_own(REGULAR + command)

    def tick(self) -> None:
        """Do all that is due. Never sleeps. Raises RaftFatal: the process has to end."""
        if self._fatal is not None:
            raise self._fatal
        if self._closed:
            return
        try:
            try:
                self._tick()
            except JournalFailed as error:
                self._fail(str(error))
        except RaftFatal as error:
            self._fatal = error
            raise

    def transfer(self, to: str | None = None) -> bool:
        """Hand leadership to `to`, or to the peer that is furthest. False if that cannot begin: not serving,
        under way already, or no such peer is connected. `on_fallen` tells of the success."""
        return self._begin_transfer(to)

    def set_target(self, target: Mapping[str, int]) -> None:
        """Make these the voters (member id -> node id), one change at a time, newcomers as learners until
        they have caught up. Only a leader does anything, and forgets it when it falls: call again."""
        if self._role == LEADER:
            self._target = dict(target)

    def peer_lost(self, peer_id: str) -> None:
        """The peer's host closed its connection to us: if it led, campaign soon instead of waiting for an
        election timeout."""
        self._leader_lost(peer_id)

    def close(self) -> None:
        """Close the transport, the journal (what was written is synced) and the snapshot store."""
        if self._closed:
            return
        self._closed = True
        self.destroy()
        self._snapshots.close()

    # -- the tick -----------------------------------------------------------------------------------

    def _tick(self) -> None:
        journal = self._journal
        journal.collect()
        if journal.failed is not None or self._failure is not None:
            self._check_journal()
            return
        now = self._clock()
        if self._role == LEADER:
            self._leader_timers(now)
            self._change_members()
        elif now >= self._election_deadline:
            self._campaign(now)
        # First what takes longest: entries travel, and peers write them, while this replica writes them too.
        # It counts its own copy when that is durable, and no sooner.
        if self._role == LEADER:
            self._replicate(now)
        journal.flush()
        if self._role == LEADER:
            self._advance_commit()
        self._apply_committed()
        self._answer_leader(now)
        self._compact()
        self._check_journal()

    def _compact(self) -> None:
        """Take a snapshot when the journal has outgrown it, and shorten the journal when it is saved. A tail
        stays, so that a peer that lags a little needs no snapshot."""
        journal, snapshots = self._journal, self._snapshots
        least = self._config.snapshot_journal_bytes_min
        if snapshots.saving:
            saved = snapshots.collect()
            if saved:
                keep_from = min(journal.tail_within(least // 4), snapshots.index)
                if keep_from > journal.base_index:
                    journal.compact(keep_from)
                self._history.forget_before(snapshots.index)
            if not snapshots.saving:
                # What a snapshot could not remove, or a failed save, must not cause one in every tick.
                self._compact_above = journal.entry_bytes + least // 2
        elif self._building is not None:
            self._build_snapshot(self._building)
        elif journal.entry_bytes > max(least, 2 * snapshots.size, self._compact_above):
            self._begin_building()

    def _begin_building(self) -> None:
        index = self._applied_index
        term = self._journal.term_at(index)
        if term is not None and index > self._snapshots.index:
            try:
                build = self._machine.begin_snapshot()
            except Exception as error:
                raise RaftFatal(f"the snapshot at entry {index} raised {error!r}") from error
            self._building = _Building(index, term, self._history.at(index), build)

    def _build_snapshot(self, building: _Building) -> None:
        """One slice a tick: requests have their turn in between."""
        try:
            data = building.build.step()
        except Exception as error:
            raise RaftFatal(f"the snapshot at entry {building.at_index} raised {error!r}") from error
        if data is not None:
            self._building = None
            self._snapshots.save_later(
                Snapshot.of(building.at_index, building.at_term, data, building.members)
            )

    def _restore(self, snapshot: Snapshot) -> None:
        self._building = None
        super()._restore(snapshot)

    # -- called by the transport --------------------------------------------------------------------

    def _message_arrived(self, node: Node, fields: Any) -> None:
        """Raises BadMessage, for the transport to close the connection."""
        if self._fatal is not None or self._failure is not None or self._closed:
            return
        peer = self._node(node.id)
        message = decode(fields)
        try:
            try:
                self._handlers[message.kind](peer, message)
            except JournalFailed as error:
                self._fail(str(error))
        except RaftFatal as error:
            self._fatal = error  # raised by the tick that follows

    def _peer_connected(self, node: Node) -> None:
        self._online.add(node.id)
        self._link_up(node.id)

    def _peer_disconnected(self, node: Node) -> None:
        self._online.discard(node.id)
        self._link_down(node.id)
        if self._leader is not None and self._leader.id == node.id:
            self._owe_nothing()

    @functools.cached_property
    def _handlers(self) -> dict[int, Callable[[Node, Any], None]]:
        return {
            PRE_VOTE: self._on_pre_vote,
            PRE_VOTE_ANSWER: self._on_pre_vote_answer,
            VOTE: self._on_vote,
            VOTE_ANSWER: self._on_vote_answer,
            APPEND: self._on_append,
            APPEND_ANSWER: self._on_append_answer,
            CHUNK: self._on_chunk,
            CHUNK_ANSWER: self._on_chunk_answer,
            TIMEOUT_NOW: self._on_timeout_now,
        }
