"""Call the leader of a Raft group of a running tier, from outside the tier."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from actors import runtime
from actors.ground.spec import CONTROLLER_GROUP, TierSpec
from actors.runtime import ActorCallError
from cluster.actor_plan import ActorPlan, actors_of
from cluster.repair import leader_of
from cluster.tier import Status, gather_status
from cluster.tier_file import TierError, hint

LEADER_WAIT_S = 10.0
"""How long, in seconds, a leader is waited for: longer than any election, so that a group without one has
lost its majority."""
LOOK_INTERVAL_S = 0.1

T = TypeVar("T")


class NotNow(Exception):
    """Raised if the actor called cannot do it at the moment; the text says why. To ask the leader again may
    help."""


class GroupLeaders:
    """The leaders of a tier's Raft groups, found by asking and remembered."""

    def __init__(self, spec: TierSpec) -> None:
        self.spec = spec
        self.plans: dict[str, list[ActorPlan]] = {}
        """Raft group -> its replicas, preferred leader first."""
        for plan in actors_of(spec):
            if plan.group is not None:
                self.plans.setdefault(plan.group, []).append(plan)
        self._handles: dict[str, runtime.Handle] = {}
        self._status = hint("status", Path(spec.data_dir))

    def ask(self, group: str, what: Callable[[runtime.Handle], T]) -> T:
        """Return what `what` brings from the leader of `group`. A new leader is asked, if need be, as long as
        that may help. Raises TierError."""
        deadline = time.monotonic() + LEADER_WAIT_S
        while True:
            try:
                return what(self._leader(group))
            except (NotNow, ActorCallError, TimeoutError) as error:
                self._handles.pop(group, None)
                if time.monotonic() > deadline:
                    raise TierError(f"{_words(group)}: {error}; {self._status} shows more") from None
            time.sleep(LOOK_INTERVAL_S)

    def statuses(self, group: str) -> dict[str, Status]:
        """Return what the replicas of a group say, by actor name."""
        return gather_status(self.spec.namespace, [plan.name for plan in self.plans[group]])

    def leading(self, group: str, statuses: Mapping[str, Status]) -> ActorPlan | None:
        """Return the replica of a group that serves, by what they say (by actor name); None if none does."""
        plans = self.plans[group]
        leader = leader_of(statuses[plan.name] for plan in plans)
        return next((plan for plan in plans if statuses[plan.name] is leader), None)

    def _leader(self, group: str) -> runtime.Handle:
        if group not in self._handles:
            plan = self.leading(group, self.statuses(group))
            handle = None if plan is None else runtime.find(plan.name, self.spec.namespace)
            if handle is None:
                raise NotNow("no replica leads")
            self._handles[group] = handle
        return self._handles[group]


def _words(group: str) -> str:
    return "the controller" if group == CONTROLLER_GROUP else group.replace("-", " ")
