"""A leader's side: give entries and snapshots to peers, commit, hold the lease, hand leadership over.

Per peer either one probe at a time (where do our logs agree?), or a pipeline of entries, or the chunks of a
snapshot. Links are FIFO and lose messages only with the connection, but nothing here relies on it: every
heartbeat names the entry before the next one, and a follower that lacks it says so.

The lease: followers echo the leader's own send times. Nobody votes against a leader within one minimum
election timeout of hearing it, so up to 0.9 of that after a time that a majority has echoed no other leader
can exist (clocks may differ by a tenth in rate). Measured from sending: the answer may have been late.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from storage.raft.core import NEVER
from storage.raft.errors import RaftFatal, SnapshotDamaged
from storage.raft.following import Following
from storage.raft.members import View, next_step, pack
from storage.raft.messages import (
    APPEND,
    CHUNK,
    TIMEOUT_NOW,
    Append,
    AppendAnswer,
    Chunk,
    ChunkAnswer,
    TimeoutNow,
)
from storage.raft.records import Entry
from storage.raft.skeleton import LEADER, MEMBERS, NO_OP, Node
from storage.raft.snapshot import Snapshot

LEASE_FRACTION: Final = 0.9
CAUGHT_UP_ENTRIES: Final = 64
"""A learner that misses no more than this gets its vote."""
TIMER_SLACK_S: Final = 0.001
"""Loops' timers are coarse and may be early by this: a tick that comes just too soon must do its work, not
ask for another one at once, again and again."""


@dataclass(slots=True, eq=False)
class Progress:
    """What the leader of this term knows of one peer."""

    node: Node
    online: bool
    next_index: int
    heard_at: float
    match_index: int = 0
    echoed_at: float = NEVER
    """Our latest send time that came back over the present connection."""
    probing: bool = True
    awaiting: bool = False
    """A probe or a chunk is under way."""
    sent_at: float = NEVER
    chunk_sent_at: float = NEVER
    online_since: float = NEVER
    window: deque[tuple[int, int]] = field(default_factory=deque)
    """(last index, bytes) of each message with entries that is not acknowledged."""
    window_bytes: int = 0
    snapshot: Snapshot | None = None
    offset: int = 0

    def probe_from(self, next_index: int) -> None:
        self.probing, self.awaiting = True, False
        self.next_index = next_index
        self.window.clear()
        self.window_bytes = 0
        self.snapshot = None

    def matched(self, index: int) -> None:
        self.match_index = index
        while self.window and self.window[0][0] <= index:
            self.window_bytes -= self.window.popleft()[1]


class Leading(Following):
    _progress: dict[str, Progress]
    _voting: list[Progress]
    """Of the other voters."""
    _heartbeat_due_at = NEVER
    _lease_until = NEVER
    _last_append: Append | None = None
    _transfer_to: str | None = None
    _transfer_deadline = NEVER
    _transfer_sent = False

    def _become_leader(self) -> None:
        now = self._clock()
        self._role = LEADER
        self._leader = self._own_node
        self._pre_votes = None
        self._serving = False
        self._pending_bytes = 0
        self._transfer_to, self._transfer_sent = None, False
        self._lease_until = NEVER
        next_index = self._journal.last_index + 1
        self._target = None
        self._progress = {}
        self._follow_members()
        self._heartbeat_due_at = now
        self._no_op_index = next_index
        # Entries of earlier terms commit only under an entry of this one (Raft paper, section 5.4.2).
        self._append_own(NO_OP)

    def _append_own(self, command: bytes) -> int:
        index = self._journal.last_index + 1
        self._append_entry((command, index, self._term))
        self._pending_bytes += len(command)
        return index

    # -- membership ---------------------------------------------------------------------------------

    def _use_members(self) -> None:
        super()._use_members()
        if self._role == LEADER:
            self._follow_members()

    def _follow_members(self) -> None:
        """Know of every peer what a leader has to know, and of nobody else."""
        now, next_index = self._clock(), self._journal.last_index + 1
        self._progress = {
            peer.id: self._progress.get(peer.id)
            or Progress(peer, peer.id in self._online, next_index, heard_at=now, online_since=now)
            for peer in self._peers
        }
        self._voting = [self._progress[peer.id] for peer in self._voting_peers]
        self._heartbeat_due_at = now
        self._renew_lease()

    def _change_members(self) -> None:
        """Part of the tick: one step towards the target, if the last one is committed."""
        if self._target is None or self._transfer_to is not None:
            return
        if not self._serving or self._history.index > self._commit_index:
            return
        members = self._history.current
        if all(member.votes for member in members) and self._target.keys() == self._voters:
            self._target = None
            return
        step = next_step(members, self._target, View(self._self_id, self._has_caught_up, self._is_online))
        if isinstance(step, str):
            self._begin_transfer(step)
        elif step is not None:
            self._append_own(MEMBERS + pack(step))

    def _is_online(self, peer_id: str) -> bool:
        progress = self._progress[peer_id]
        return progress.online and self._clock() - progress.heard_at <= self._config.election_max_s

    def _has_caught_up(self, peer_id: str) -> bool:
        """It also holds the entry that made it a learner: without that it must not get a vote."""
        progress = self._progress[peer_id]
        return (
            self._is_online(peer_id)
            and not progress.probing
            and progress.match_index >= self._history.index
            and self._journal.last_index - progress.match_index <= CAUGHT_UP_ENTRIES
        )

    # -- giving -------------------------------------------------------------------------------------

    def _replicate(self, now: float) -> None:
        """Part of the tick: send what is due to everybody."""
        beat = now >= self._heartbeat_due_at - TIMER_SLACK_S
        if beat:
            self._heartbeat_due_at = now + self._config.heartbeat_s
        last_index = self._journal.last_index
        for progress in self._progress.values():
            if not progress.online:
                continue
            if progress.snapshot is not None:
                self._send_chunk(progress, now)
            elif progress.probing:
                if not progress.awaiting or now - progress.sent_at >= self._config.heartbeat_s:
                    self._send_probe(progress, now)
            else:
                while progress.next_index <= last_index and self._send_entries(progress, now):
                    pass
            if beat and now - progress.sent_at > self._config.heartbeat_s / 2:
                self._send_heartbeat(progress, now)

    def _send_append(
        self, progress: Progress, now: float, previous_index: int, entries: tuple[Entry, ...]
    ) -> bool:
        previous_term = self._journal.term_at(previous_index)
        assert previous_term is not None, "what the log no longer holds goes as a snapshot"
        progress.sent_at = now
        message = Append(APPEND, self._term, now, self._commit_index, previous_index, previous_term, entries)
        if message == self._last_append:
            message = self._last_append  # peers in step get one message: links pack it once
        self._last_append = message
        return self._send(progress.node, message)

    def _send_entries(self, progress: Progress, now: float) -> bool:
        """One message of entries; False if the window is full or the link is gone."""
        if progress.next_index <= self._journal.base_index:
            self._begin_snapshot(progress, now)
            return False
        if progress.window and progress.window_bytes >= self._config.window_bytes_max:
            return False
        entries = tuple(self._journal.entries_from(progress.next_index, self._config.batch_bytes))
        size = sum(len(entry[0]) for entry in entries)
        progress.window.append((entries[-1][1], size))
        progress.window_bytes += size
        previous_index = progress.next_index - 1
        progress.next_index = entries[-1][1] + 1
        return self._send_append(progress, now, previous_index, entries)

    def _send_probe(self, progress: Progress, now: float) -> None:
        if progress.next_index <= self._journal.base_index:
            self._begin_snapshot(progress, now)
            return
        progress.awaiting = True
        self._send_append(progress, now, progress.next_index - 1, ())

    def _send_heartbeat(self, progress: Progress, now: float) -> None:
        """While a snapshot is under way a heartbeat names entry 0, on which all logs agree."""
        if progress.snapshot is not None or progress.next_index <= self._journal.base_index:
            progress.sent_at = now
            message = Append(APPEND, self._term, now, self._commit_index, 0, 0, ())
            self._send(progress.node, message)
        else:
            self._send_append(progress, now, progress.next_index - 1, ())

    def _begin_snapshot(self, progress: Progress, now: float) -> None:
        others = (other.snapshot for other in self._progress.values() if other.snapshot is not None)
        snapshot = next((other for other in others if other.index >= self._journal.base_index), None)
        snapshot = snapshot or self._load_snapshot()
        if snapshot is None:
            return
        progress.probe_from(snapshot.index + 1)
        progress.snapshot, progress.offset = snapshot, 0
        self._send_chunk(progress, now)

    def _load_snapshot(self) -> Snapshot | None:
        """Our own, which stands for what the log has forgotten; without it this replica is of no use."""
        try:
            snapshot = self._snapshots.load()
        except (SnapshotDamaged, OSError) as error:
            self._fail(str(error))
            return None
        if snapshot is None:
            self._fail(f"the snapshot is gone, and the log begins after entry {self._journal.base_index}")
        return snapshot

    def _send_chunk(self, progress: Progress, now: float) -> None:
        """One at a time. A chunk that is not answered goes again after the longest election timeout: on a
        slow link sending it with every heartbeat would only make things worse."""
        if progress.awaiting and now - progress.chunk_sent_at < self._config.election_max_s:
            return
        snapshot = progress.snapshot
        assert snapshot is not None, "only called for a peer that needs one"
        end = progress.offset + self._config.snapshot_chunk_bytes
        progress.awaiting = True
        progress.sent_at = progress.chunk_sent_at = now
        message = Chunk(
            CHUNK,
            self._term,
            now,
            snapshot.index,
            snapshot.term,
            len(snapshot.data),
            snapshot.crc,
            pack(self._members_of(snapshot)),
            progress.offset,
            snapshot.data[progress.offset : end],
        )
        self._send(progress.node, message)

    # -- hearing back -------------------------------------------------------------------------------

    def _heard(self, progress: Progress, sent_at: float) -> None:
        now = self._clock()
        progress.heard_at = now
        # What was sent over an earlier connection does not count: the peer may have taken its end for
        # ours, and have voted. Nor does what this clock has not shown yet: it is not ours.
        since = max(progress.online_since, progress.echoed_at)
        if progress.online and since <= sent_at <= now:
            progress.echoed_at = sent_at
            self._renew_lease()

    def _on_append_answer(self, node: Node, message: AppendAnswer) -> None:
        if message.term > self._term:
            self._adopt_term(message.term)
        if self._role != LEADER or message.term != self._term:
            return
        progress = self._progress.get(node.id)
        if progress is None:
            return  # no member any more
        self._heard(progress, message.sent_at)
        if not message.success:
            self._step_back(progress, message)
            return
        if message.match_index > self._journal.last_index:
            raise RaftFatal(f"{node.id} acknowledged entry {message.match_index}, which was never sent")
        advanced = message.match_index > progress.match_index
        # Also when it says nothing new: what was sent twice must leave the window too.
        progress.matched(max(message.match_index, progress.match_index))
        if advanced:
            self._advance_commit()
        probed = progress.next_index - 1
        if progress.probing and progress.snapshot is None and message.previous_index == probed:
            progress.probing = progress.awaiting = False
            # An acknowledgement of what was sent before the probe may have come in meanwhile.
            progress.next_index = max(progress.next_index, progress.match_index + 1)

    def _step_back(self, progress: Progress, message: AppendAnswer) -> None:
        rejected = message.previous_index
        if progress.snapshot is not None or rejected <= progress.match_index:
            return
        if progress.probing and rejected != progress.next_index - 1:
            return  # an answer to something sent before the present probe
        # Too short a log: try its end. A differing one: its committed part is the same as ours.
        agreed = message.last_index if message.last_index < rejected else message.commit_index
        progress.probe_from(max(progress.match_index, min(rejected - 1, agreed)) + 1)

    def _on_chunk_answer(self, node: Node, message: ChunkAnswer) -> None:
        if message.term > self._term:
            self._adopt_term(message.term)
        if self._role != LEADER or message.term != self._term:
            return
        progress = self._progress.get(node.id)
        if progress is None:
            return
        self._heard(progress, message.sent_at)
        snapshot = progress.snapshot
        if snapshot is None or snapshot.index != message.snapshot_index:
            return
        if message.covered:
            progress.probe_from(max(progress.match_index, snapshot.index) + 1)
        elif message.next_offset != progress.offset:
            progress.offset = min(message.next_offset, len(snapshot.data))
            progress.awaiting = False

    def _advance_commit(self) -> None:
        """Only entries of the current term commit by counting (Raft paper, section 5.4.2); our own disk
        counts like any other."""
        matches = [progress.match_index for progress in self._voting]
        matches.append(self._journal.durable_index)
        matches.sort(reverse=True)
        index = matches[self._majority - 1]
        if index > self._commit_index and self._journal.term_at(index) == self._term:
            self._commit_index = index

    # -- lease, fallback, transfer ------------------------------------------------------------------

    def _majority_of(self, times: list[float]) -> float:
        """The latest time that a majority, ourselves included, has reached; `times` are the other voters'."""
        times.sort(reverse=True)
        return times[self._majority - 2]

    def _renew_lease(self) -> None:
        if self._majority == 1:
            return  # nobody else can be elected; see has_lease
        echoed_at = self._majority_of([progress.echoed_at for progress in self._voting])
        self._lease_until = echoed_at + LEASE_FRACTION * self._config.election_min_s

    def _leader_timers(self, now: float) -> None:
        """Part of the tick: fall back when cut off, carry a transfer on."""
        if self._majority == 1:
            return
        heard_at = self._majority_of([progress.heard_at for progress in self._voting])
        if now - heard_at > self._config.election_max_s:
            self._resign()
            return
        if self._transfer_to is None:
            return
        if now >= self._transfer_deadline:
            if self._transfer_sent:
                self._resign()  # without a lease until the end of the term: of no more use
            self._transfer_to = None
            return
        progress = self._progress.get(self._transfer_to)
        if progress is None:
            self._transfer_to = None
            return
        if not self._transfer_sent and progress.match_index == self._journal.last_index:
            # From here on the target's election ignores promises: no lease may exist any more.
            self._transfer_sent = True
            self._lease_until = NEVER
            self._send(progress.node, TimeoutNow(TIMEOUT_NOW, self._term))

    def _begin_transfer(self, to: str | None) -> bool:
        if self._role != LEADER or not self._serving or self._transfer_to is not None:
            return False
        online = [progress for progress in self._voting if progress.online]
        if to is None:
            target = max(online, key=lambda progress: progress.match_index, default=None)
        else:
            target = next((progress for progress in online if progress.node.id == to), None)
        if target is None:
            return False
        self._transfer_to = target.node.id
        self._transfer_deadline = self._clock() + self._config.election_max_s
        return True

    # -- links --------------------------------------------------------------------------------------

    def _link_up(self, peer_id: str) -> None:
        if self._role == LEADER and peer_id in self._progress:
            progress = self._progress[peer_id]
            progress.online = True
            progress.online_since = self._clock()
            progress.probe_from(self._journal.last_index + 1)

    def _link_down(self, peer_id: str) -> None:
        """At once, before the connection is closed by us: the peer may take its end for our death, forget
        its promise and vote."""
        if self._role == LEADER and peer_id in self._progress:
            progress = self._progress[peer_id]
            progress.online = False
            progress.echoed_at = NEVER
            progress.probe_from(self._journal.last_index + 1)
            self._renew_lease()
