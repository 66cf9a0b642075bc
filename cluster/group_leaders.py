"""Call the leader of a Raft group of a running tier, from outside the tier."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from actors import runtime
from actors.ground.spec import CONTROLLER_GROUP, TierSpec
from actors.runtime import ActorCallError
from cluster.repair import leader_of
from cluster.tier import Status, gather_status
from cluster.tier_actors import TierActor, actors_of
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
        self.actors: dict[str, list[TierActor]] = {}
        """Raft group -> its replicas, preferred leader first."""
        for actor in actors_of(spec):
            if actor.group is not None:
                self.actors.setdefault(actor.group, []).append(actor)
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

    def refuse_in_a_split(self, what: str) -> None:
        """Raise TierError while partitions are being split: groups are in two places then."""
        if self.spec.undropped:
            raise TierError(
                f"{what} has to wait: the offsets partitions are being split (`groupd partitions list` shows "
                "how far that is)"
            )

    def statuses(self, group: str) -> dict[str, Status]:
        """Return what the replicas of a group say, by actor name."""
        return gather_status(self.spec.namespace, [actor.name for actor in self.actors[group]])

    def leading(self, group: str, statuses: Mapping[str, Status]) -> TierActor | None:
        """Return the replica of a group that serves, by what they say (by actor name); None if none does."""
        actors = self.actors[group]
        leader = leader_of(statuses[actor.name] for actor in actors)
        return next((actor for actor in actors if statuses[actor.name] is leader), None)

    def _leader(self, group: str) -> runtime.Handle:
        if group not in self._handles:
            actor = self.leading(group, self.statuses(group))
            handle = None if actor is None else runtime.find(actor.name, self.spec.namespace)
            if handle is None:
                raise NotNow("no replica leads")
            self._handles[group] = handle
        return self._handles[group]


def _words(group: str) -> str:
    return "the controller" if group == CONTROLLER_GROUP else group.replace("-", " ")
