"""What a made-up history is to hold, and the answers that jobs must find in it."""

from __future__ import annotations

import datetime as dt
from typing import Final, NamedTuple

DAY_MS: Final = 86_400_000
FIRST_DATE: Final = dt.date(2026, 3, 2)
"""First day of histories unless told otherwise: some Monday."""


class Spec(NamedTuple):
    """Groups that are planted something come first: storms, then flapping, slow and so on; the last is the
    hot one. Every second group is a consumer group (KIP-848)."""

    seed: int
    events: int
    """About so many: commits and lag samples fill up what the groups' lives leave."""
    days: int = 7
    groups: int = 40
    members: int = 8
    """Members of each group."""
    partitions_each: int = 3
    """Partitions of the group's topic that each member owns."""
    restarts_per_day: int = 24
    """Restarts in each group: a member goes, and comes back some seconds later. Divides a day."""
    offsets_partitions: int = 8
    nodes: int = 3
    failovers_per_day: int = 1
    """Failovers of each offsets partition."""
    storms: int = 2
    flapping: int = 2
    slow: int = 2
    double_owned: int = 2
    epochs_fallen: int = 1
    regressed: int = 3
    expiring: int = 2
    """Groups of which an offset is about to expire, and a day later does."""
    hot_share: float = 0.3
    """The hot group's share of all commits and lag samples."""
    hot_restarts: int = 1
    """How many times the others' restarts the hot group has; at most 20, or one would follow on another."""
    first_date: dt.date = FIRST_DATE

    @property
    def first_ms(self) -> int:
        return int(dt.datetime.combine(self.first_date, dt.time(), dt.UTC).timestamp() * 1_000)

    def date(self, at_ms: int) -> dt.date:
        return self.first_date + dt.timedelta(milliseconds=at_ms - self.first_ms)


class Storm(NamedTuple):
    """Rebalances that follow each other within seconds."""

    group_id: str
    began_ms: int
    ended_ms: int
    rebalances: int
    origin_member: str
    cause: str


class Client(NamedTuple):
    """One consumer over all its lives."""

    group_id: str
    client_id: str
    client_host: str


class DoubleOwnership(NamedTuple):
    """Two members had one partition at the same time."""

    group_id: str
    topic: str
    partition: int
    members: tuple[str, str]
    """The two members that owned the partition at once, the earlier owner first."""
    from_ms: int
    to_ms: int


class Regressed(NamedTuple):
    """A commit that went back."""

    group_id: str
    at_ms: int
    topic: str
    partition: int
    member_id: str
    before: int
    committed_offset: int


class FallenEpoch(NamedTuple):
    """A group's epoch that went back."""

    group_id: str
    at_ms: int
    before: int
    after: int


class Expiring(NamedTuple):
    """Offsets that were told to expire."""

    group_id: str
    at_ms: int
    offsets: int
    expires_ms: int


class Answers(NamedTuple):
    """What the jobs must find in a made-up history, no more and no less."""

    rebalances: dict[str, int]
    """The number of rebalances of each group."""
    storms: tuple[Storm, ...]
    flapping: tuple[Client, ...]
    slow: tuple[Client, ...]
    double_owned: tuple[DoubleOwnership, ...]
    regressed: tuple[Regressed, ...]
    fallen: tuple[FallenEpoch, ...]
    hot_group: str
    expiring: tuple[Expiring, ...]
