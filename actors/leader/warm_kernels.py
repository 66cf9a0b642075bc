"""Load the compiled assignors before a leader needs them."""

from __future__ import annotations

import asyncio

from actors.assignors import compiled
from actors.coordinator.consumer.target_arrays import ARRAYS_FROM
from actors.ground.tasks import Tasks
from actors.leader.known_tier import KnownTier
from actors.replica.replica import Replica


class WarmKernels:
    """Loading compiled assignors in a thread, once, when the topics of a leader are big enough for them.

    If the loop loaded them, it would hold up some member's heartbeat for half a second. They cost 75 MB: a
    replica that does not need them does without.
    """

    def __init__(self, replica: Replica, known: KnownTier) -> None:
        self._replica = replica
        self._known = known
        self._is_loaded = False
        self._tasks = Tasks("the loading of compiled assignors")

    def look(self) -> None:
        """Load the compiled assignors if they may be needed from now on."""
        partitions = sum(topic.partition_count for topic in self._known.image.topics.values())
        if self._replica.serving and partitions >= ARRAYS_FROM // 2 and not self._is_loaded:
            self._is_loaded = True
            self._tasks.spawn(asyncio.to_thread(compiled.warm))
