"""What a consumer group tells about itself: why an epoch rose, who was removed, what was assigned.

Values for the event journal; never made on the path of a steady heartbeat.
"""

from __future__ import annotations

from typing import NamedTuple

CAUSE_MEMBER_JOINED = "member joined"
CAUSE_SUBSCRIPTION_CHANGED = "subscription changed"
CAUSE_METADATA_CHANGED = "topic metadata changed"
CAUSE_REGEX_RESOLVED = "regular expression resolved"
CAUSE_MEMBER_LEFT = "member left"
CAUSE_SESSION_TIMEOUT = "session timeout"
CAUSE_REBALANCE_TIMEOUT = "rebalance timeout"


class EpochBumped(NamedTuple):
    """The group epoch rose: a new target assignment is due."""

    group_id: str
    group_epoch: int
    cause: str
    member_id: str
    """The member whose heartbeat, leave or timeout it was."""
    now_ms: int


class MemberFenced(NamedTuple):
    """A member was removed: it left, or a timeout passed."""

    group_id: str
    member_id: str
    member_epoch: int
    cause: str
    now_ms: int


class AssignmentDelayed(NamedTuple):
    """The group epoch rose, and members keep the target they have for a while (M8)."""

    group_id: str
    group_epoch: int
    interval_ms: int
    """Between two targets: as configured, or longer in a storm of joins and leaves (`batching`)."""
    now_ms: int


class AssignmentComputed(NamedTuple):
    """A new target assignment stands."""

    group_id: str
    assignment_epoch: int
    assignor: str
    members: int
    changed_members: int
    now_ms: int
