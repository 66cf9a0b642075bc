"""What the leader of a term knows of one peer: how far its log goes, and what is on its way there."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from storage.raft.contract import NEVER
from storage.raft.skeleton import Node
from storage.raft.snapshot import Snapshot


@dataclass(slots=True, eq=False)
class Progress:
    """The progress of one peer. It is probed (one message at a time: where do our logs agree?), or gets a
    pipeline of entries, or the chunks of a snapshot."""

    node: Node
    online: bool
    next_index: int
    """The index of the first entry that has not been sent."""
    heard_at: float
    match_index: int = 0
    """The index up to which the peer holds our log, durably."""
    matched_at: float = NEVER
    """When the peer was last heard to hold more."""
    has_lost: bool = False
    """Whether the peer lacks what it had acknowledged: somebody emptied its disk and left it its name."""
    echoed_at: float = NEVER
    """Our latest send time that came back over the present connection."""
    probing: bool = True
    awaiting: bool = False
    """Whether a probe or a chunk is under way."""
    sent_at: float = NEVER
    chunk_sent_at: float = NEVER
    online_since: float = NEVER
    window: deque[tuple[int, int]] = field(default_factory=deque)
    """The messages with entries that are not acknowledged: (last index, bytes) of each."""
    window_bytes: int = 0
    snapshot: Snapshot | None = None
    """The snapshot that the peer is getting; None: it gets none."""
    offset: int = 0
    """How many bytes of the snapshot the peer has."""

    def probe_from(self, next_index: int) -> None:
        """Begin again: ask whether the logs agree before `next_index`."""
        self.probing, self.awaiting = True, False
        self.next_index = next_index
        self.window.clear()
        self.window_bytes = 0
        self.snapshot = None

    def matched(self, index: int, now: float) -> None:
        """Note that the peer has acknowledged everything up to `index`."""
        if index > self.match_index:
            self.match_index, self.matched_at = index, now
        while self.window and self.window[0][0] <= index:
            self.window_bytes -= self.window.popleft()[1]

    def probe_matched(self) -> None:
        """Note that the logs agree before `next_index`: what follows is sent as a pipeline."""
        self.probing = self.awaiting = False
        # An acknowledgement of what was sent before the probe may have come in meanwhile.
        self.next_index = max(self.next_index, self.match_index + 1)

    def rejected(self, sent_at: float, previous_index: int, last_index: int, commit_index: int) -> None:
        """Probe lower: the peer's log, which ends at `last_index`, differs from ours at `previous_index`.
        `sent_at` is when we sent what it answers."""
        if last_index < self.match_index and sent_at > self.matched_at:
            self.has_lost = True  # and to probe would find nothing: below what is acknowledged all logs agree
        if self.snapshot is not None or previous_index <= self.match_index:
            return
        if self.probing and previous_index != self.next_index - 1:
            return  # this answers something that was sent before the present probe
        # If the log is too short, its end is tried. If it differs, its committed part is the same as ours.
        agreed = last_index if last_index < previous_index else commit_index
        self.probe_from(max(self.match_index, min(previous_index - 1, agreed)) + 1)
