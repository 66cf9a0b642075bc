"""What a host and Raft promise each other: the settings of a replica, and the state machine that it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

MIB: Final = 1024 * 1024
NEVER: Final = float("-inf")
"""The time of an event that has not happened yet."""


class SnapshotBuild(Protocol):
    """A snapshot in the making, of the state at the moment it was begun, whatever is applied meanwhile."""

    def step(self) -> bytes | None:
        """Do some milliseconds of the work. Return the whole snapshot once it is complete, which ends the
        build."""


class StateMachine(Protocol):
    """The state that is replicated. It is synchronous and total: whatever is raised in it ends the replica
    (RaftFatal)."""

    def apply(self, index: int, term: int, command: bytes) -> None:
        """Apply one committed command. This is called in order, on every replica, the leader included."""

    def begin_snapshot(self) -> SnapshotBuild:
        """Begin a snapshot of the whole state after the last applied command. There is one build at a time:
        a new one, or `restore`, abandons it, and it must not be stepped any more."""

    def restore(self, data: bytes) -> None:
        """Replace the state with what a build gave, perhaps on another replica."""

    def on_leading(self, term: int) -> None:
        """Begin to lead: this replica was elected, and everything committed before has been applied."""

    def on_fallen(self) -> None:
        """Stop leading, whether or not `on_leading` was called; no entry of another leader has been applied
        yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftConfig:
    """The settings of a replica. Times are in seconds, sizes in bytes."""

    heartbeat_s: float = 0.05
    election_min_s: float = 0.25
    election_max_s: float = 0.5
    """The longest election timeout, and how much longer than usual a leader is silent that rests."""
    rest_after_s: float = 30.0
    """How long nobody may have asked a leader for anything, so that it rests: its clients' heartbeats come
    more often. inf: it never does."""
    batch_bytes: int = MIB
    """The most bytes of commands in one message; a bigger command travels alone."""
    window_bytes_max: int = 8 * MIB
    """The most bytes that are sent to one peer and not yet acknowledged."""
    entry_bytes_max: int = 32 * MIB
    pending_bytes_max: int = 64 * MIB
    """The most bytes that are proposed and not yet applied; beyond it `propose` raises Busy."""
    snapshot_journal_bytes_min: int = 16 * MIB
    """The journal's size that is worth a snapshot: one is taken when the journal holds more than this and
    than twice the last snapshot."""
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
