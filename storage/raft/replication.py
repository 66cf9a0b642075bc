"""What a leader sends to its peers: entries, probes, heartbeats, and the chunks of snapshots.

Links are FIFO and lose messages only with the connection, but nothing here relies on it: every heartbeat
names the entry before the next one, and a follower that lacks it says so.
"""

from __future__ import annotations

from typing import Final

from storage.raft.contract import NEVER
from storage.raft.core import Core
from storage.raft.errors import SnapshotDamaged
from storage.raft.members import pack
from storage.raft.messages import APPEND, CHUNK, REST, Append, Chunk, Rest, new_tuple
from storage.raft.progress import Progress
from storage.raft.records import Entry
from storage.raft.snapshot import Snapshot

TIMER_SLACK_S: Final = 0.001
"""How early a loop's timer may be, in seconds: a tick that comes just too soon must do its work, not ask for
another one at once, again and again."""
LATER_ENTRIES_MAX: Final = 32
"""How many entries a voter may lag behind that gets them with heartbeats."""


class Replication:
    """The sending half of a leader, for one term.

    Entries go at once to as many voters as make a majority with this replica, which is what a commit waits
    for, and to the others with the next heartbeat, many in one message: a follower that is not waited for is
    woken a few times a second instead of once for each entry. Whoever is slow or silent is waited for no
    longer than a heartbeat.
    """

    def __init__(self, core: Core) -> None:
        self.peers: tuple[Progress, ...] = ()
        self.voting: tuple[Progress, ...] = ()
        """The progress of the other voters."""
        self.heartbeat_due_at = NEVER
        self.rest_s = 0.0
        """How much longer than usual the leader is silent now, as it has said; 0: it does not rest."""
        self.awake_since = NEVER
        """When the last rest ended: what was not heard before that proves nothing."""
        self._prompt: tuple[Progress, ...] = ()
        """The voters that get entries at once, as they were chosen last."""
        self._at_once: tuple[Progress, ...] = ()
        """The peers that get entries at once: these voters, or everybody if there are too few of them."""
        self._core = core
        self._settings = core.settings
        self._last_append: Append | None = None

    def follow(self, peers: tuple[Progress, ...], voting: tuple[Progress, ...], now: float) -> None:
        """Send to these peers from now on, at once."""
        self.peers, self.voting = peers, voting
        self._prompt = ()
        self._at_once = peers
        self.heartbeat_due_at = now

    def doubt(self) -> None:
        """Choose anew who gets entries at once: a link has come or gone."""
        self._at_once = self.peers

    def send_due(self, now: float, *, to_all: bool, rest_s: float) -> None:
        """Send what is due to all peers; with `to_all`, entries go to all of them at once. With the next
        heartbeat a rest of `rest_s` may begin; 0 ends one at once. The tick calls this."""
        heartbeat_s = self._settings.heartbeat_s
        is_woken = bool(self.rest_s) and not rest_s
        beat = is_woken or now >= self.heartbeat_due_at - TIMER_SLACK_S
        if is_woken:
            self.awake_since = now
        if beat:
            self.rest_s = rest_s
            self.heartbeat_due_at = now + max(heartbeat_s, rest_s)
        last_index = self._core.journal.last_index
        prompt = self.peers if beat or to_all else self._choose_prompt(now)
        for peer in self.peers:
            if not peer.online:
                continue
            if peer.snapshot is not None:
                self._send_chunk(peer, now)
            elif peer.probing:
                if not peer.awaiting or now - peer.sent_at >= heartbeat_s:
                    self._send_probe(peer, now)
            elif peer in prompt or last_index - peer.match_index > LATER_ENTRIES_MAX:
                while peer.next_index <= last_index and self._send_entries(peer, now):
                    pass
            if beat and now - peer.sent_at > heartbeat_s / 2:
                self._send_heartbeat(peer, now)

    def silence(self, peer: Progress, now: float) -> float:
        """Return for how many seconds the peer has been silent that had reason to speak."""
        return now - max(peer.heard_at, self.awake_since) - self.rest_s

    @property
    def are_all_even(self) -> bool:
        """Return whether all peers that are there have all that this replica has."""
        last_index = self._core.journal.last_index
        return all(
            not peer.probing and peer.snapshot is None and peer.match_index == last_index
            for peer in self.peers
            if peer.online
        )

    @property
    def has_work(self) -> bool:
        """Return whether `send_due` would send something before the next heartbeat."""
        last_index = self._core.journal.last_index
        for peer in self.peers:
            if not peer.online or peer.awaiting:
                continue
            if peer.probing:
                return True
            if peer.next_index <= last_index and (
                peer in self._at_once or last_index - peer.match_index > LATER_ENTRIES_MAX
            ):
                return True
        return False

    # -- who is waited for --------------------------------------------------------------------------

    def _choose_prompt(self, now: float) -> tuple[Progress, ...]:
        """Return the voters that get entries at once: those that got them before, as long as they are
        prompt. All peers are, if there are too few of these."""
        count = self._core.group.majority - 1
        furthest = 0
        for peer in self.voting:
            if peer.match_index > furthest:
                furthest = peer.match_index
        since = now - 2 * self._settings.heartbeat_s
        for peer in self._prompt:
            is_late = peer.heard_at < since or furthest - peer.match_index > LATER_ENTRIES_MAX
            if is_late or not peer.online or peer.probing:
                break
        else:
            if len(self._prompt) == count:
                self._at_once = self._prompt
                return self._prompt
        before_first = sorted(self.voting, key=lambda peer: peer not in self._prompt)
        prompt = [peer for peer in before_first if self._is_prompt(peer, furthest, now)]
        self._prompt = tuple(prompt[:count])
        self._at_once = self._prompt if len(self._prompt) == count else self.peers
        return self._at_once

    def _is_prompt(self, peer: Progress, furthest: int, now: float) -> bool:
        return (
            peer.online
            and not peer.probing
            and furthest - peer.match_index <= LATER_ENTRIES_MAX
            and now - peer.heard_at <= 2 * self._settings.heartbeat_s
        )

    # -- entries ------------------------------------------------------------------------------------

    def _send_append(
        self, peer: Progress, now: float, previous_index: int, entries: tuple[Entry, ...]
    ) -> bool:
        core = self._core
        previous_term = core.journal.term_at(previous_index)
        assert previous_term is not None, "what the log no longer holds goes as a snapshot"
        peer.sent_at = now
        fields = APPEND, core.term, now, core.commit_index, previous_index, previous_term, entries
        message: Append = new_tuple(Append, fields)
        if message == self._last_append:
            message = self._last_append  # peers in step get one message: links pack it once
        self._last_append = message
        return core.send(peer.node, message)

    def _send_entries(self, peer: Progress, now: float) -> bool:
        """Send one message of entries. Return False if the window is full or the link is gone."""
        journal = self._core.journal
        if peer.next_index <= journal.base_index:
            self._begin_snapshot(peer, now)
            return False
        if peer.window and peer.window_bytes >= self._settings.window_bytes_max:
            return False
        if peer.next_index == journal.last_index:
            entries: tuple[Entry, ...] = (journal.entry(peer.next_index),)
            size = len(entries[0][0])
        else:
            entries = tuple(journal.entries_from(peer.next_index, self._settings.batch_bytes))
            size = sum(len(command) for command, _, _ in entries)
        last_index = peer.next_index + len(entries) - 1
        peer.window.append((last_index, size))
        peer.window_bytes += size
        previous_index = peer.next_index - 1
        peer.next_index = last_index + 1
        return self._send_append(peer, now, previous_index, entries)

    def _send_probe(self, peer: Progress, now: float) -> None:
        if peer.next_index <= self._core.journal.base_index:
            self._begin_snapshot(peer, now)
            return
        peer.awaiting = True
        self._send_append(peer, now, peer.next_index - 1, ())

    def _send_heartbeat(self, peer: Progress, now: float) -> None:
        """Send a heartbeat. While a snapshot is under way it names entry 0, on which all logs agree."""
        core = self._core
        if peer.snapshot is not None or peer.next_index <= core.journal.base_index:
            peer.sent_at = now
            message = Append(APPEND, core.term, now, core.commit_index, 0, 0, ())
            core.send(peer.node, message)
        elif self.rest_s:
            self._send_rest(peer, now)
        else:
            self._send_append(peer, now, peer.next_index - 1, ())

    def _send_rest(self, peer: Progress, now: float) -> None:
        core, index = self._core, peer.next_index - 1
        term = core.journal.term_at(index)
        assert term is not None, "the peer holds it: a rest begins when all are even"
        peer.sent_at = now
        core.send(peer.node, Rest(REST, core.term, now, core.commit_index, index, term, self.rest_s))

    # -- snapshots ----------------------------------------------------------------------------------

    def _begin_snapshot(self, peer: Progress, now: float) -> None:
        """Send the peer the snapshot that another one is getting, or else the newest."""
        base_index = self._core.journal.base_index
        others = (other.snapshot for other in self.peers if other.snapshot is not None)
        snapshot = next((other for other in others if other.index >= base_index), None)
        snapshot = snapshot or self._load_snapshot()
        if snapshot is None:
            return
        peer.probe_from(snapshot.index + 1)
        peer.snapshot, peer.offset = snapshot, 0
        self._send_chunk(peer, now)

    def _load_snapshot(self) -> Snapshot | None:
        """Return this replica's own snapshot, which stands for what its log has forgotten. A replica without
        it is of no use and takes no more part."""
        core = self._core
        try:
            snapshot = core.snapshots.load()
        except (SnapshotDamaged, OSError) as error:
            core.fail(str(error))
            return None
        if snapshot is None:
            core.fail(f"the snapshot is gone, and the log begins after entry {core.journal.base_index}")
        return snapshot

    def _send_chunk(self, peer: Progress, now: float) -> None:
        """Send one chunk, if none is under way. A chunk that is not answered is sent again after the longest
        election timeout: on a slow link, to send it with every heartbeat would only make things worse."""
        if peer.awaiting and now - peer.chunk_sent_at < self._settings.election_max_s:
            return
        core, snapshot = self._core, peer.snapshot
        assert snapshot is not None, "only called for a peer that needs one"
        peer.awaiting = True
        peer.sent_at = peer.chunk_sent_at = now
        chunk = Chunk(
            kind=CHUNK,
            term=core.term,
            sent_at=now,
            snapshot_index=snapshot.index,
            snapshot_term=snapshot.term,
            size=len(snapshot.data),
            crc=snapshot.crc,
            members=pack(core.members_of(snapshot)),
            offset=peer.offset,
            data=snapshot.data[peer.offset : peer.offset + self._settings.snapshot_chunk_bytes],
        )
        core.send(peer.node, chunk)
