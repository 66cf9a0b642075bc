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
    """The figures of one kind of request."""

    api: str
    requests: int
    refused: int
    """How many requests were answered with an error that is no mere news (REBALANCE_IN_PROGRESS,
    MEMBER_ID_REQUIRED)."""
    lost: int
    """How many requests had no answer before the connection ended or the time-out came."""
    latency: Spread
    """The latency of the requests that were answered and not refused."""
    errors: dict[str, int]
    """How many requests were answered with each error, by Kafka's name, news included."""
    histogram: Buckets
    """The latencies in buckets."""


class GroupFigures(NamedTuple):
    """The figures of one group."""

    group_id: str
    protocol: str
    members: int
    clients: int
    """How many lives the members had: a restarted member counts again."""
    requests: int
    refused: int
    lost: int
    rebalances: int
    rebalance: Spread
    unsettled: int
    """How many rebalances the next one overtook before any member had settled."""
    stable_ms: float | None
    """The time from the first join until the group was stable; None: it never was."""
    moved: int
    """How many partitions went from one member to another."""
    commits: int
    """How many OffsetCommits were acknowledged."""
    commits_s: float
    members_lost: int
    without_coordinator: Spread

    @property
    def badness(self) -> tuple[float, ...]:
        """A key that sorts groups by how badly they were served."""
        never_stable = self.stable_ms is None and self.clients > 0
        waits = self.without_coordinator.max_ms or 0.0
        return waits, self.members_lost, never_stable, self.refused + self.lost, self.rebalance.max_ms or 0.0


class Totals(NamedTuple):
    """The figures of all groups together."""

    duration_s: float
    groups: int
    members: int
    """How many members there were; a restarted one counts once."""
    clients: int
    """How many lives the members had: a restarted member counts again."""
    requests: int
    requests_s: float
    answered: int
    news: int
    refused: int
    lost: int
    given_up: int
    """How many requests were under way when their members left or crashed."""
    open: int
    """How many requests still waited for their answer at the end."""
    rebalances: int
    unsettled: int
    rebalancing_mean: float
    """How many members were in a rebalance at a time, on average: it says how often, and how long, they were
    in one."""
    moved: int
    commits: int
    commits_s: float
    offsets: int
    """How many partitions were in the acknowledged OffsetCommits."""
    members_lost: int
    never_stable: int
    """How many groups were never stable."""
    unserved: int
    """How many gaps lasted until the group's members stopped asking."""


class Figures(NamedTuple):
    """All figures of a run. The rows themselves stay where they are."""

    began_us: int
    ended_us: int
    totals: Totals
    stable: Spread
    """How long groups took to be stable at the start."""
    rebalance: Spread
    """How long rebalances took."""
    without_coordinator: Spread
    """The spread of all gaps of all groups."""
    apis: list[ApiFigures]
    """The figures of each API, the most frequent one first."""
    errors: dict[str, int]
    groups: list[GroupFigures]
    """The figures of each group, the worst served one first."""
    seconds: Seconds
    rebalances: list[Rebalance]
    gaps: list[Gap]
    losses: list[Loss]
    failed_us: Integers
    """The times at which requests were refused or lost, in rising order."""
    faults: tuple[Fault, ...]
    wall: Wall
    """The wall clock of the run."""
    by_second: Seconds
    """What happened in each second, never in longer steps."""
