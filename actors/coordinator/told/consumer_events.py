"""What a consumer group tells about itself: why an epoch rose, who was removed, what was assigned.

What every kind of group reports is in `events`. No event is made on the path of a steady heartbeat.
"""

from typing import Final, NamedTuple

from actors.coordinator.told.events import CommitRegressed, MemberJoined, StateChanged
from storage.history.schema import Move

CAUSE_MEMBER_JOINED = "member joined"
CAUSE_SUBSCRIPTION_CHANGED = "subscription changed"
CAUSE_ASSIGNOR_CHANGED = "assignor changed"
CAUSE_CLIENT_ASSIGNOR = "a member's assignor asks for an assignment"
CAUSE_METADATA_CHANGED = "topic metadata changed"
CAUSE_REGEX_RESOLVED = "regular expression resolved"
CAUSE_MEMBER_LEFT = "member left"
CAUSE_SESSION_TIMEOUT = "session timeout"
CAUSE_REBALANCE_TIMEOUT = "rebalance timeout"
CAUSE_UNDER_WAY = "under way when this leader took over"

RULES = {
    CAUSE_MEMBER_JOINED: "M6",
    CAUSE_SUBSCRIPTION_CHANGED: "M6",
    CAUSE_ASSIGNOR_CHANGED: "M5",
    CAUSE_CLIENT_ASSIGNOR: "A4",
    CAUSE_METADATA_CHANGED: "M6",
    CAUSE_REGEX_RESOLVED: "M24",
    CAUSE_MEMBER_LEFT: "M19",
    CAUSE_SESSION_TIMEOUT: "M17",
    CAUSE_REBALANCE_TIMEOUT: "M16",
    CAUSE_UNDER_WAY: "M26",
}
"""The rule that decides so, by cause."""


class EpochBumped(NamedTuple):
    """The group epoch rose: a new target assignment is due."""

    at_ms: int
    group_id: str
    group_type: str
    group_epoch: int
    cause: str
    rule: str | None
    member_id: str
    """The member whose heartbeat, leave or timeout it was."""
    members: int

    @property
    def kind(self) -> str:
        return "group_epoch_bumped"


class MemberReconciled(NamedTuple):
    """A member has what the target gives it."""

    at_ms: int
    group_id: str
    group_type: str
    group_epoch: int
    member_id: str
    member_epoch: int

    @property
    def kind(self) -> str:
        return "member_reconciled"


class AssignmentDelayed(NamedTuple):
    """The group epoch rose, and members keep the target they have for a while (M8)."""

    group_id: str
    group_epoch: int
    interval_ms: int
    """The time between two targets: as configured, or longer in a storm of joins and leaves (`batching`)."""
    now_ms: int


class AssignmentComputed(NamedTuple):
    """A group has a new target assignment."""

    at_ms: int
    group_id: str
    group_type: str
    group_epoch: int
    assignment_epoch: int
    assignor: str
    duration_us: int | None
    """How long the assignor took; None for a plug-in, which worked elsewhere."""
    members: int
    partitions: int
    """How many partitions the assigned topics have."""
    moved: int | None = None
    """How many partitions have another owner; None, as the next field: too many to compare."""
    moves: tuple[Move, ...] | None = None
    member_id: str | None = None
    """The member that ran the assignor; None: the tier ran it."""

    @property
    def kind(self) -> str:
        return "assigned"


class AssignmentRefused(NamedTuple):
    """A member that was asked to compute the target brought none, or a wrong one."""

    at_ms: int
    group_id: str
    group_type: str
    group_epoch: int
    member_id: str | None
    """The member that was asked; None: all have been, and the server's assignor runs."""
    cause: str
    rule: str
    assignor: str
    duration_ms: int | None
    """How long the member had been at it."""

    @property
    def kind(self) -> str:
        return "assignment_refused"


UNLOGGED: Final = frozenset({MemberJoined, MemberReconciled, CommitRegressed, StateChanged})
"""Events that no log line tells: there are many, and others say what they lead to. History has them."""
QUIET: Final = frozenset({MemberJoined, MemberReconciled, CommitRegressed})
"""Events that are no news to other members: records or other events tell them what changes for them."""
