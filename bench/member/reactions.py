"""What a client does about each error code: as Kafka's own clients do. PURE."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final


class Reaction(Enum):
    """What comes next."""

    FINE = auto()
    AGAIN = auto()
    """The same once more, after a pause."""
    FIND = auto()
    """The coordinator is somewhere else: find it, then the same once more."""
    REJOIN = auto()
    """A rebalance: the member joins again with what it has."""
    LOST = auto()
    """It is no longer a member as it was: what it owns is lost, and it joins anew."""
    STALE = auto()
    """The same, but it keeps its member id."""
    UNNAMED = auto()
    """It was given a member id to join with (KIP-394)."""
    HELD_BY_ANOTHER = auto()
    """The predecessor still has the instance id: a client ends, and whoever runs it starts it again."""
    GIVE_UP = auto()
    """A client's error that its application is told of, and ends."""


_MOVED: Final = {
    -1: Reaction.AGAIN,  # UNKNOWN_SERVER_ERROR
    0: Reaction.FINE,
    7: Reaction.AGAIN,  # REQUEST_TIMED_OUT
    14: Reaction.AGAIN,  # COORDINATOR_LOAD_IN_PROGRESS
    15: Reaction.FIND,  # COORDINATOR_NOT_AVAILABLE
    16: Reaction.FIND,  # NOT_COORDINATOR
}
CLASSIC_REACTIONS: Final = {
    **_MOVED,
    22: Reaction.STALE,  # ILLEGAL_GENERATION
    25: Reaction.LOST,  # UNKNOWN_MEMBER_ID
    27: Reaction.REJOIN,  # REBALANCE_IN_PROGRESS
    79: Reaction.UNNAMED,  # MEMBER_ID_REQUIRED
}
CONSUMER_REACTIONS: Final = {
    **_MOVED,
    25: Reaction.LOST,  # UNKNOWN_MEMBER_ID
    110: Reaction.LOST,  # FENCED_MEMBER_EPOCH
    111: Reaction.HELD_BY_ANOTHER,  # UNRELEASED_INSTANCE_ID
}
COMMIT_LATER: Final = frozenset({3, 22, 25, 27, 88, 113})
"""Errors of OffsetCommit and OffsetFetch that the next heartbeat explains or the next try mends:
UNKNOWN_TOPIC_OR_PARTITION, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS,
UNSTABLE_OFFSET_COMMIT, STALE_MEMBER_EPOCH."""
