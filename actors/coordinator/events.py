"""What groups report about themselves: a rebalance must explain itself, afterwards too.

Values for history and metrics only; nothing decides on them. A steady heartbeat makes none.
"""

from __future__ import annotations

from typing import NamedTuple


class RebalanceBegan(NamedTuple):
    """A classic group went to PreparingRebalance."""

    group_id: str
    generation: int
    """The one that ends."""
    cause: str
    member_id: str | None
    """Whose doing it was, where it was one member's."""
    reason: str | None
    """The client's own words (KIP-800), cut to 255 characters (C24)."""
    now_ms: int


class RebalanceDelayed(NamedTuple):
    """A classic group stays Stable for a while and waits for more joins and leaves (`batching`)."""

    group_id: str
    generation: int
    cause: str
    """Of the first of them."""
    member_id: str | None
    reason: str | None
    """As of RebalanceBegan."""
    delay_ms: int
    """At most: another cause of a rebalance takes this one along."""
    now_ms: int


class RebalanceEnded(NamedTuple):
    """A classic group became Stable (its leader synced) or Empty (`members` is 0)."""

    group_id: str
    generation: int
    members: int
    duration_ms: int
    """From the first RebalanceBegan after the group was last Stable or Empty."""
    now_ms: int


class MemberRemoved(NamedTuple):
    """A member, or a member id handed out and not yet used, is gone from a classic group."""

    group_id: str
    member_id: str
    cause: str
    reason: str | None
    now_ms: int
