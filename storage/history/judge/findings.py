"""What a rule reports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from storage.history.calls import Call

ERRORS_OF_MOVING: Final = frozenset({7, 14, 15, 16})
"""REQUEST_TIMED_OUT, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR: whoever
answers so may have lost leadership with the request half done."""
FENCED: Final = frozenset({25, 82, 110})
"""The errors that tell a member that it is none: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, FENCED_MEMBER_EPOCH.
"""

MEMBERSHIP: Final = frozenset({"JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "ConsumerGroupHeartbeat"})
"""The APIs that are called by members of groups, and by clients that want to be members."""

LEAST_ANSWERED: Final = 0.5


class Violation(NamedTuple):
    """A promise that was broken."""

    rule: str
    """The rule that was broken, such as "commit lost"."""
    group_id: str
    text: str
    """A sentence that says who did what and when, so that the calls can be found."""


class Limits(NamedTuple):
    """What the judge allows for."""

    clock_skew_us: int = 0
    """How far the clocks of two of the history's machines may differ."""
    answer_ms: int = 30_000
    """request.timeout.ms of Kafka's clients. Some give a heartbeat up sooner: then nobody may say that it
    would never have been answered."""
    grace_ms: int = 2_000
    """A call may end so much after its time-out before it counts as never answered: the client was slow."""
    loading_grace_ms: int = 5_000
    """The time after a fault in which a group that loads answers heartbeats as if all were well (W4)."""
    recovery_ms: int = 15_000
    """The time after the last fault, join or leave within which every group has to be stable."""
    outage_ms: int = 20_000
    """A group that was without service for longer when the history ends is out of service."""
    held_ms: int = 6_000
    """An answer may be held so long, as a heartbeat's is: until then a request without one is no outage."""
    least_answered: float = LEAST_ANSWERED
    """Share of the planned requests, or of the acknowledged commits, below which too little was seen."""


KEPT: Final = "kept"
BROKEN: Final = "broken"
NOT_SHOWN: Final = "not shown"
"""What was not observed is not shown, which is not the same as kept."""


class Promise(NamedTuple):
    """One promise of a coordinator, and what became of it."""

    name: str
    """The promise's name, such as "commits"."""
    says: str
    """The promise, as a sentence."""
    status: str
    """KEPT, BROKEN or NOT_SHOWN."""
    because: str
    """What was looked at, how it was broken, or why it was not shown."""
    is_required: bool = True
    """While it is not shown, the whole verdict is not kept."""


class Findings(NamedTuple):
    """The findings of one rule."""

    violations: list[Violation]
    judged: dict[str, int]
    """How many were judged, by what was looked at ("reads")."""
    seen: str = ""
    """The same in words; for the reader of a promise that was kept."""
    unseen: str = ""
    """Why the promise is not shown by what was looked at; empty: it is."""
    is_required: bool = True
    """Whether the history has anything that the promise is about."""


def has_members(calls: Iterable[Call]) -> bool:
    """Whether anybody asked to be a member of a group."""
    return any(call.api in MEMBERSHIP for call in calls)


def leaves(call: Call) -> bool:
    """Whether whoever sends it is no member any more."""
    return call.api == "LeaveGroup" or (call.api == "ConsumerGroupHeartbeat" and call.epoch < 0)


def when(time_us: int) -> str:
    """Seconds of the history's clock."""
    return f"{time_us / 1e6:.6f} s"


def story(call: Call) -> str:
    """One call in a line."""
    ended = call.outcome if call.ended_us < 0 else f"{call.outcome} {when(call.ended_us)}"
    why = f": {call.detail}" if call.detail else ""
    return (
        f"{call.api} of {call.client} (member {call.member_id or 'none'}, epoch {call.epoch}, connection "
        f"{call.connection or 'none'}, correlation id {call.correlation_id}), sent {when(call.sent_us)}, "
        f"{ended}, error {call.error_code}{why}"
    )
