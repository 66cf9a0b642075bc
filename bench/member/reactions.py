"""The reactions of clients to error codes, as Kafka's own clients have them. PURE."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final


class Reaction(Enum):
    """What a client does after an answer."""

    FINE = auto()
    AGAIN = auto()
    """It sends the same request once more, after a pause."""
    FIND = auto()
    """It looks up the coordinator, which is another broker now, and sends the same request once more."""
    REJOIN = auto()
    """It joins again with the partitions that it has, for there is a rebalance."""
    LOST = auto()
    """It loses its membership and its partitions, and joins anew."""
    STALE = auto()
    """It loses its membership and its partitions, and joins anew with its member id."""
    UNNAMED = auto()
    """It joins again with the member id that it was given (KIP-394)."""
    HELD_BY_ANOTHER = auto()
    """It ends and is started again by its operator: another member still has the instance id."""
    GIVE_UP = auto()
    """It tells its application the error, and ends."""


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
