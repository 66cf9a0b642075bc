"""Have the leaders of offsets partitions split them: the controller's leader drives this.

A parent's groups are handed over, that is noted, and the parent removes them. Each step may be repeated, so
whoever leads the controller begins with what the metadata say is still to be done. Nothing is remembered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from actors import runtime
from actors.ground.spec import TierSpec, partition_group
from actors.metadata.split_commands import NoteDropped, NoteMoved
from cluster.sight import Sight, look_at
from cluster.tier_actors import replica_actor

log = logging.getLogger("groupd.controller")

AT_ONCE_MAX: Final = 4
"""How many partitions are split at the same time: each is a copy that its leader makes beside its work."""
CALL_TIMEOUT_S: Final = 300.0
"""How long, in seconds, the copy of one partition may take, or the removal of what has moved; then it is
asked for again."""

Submit = Callable[[Any], Awaitable[Any]]
"""A function that has a metadata command decided and committed. Raises NotController, TimeoutError."""


class Splits:
    """The splits that one leader of the controller drives."""

    def __init__(self, submit: Submit) -> None:
        self._submit = submit
        self._tasks: dict[int, asyncio.Task[None]] = {}
        """Parent -> what is done for it now."""
        self._done: list[str] = []

    @property
    def is_busy(self) -> bool:
        """Return whether something is under way."""
        return any(not task.done() for task in self._tasks.values())

    def step(self, spec: TierSpec) -> list[str]:
        """Begin what is due for the tier as it should be now. Return what was done since, in words."""
        self._tasks = {parent: task for parent, task in self._tasks.items() if not task.done()}
        for parent in spec.undropped:
            if parent not in self._tasks and len(self._tasks) < AT_ONCE_MAX:
                self._tasks[parent] = asyncio.create_task(self._drive(spec, parent))
        done, self._done = self._done, []
        return done

    async def _drive(self, spec: TierSpec, parent: int) -> None:
        """Do what is left for one parent, as far as possible now."""
        try:
            if parent in spec.unmoved:
                await self._hand_over(spec, parent)
                await self._submit(NoteMoved(parent))
            await self._drop(spec, parent)
            await self._submit(NoteDropped(parent))
        except Exception as error:  # whatever it is, the next step tries again
            log.info("partition %d is not split yet: %s", parent, error)

    async def _hand_over(self, spec: TierSpec, parent: int) -> None:
        total = spec.offsets_partitions
        child = parent + total // 2
        sight = await _sight(spec, parent, child)
        to = sight.leader(partition_group(child))
        if to is None:
            raise RuntimeError(f"partition {child} has no leader yet")
        name = replica_actor(partition_group(child), to["replica"], to["node_id"]).name
        handle = _leader(sight, parent)
        count = await runtime.call(handle, "hand_over", child, total, name, timeout_s=CALL_TIMEOUT_S)
        self._done.append(f"partition {parent} has handed {count} records over to partition {child}")

    async def _drop(self, spec: TierSpec, parent: int) -> None:
        child = parent + spec.offsets_partitions // 2
        handle = _leader(await _sight(spec, parent), parent)
        code, words = await runtime.call(handle, "drop_moved", child, timeout_s=CALL_TIMEOUT_S)
        if code:
            raise RuntimeError(f"what has moved is not removed: {words or code}")


async def _sight(spec: TierSpec, *partitions: int) -> Sight:
    groups = [partition_group(partition) for partition in partitions]
    leaving = [replica_actor(group, *copy) for group, copy in spec.leaving if group in groups]
    copies = [replica_actor(group, *copy) for group in groups for copy in spec.copies(group)]
    return await look_at(spec, [*copies, *leaving])


def _leader(sight: Sight, partition: int) -> runtime.Handle:
    """Return the actor that leads a partition. Raises RuntimeError if there is none."""
    group = partition_group(partition)
    leader = sight.leader(group)
    if leader is None:
        raise RuntimeError(f"partition {partition} has no leader now")
    return sight.looks[replica_actor(group, leader["replica"], leader["node_id"]).name].handle
