"""Have a running tier coordinate the groups of the Kafka cluster that it stands in front of, from outside the
tier.

An operator changes the goal, and the controller's leader sees to it. Whoever asked for it may wait for that
here; it goes on without him.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from actors.ground.upstream_goal import ABORTED, ATTACHED, DETACHED, GOAL_NAMES, LEAVING, PAUSED
from actors.upstream.controllers import listed
from actors.upstream.joining import ATTACHED as SERVED
from actors.upstream.joining import WAITING
from actors.upstream.levels import FeatureLevel
from cluster.replica_changes import LOOK_INTERVAL_S, ReplicaChanges
from cluster.tier_file import TierError

NOT_IN_FRONT: Final = (
    "the tier stands in front of no Kafka cluster: start one with `groupd up --upstream HOST:PORT,... "
    "--controllers HOST:PORT,...`"
)
_GOALS: Final = {name: goal for goal, name in GOAL_NAMES.items()}


class Row(NamedTuple):
    """One offsets partition."""

    partition: int
    phase: str
    """A phase of `actors.upstream.joining`."""
    leader: int
    """The broker that leads it upstream, -1 if there is none."""
    records: int
    """How many records its leader in the tier has taken."""
    next_offset: int
    problem: str | None


class Upstream(NamedTuple):
    """The cluster, as the tier was told of it when it was started."""

    cluster_id: str
    brokers: str
    """Addresses, with commas between them."""
    controllers: str
    listeners: tuple[str, ...]
    protocol: str
    """The security protocol of the nodes' listeners."""
    has_authorizer: bool
    """Whether nodes ask for clients' rights."""
    apart: tuple[str, ...] = ()
    """The listeners of the nodes' second ports, at which they speak what brokers do."""


class TakeOverState(NamedTuple):
    """How far the take-over is."""

    upstream: Upstream
    goal: int
    """The goal, one of `actors.ground.upstream_goal`."""
    problem: str | None
    rows: tuple[Row, ...]
    nodes: dict[int, str]
    """Broker id of each node -> what it is to the cluster, in a word."""
    features: tuple[FeatureLevel, ...] = ()
    """The features of the cluster, and which of their levels the tier understands."""

    @property
    def served(self) -> int:
        """Return how many partitions the tier serves."""
        return sum(row.phase == SERVED for row in self.rows)

    @property
    def records(self) -> int:
        return sum(row.records for row in self.rows)

    @property
    def under_way(self) -> tuple[Row, ...]:
        """Return the partitions that are neither here nor there."""
        return tuple(row for row in self.rows if row.phase not in (SERVED, WAITING))

    @property
    def is_over(self) -> bool:
        """Return whether there is nothing left to do for the goal."""
        if self.goal == DETACHED:
            return True
        if self.goal == LEAVING or not self.rows or self.under_way:
            return False  # LEAVING becomes DETACHED by itself
        if self.goal == ABORTED:
            return self.served > 0  # else it becomes DETACHED by itself
        return self.goal == PAUSED or self.served == len(self.rows)

    def in_words(self) -> str:
        """Return how far it is, as one line."""
        taken = f"{self.served} of {len(self.rows)} partitions served, {self.records:,} records taken"
        now = "".join(f"; {row.partition} is {row.phase}" for row in self.under_way[:3])
        problems = [row.problem for row in self.under_way if row.problem] + [self.problem or ""]
        why = next((f" ({each})" for each in problems if each), "")
        return f"{GOAL_NAMES[self.goal]}: {taken}{now}{why}"

    def plain(self) -> dict[str, Any]:
        """Return it as plain values, for --json."""
        return {
            "cluster_id": self.upstream.cluster_id,
            "goal": GOAL_NAMES[self.goal],
            "done": self.is_over,
            "served": self.served,
            "records": self.records,
            "problem": self.problem,
            "nodes": {str(broker_id): word for broker_id, word in self.nodes.items()},
            "features": [each._asdict() for each in self.features],
            "partitions": [row._asdict() for row in self.rows],
        }


def left_s(done: int, total: int, elapsed_s: float) -> float | None:
    """Return how many seconds are left if the rest takes as long as what was done; None if nothing was."""
    return None if not done else (total - done) * elapsed_s / done


class TakeOver(ReplicaChanges):
    """The take-over of a cluster's groups. Every method raises TierError, in words."""

    def state(self) -> TakeOverState:
        found: dict[str, Any] | None = self.controller("upstream_state")
        if found is None:
            raise TierError(NOT_IN_FRONT)
        return TakeOverState(
            Upstream(
                found["cluster_id"],
                listed(found["brokers"]),
                listed(found["controllers"]),
                tuple(found["listeners"]),
                found["protocol"],
                found["has_authorizer"],
                tuple(found.get("apart", ())),
            ),
            _GOALS[found["goal"]],
            found["problem"],
            tuple(Row(**row) for row in found["partitions"]),
            {int(broker_id): word for broker_id, word in found["nodes"].items()},
            tuple(FeatureLevel(*each) for each in found["features"]),
        )

    def want(self, goal: int) -> None:
        """Have the tier pursue a goal."""
        problem = self.controller("set_upstream_goal", goal)
        if problem is not None:
            raise TierError(problem)

    def wait_until_over(self, progress: Callable[[TakeOverState], None]) -> TakeOverState:
        """Wait until there is nothing left to do for the goal, also if that is changed meanwhile. Whatever
        stands in the way, the tier goes on trying."""
        while not (state := self.state()).is_over:
            progress(state)
            time.sleep(LOOK_INTERVAL_S)
        progress(state)
        return state


def begins(state: TakeOverState) -> bool:
    """Return whether an attach begins now; False if it is under way, or done. Raises TierError if another
    command is meant."""
    if state.goal in (PAUSED, ABORTED, LEAVING):
        raise TierError(f"the take-over is {GOAL_NAMES[state.goal]}: `groupd attach resume` goes on with it")
    return state.goal != ATTACHED
