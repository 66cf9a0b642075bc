"""What groups report about themselves: a rebalance must explain itself, afterwards too.

Values for history and metrics; nothing decides on them. A steady heartbeat makes none. What has a `kind` is a
row of history, its fields named as the columns of `storage.history.schema`; the rest is for the log alone.
What only consumer groups report is in `consumer_events`.
"""

from typing import Any, NamedTuple

from storage.history.schema import Move

CLASSIC = "classic"
CONSUMER = "consumer"


class MemberJoined(NamedTuple):
    """A member was taken in; of a classic group it waits for its first generation."""

    at_ms: int
    group_id: str
    group_type: str
    group_epoch: int
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    reason: str | None = None
    """The client's own words (KIP-800), cut to 255 characters (C24), here and below."""
    members: int | None = None
    """How many members the group has, this one included."""
    client_software: str | None = None
    """Name and version of the client's library (KIP-511); None: it has not said."""
    session_timeout_ms: int | None = None
    """The member's own; of one that heartbeats by KIP-848 what is in force for its group (A19)."""

    @property
    def kind(self) -> str:
        return "member_joined"


class _MemberGone(NamedTuple):
    """A member, or a member id handed out and not yet used, is gone."""

    at_ms: int
    group_id: str
    group_type: str
    group_epoch: int
    member_id: str
    group_instance_id: str | None
    client_id: str | None
    """The client's id; None if the member id was never used."""
    client_host: str | None
    member_epoch: int | None
    """The member's epoch; None in a classic group."""
    cause: str
    rule: str | None
    reason: str | None
    members: int
    """How many members the group has without it."""


class MemberLeft(_MemberGone):
    """A member left of its own will, or because an administrator said so."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        return "member_left"


class MemberExpired(_MemberGone):
    """A member is out because a timeout passed."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        return "member_expired"


class MemberFenced(_MemberGone):
    """A member is out because another took its place, or there was none for it."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        return "member_fenced"


class StateChanged(NamedTuple):
    """A classic group went from state to state."""

    at_ms: int
    group_id: str
    group_type: str
    group_epoch: int
    previous_state: str
    state: str
    members: int

    @property
    def kind(self) -> str:
        return "state_changed"


class RebalanceBegan(NamedTuple):
    """A classic group went to PreparingRebalance; the epoch of a consumer group rose."""

    at_ms: int
    group_id: str
    group_type: str
    group_epoch: int
    """The generation of a classic group that ends, or the new epoch of a consumer group."""
    cause: str
    rule: str | None
    member_id: str | None
    """The member that caused it, if one member did."""
    client_id: str | None
    client_host: str | None
    reason: str | None
    members: int

    @property
    def kind(self) -> str:
        return "rebalance_began"


class RebalanceEnded(NamedTuple):
    """A classic group became Stable (its leader synced) or Empty. All members of a consumer group have what
    the target gives them; or its epoch rose again before they had."""

    at_ms: int
    group_id: str
    group_type: str
    group_epoch: int
    state: str
    cause: str
    """Why it began at first; the next three belong to it."""
    rule: str | None
    member_id: str | None
    reason: str | None
    duration_ms: int
    joining_ms: int | None
    syncing_ms: int | None
    revoking_ms: int | None
    members: int
    partitions: int | None
    """How many partitions are assigned; None, as `moved`: too many to compare, or nobody can read them."""
    moved: int | None
    moves: tuple[Move, ...] | None
    waited_for: tuple[str, ...] | None
    assignor: str | None

    @property
    def kind(self) -> str:
        return "rebalance_ended"


class RebalanceFailed(NamedTuple):
    """A rebalance of a push group was tried as often as it may be: it is tried again with the next change, or
    when the longest session has passed (D13)."""

    at_ms: int
    group_id: str
    group_type: str
    group_epoch: int
    cause: str
    rule: str
    members: int
    state: str

    @property
    def kind(self) -> str:
        return "rebalance_failed"


class CommitRegressed(NamedTuple):
    """A committed offset went back."""

    at_ms: int
    group_id: str
    member_id: str | None
    topic: str
    partition: int
    committed_offset: int
    end_offset: int
    """The offset that was committed before."""

    @property
    def kind(self) -> str:
        return "commit_regressed"


class Commits(NamedTuple):
    """What a group committed since the last of these."""

    at_ms: int
    group_id: str
    first_ms: int
    last_ms: int
    commits: int
    offsets: int
    regressed: int

    @property
    def kind(self) -> str:
        return "commits"


class OffsetsExpired(NamedTuple):
    """Offsets were past their retention."""

    at_ms: int
    group_id: str
    rule: str
    count: int  # type: ignore[assignment]  # the column's name, and a tuple's method

    @property
    def kind(self) -> str:
        return "offsets_expired"


class OffsetsExpiring(NamedTuple):
    """Offsets will be past their retention before long: told once, about a day ahead."""

    at_ms: int
    group_id: str
    rule: str
    count: int  # type: ignore[assignment]  # the column's name, and a tuple's method
    first_ms: int
    """When the first of them expires."""
    last_ms: int

    @property
    def kind(self) -> str:
        return "offsets_expiring"


class OffsetsDeleted(NamedTuple):
    """Offsets were deleted on request, or with their topic."""

    at_ms: int
    group_id: str
    cause: str
    count: int  # type: ignore[assignment]  # the column's name, and a tuple's method

    @property
    def kind(self) -> str:
        return "offsets_deleted"


class GroupDeleted(NamedTuple):
    """A group is gone."""

    at_ms: int
    group_id: str
    cause: str
    rule: str

    @property
    def kind(self) -> str:
        return "group_deleted"


class RebalanceDelayed(NamedTuple):
    """A classic group stays Stable for a while and waits for more joins and leaves (`batching`)."""

    at_ms: int
    group_id: str
    group_type: str
    group_epoch: int
    cause: str
    """Why the first of them came; the next five belong to it."""
    rule: str | None
    member_id: str | None
    client_id: str | None
    client_host: str | None
    reason: str | None
    duration_ms: int
    """The longest that it waits: another cause of a rebalance takes this one along."""
    members: int

    @property
    def kind(self) -> str:
        return "rebalance_delayed"


def line(event: Any) -> str:
    """The event in one line of a log: without what is null, and without lists that may be long."""
    named = zip(event._fields, event, strict=True)
    told = [f"{name}={value}" for name, value in named if value is not None and name != "moves"]
    return " ".join([type(event).__name__, *told])
