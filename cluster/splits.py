"""Have the leaders of offsets partitions split them: the controller's leader drives this.

A parent's groups are handed over, that is noted, and the parent removes them. Each step may be repeated, so
whoever leads the controller begins with what the metadata say is still to be done. Nothing is remembered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

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
LOOK_EVERY_S: Final = 2.0
"""How often, in seconds, it is looked meanwhile whether the leaders are still the same: one that has fallen,
or whose machine is gone, need not answer, and until the groups have moved nobody serves them."""

Submit = Callable[[Any], Awaitable[Any]]
"""A function that has a metadata command decided and committed. Raises NotController, TimeoutError."""


class Splits:
    """The splits that one leader of the controller drives."""

    def __init__(self, submit: Submit, look_every_s: float = LOOK_EVERY_S) -> None:
        self._submit = submit
        self._look_every_s = look_every_s
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
        leaders = await _leaders(spec, parent, child)
        count = await self._called(spec, leaders, "hand_over", child, total, leaders[child].name)
        self._done.append(f"partition {parent} has handed {count} records over to partition {child}")

    async def _drop(self, spec: TierSpec, parent: int) -> None:
        child = parent + spec.offsets_partitions // 2
        code, words = await self._called(spec, await _leaders(spec, parent), "drop_moved", child)
        if code:
            raise RuntimeError(f"what has moved is not removed: {words or code}")

    async def _called(self, spec: TierSpec, leaders: Mapping[int, _Leader], method: str, *args: Any) -> Any:
        """Return what the first of these leaders answers. Raises RuntimeError once one of them is known to
        have been replaced, and what `runtime.call` raises."""
        handle = next(iter(leaders.values())).handle
        call = asyncio.ensure_future(runtime.call(handle, method, *args, timeout_s=CALL_TIMEOUT_S))
        try:
            while not (await asyncio.wait((call,), timeout=self._look_every_s))[0]:
                sight = await _sight(spec, *leaders)
                for partition, leader in leaders.items():
                    now = sight.leader(partition_group(partition))
                    if now is not None and now["term"] > leader.term:
                        raise RuntimeError(f"partition {partition} has another leader now")
            return call.result()
        finally:
            call.cancel()


class _Leader(NamedTuple):
    """The actor that leads a partition."""

    name: str
    handle: runtime.Handle
    term: int


async def _sight(spec: TierSpec, *partitions: int) -> Sight:
    groups = [partition_group(partition) for partition in partitions]
    leaving = [replica_actor(group, *copy) for group, copy in spec.leaving if group in groups]
    copies = [replica_actor(group, *copy) for group in groups for copy in spec.copies(group)]
    return await look_at(spec, [*copies, *leaving])


async def _leaders(spec: TierSpec, *partitions: int) -> dict[int, _Leader]:
    """Return who leads these partitions. Raises RuntimeError if one has no leader."""
    sight = await _sight(spec, *partitions)
    return {partition: _leader(sight, partition) for partition in partitions}


def _leader(sight: Sight, partition: int) -> _Leader:
    group = partition_group(partition)
    leader = sight.leader(group)
    if leader is None:
        raise RuntimeError(f"partition {partition} has no leader now")
    name = replica_actor(group, leader["replica"], leader["node_id"]).name
    return _Leader(name, sight.looks[name].handle, leader["term"])
