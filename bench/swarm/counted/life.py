"""What a history says of members and groups: rebalances, memberships lost, how members changed.

PURE. A rebalance is a classic generation or a KIP-848 epoch that somebody learned of. It lasts from its first
sign (a member that joins or leaves, or hears that it must rejoin or of a new epoch) to the last member's
settled answer: a SyncGroup; a ConsumerGroupHeartbeat that tells the epoch or more partitions at it.
"""

from __future__ import annotations

from typing import NamedTuple

from storage.history.calls import NEVER

OUT, REBALANCING, SETTLED = range(3)


class Rebalance(NamedTuple):
    """One generation or epoch of one group."""

    group_id: str
    epoch: int
    began_us: int
    settled_us: int
    """NEVER: the next one came before anybody had settled."""

    @property
    def length_us(self) -> int | None:
        return None if self.settled_us == NEVER else self.settled_us - self.began_us


class Loss(NamedTuple):
    """A member heard that it is one no longer."""

    group_id: str
    client: str
    at_us: int
    error_code: int


class Move(NamedTuple):
    """A member became another `state` (OUT, REBALANCING, SETTLED)."""

    at_us: int
    before: int
    state: int


class GroupLife(NamedTuple):
    """What one group went through."""

    group_id: str
    protocol: str
    members: int
    """A restarted one is one member."""
    clients: int
    """Lives of members: a restarted one counts again."""
    rebalances: list[Rebalance]
    stable_us: int | None
    """The end of the group's start (see `start`), counted from the first join; None: it never came to
    rest."""
    moved_us: list[int]
    """When a partition was told to be a member's that another one owned before: an entry for each."""
    rests_us: list[int]
    """When all of its members had settled, and when one no longer had, in turn."""

    @property
    def moved(self) -> int:
        return len(self.moved_us)


def member_of(client: str) -> str:
    """Whose life a client is: "orders-3/12" of "orders-3/12#2"."""
    member, mark, life = client.rpartition("#")
    return member if mark and life.isdigit() else client
