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
    """When the last member had settled; NEVER: the next rebalance came before any member had."""

    @property
    def length_us(self) -> int | None:
        return None if self.settled_us == NEVER else self.settled_us - self.began_us


class Loss(NamedTuple):
    """A member was told that it is a member no longer."""

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
    """The life of one group in a run."""

    group_id: str
    protocol: str
    members: int
    """How many members the group had; a restarted one counts once."""
    clients: int
    """How many lives its members had; a restarted member counts again."""
    rebalances: list[Rebalance]
    stable_us: int | None
    """The end of the group's start (see `start`), counted from the first join; None: it never came to
    rest."""
    moved_us: list[int]
    """When a member was told to own a partition that another one owned before: one entry for each."""
    rests_us: list[int]
    """The times at which all members had settled, and at which one no longer had, in turn."""

    @property
    def moved(self) -> int:
        return len(self.moved_us)


def member_of(client: str) -> str:
    """The member whose life a client is: "orders-3/12" for "orders-3/12#2"."""
    member, mark, life = client.rpartition("#")
    return member if mark and life.isdigit() else client
