"""What a swarm measured: all figures of a run. `counting` finds them in a history.

PURE.
"""

from __future__ import annotations

from typing import NamedTuple

from bench.swarm.counted.columns import Integers, Spread
from bench.swarm.counted.gaps import Gap
from bench.swarm.counted.histogram import Buckets
from bench.swarm.counted.life import Loss, Rebalance
from bench.swarm.counted.seconds import Seconds
from bench.swarm.counted.wall import Wall
from storage.history.calls import Fault


class ApiFigures(NamedTuple):
    """One kind of request."""

    api: str
    requests: int
    refused: int
    """Answered with an error that is no mere news (REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED)."""
    lost: int
    """Connection closed, or time-out, before an answer."""
    latency: Spread
    """Latency of the requests that were answered and not refused."""
    errors: dict[str, int]
    """How many of each error, by Kafka's name, news included."""
    histogram: Buckets
    """The latencies in buckets."""


class GroupFigures(NamedTuple):
    """One group."""

    group_id: str
    protocol: str
    members: int
    clients: int
    """Lives of members: a restarted one counts again."""
    requests: int
    refused: int
    lost: int
    rebalances: int
    rebalance: Spread
    unsettled: int
    """Rebalances that the next one overtook before any member had settled."""
    stable_ms: float | None
    """Time from the first join until the group was stable; None: it never was."""
    moved: int
    """Partitions that went from one member to another."""
    commits: int
    """OffsetCommits that were acknowledged."""
    commits_s: float
    members_lost: int
    without_coordinator: Spread

    @property
    def badness(self) -> tuple[float, ...]:
        """How bad it is, for "worst first"."""
        never_stable = self.stable_ms is None and self.clients > 0
        waits = self.without_coordinator.max_ms or 0.0
        return waits, self.members_lost, never_stable, self.refused + self.lost, self.rebalance.max_ms or 0.0


class Totals(NamedTuple):
    """Over all groups."""

    duration_s: float
    groups: int
    members: int
    """A restarted one is one member."""
    clients: int
    """Lives of members: a restarted one counts again."""
    requests: int
    requests_s: float
    answered: int
    news: int
    refused: int
    lost: int
    given_up: int
    """Requests that were on their way when their members left or crashed."""
    open: int
    """Still waited for at the end."""
    rebalances: int
    unsettled: int
    rebalancing_mean: float
    """Members in a rebalance at a time: how often and how long in one."""
    moved: int
    commits: int
    commits_s: float
    offsets: int
    """Partitions in these."""
    members_lost: int
    never_stable: int
    """Groups."""
    unserved: int
    """Gaps that lasted until the group's members stopped asking."""


class Figures(NamedTuple):
    """Everything. The rows themselves stay where they are."""

    began_us: int
    ended_us: int
    totals: Totals
    stable: Spread
    """Time to stable at the start, of groups."""
    rebalance: Spread
    """How long rebalances took."""
    without_coordinator: Spread
    """The spread of all gaps of all groups."""
    apis: list[ApiFigures]
    """Most frequent first."""
    errors: dict[str, int]
    groups: list[GroupFigures]
    """Worst first."""
    seconds: Seconds
    rebalances: list[Rebalance]
    gaps: list[Gap]
    losses: list[Loss]
    failed_us: Integers
    """When requests were refused or lost, rising."""
    faults: tuple[Fault, ...]
    wall: Wall
    """What time it was."""
    by_second: Seconds
    """The same as `seconds`, but never in longer steps."""
