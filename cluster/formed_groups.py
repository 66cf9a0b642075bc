"""Which groups have been there before: a replica that comes to them without a journal has lost one.

It must not come back under its old name: it would vote for a leader that lacks what it had acknowledged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress

from actors import runtime
from actors.ground.spec import TierSpec
from actors.metadata.replicas import groups_of, is_formed, is_founding
from actors.runtime import ActorCallError
from cluster.sight import CALL_TIMEOUT_S, look_at
from cluster.tier_actors import TierActor, replica_actor


class FormedGroups:
    """What a controller's leader knows of it. `spec` is what that controller was made with, perhaps before
    its tier was formed."""

    def __init__(self, spec: TierSpec) -> None:
        self._first = spec
        self._first_groups = frozenset(groups_of(spec))
        self._are_all = spec.formed
        """Whether the tier was formed, by all that is known."""
        self._led: set[str] = set()
        """The groups that had a leader when they were looked at."""

    async def learn(self, spec: TierSpec, missing: Iterable[TierActor], names: set[str]) -> None:
        """Find out whether the groups of these replicas were formed, of which `names` are there. The machines
        of a tier remember it; so does every group that has a leader without those who are missing."""
        groups = {actor.group for actor in missing if actor.group is not None} - self._led
        if not groups or self._are_all:
            return
        self._are_all = await _machines_remember(spec.namespace)
        if not self._are_all:
            sight = await look_at(spec, [actor for actor in _replicas(spec, groups) if actor.name in names])
            self._led |= {group for group in groups if sight.leader(group) is not None}

    def has(self, spec: TierSpec, group: str | None) -> bool:
        """Return whether who comes to this group without a journal has lost one; None: the actor is no
        replica.

        A group with other replicas than it began with takes in newcomers only. In a new tier whose groups are
        as they began, or in a group that a split has just made, a replica that has never run is one of the
        founders.
        """
        if group is None:
            return self._are_all
        if group not in self._first_groups:
            return not is_founding(spec, group)
        if group in self._led or spec.copies(group) != self._first.copies(group):
            return True
        return is_formed(spec._replace(formed=self._are_all or spec.formed), group)


def _replicas(spec: TierSpec, groups: Iterable[str]) -> Sequence[TierActor]:
    return [replica_actor(group, *copy) for group in sorted(groups) for copy in spec.copies(group)]


async def _machines_remember(namespace: str) -> bool:
    """Return whether a machine was told that the tier is formed; not so if all lives in one Ray, or if no
    machine can say."""
    known = runtime.machines()
    if known is None:
        return False
    with suppress(ActorCallError, TimeoutError):
        return await asyncio.wait_for(asyncio.to_thread(known.is_formed, namespace), CALL_TIMEOUT_S)
    return False
