"""The two leaders of a split, and how their requests are carried out in a test: at once, one after the
other."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from actors.coordinator.ground.state import Home
from actors.coordinator.shard import CoordinatorShard
from actors.coordinator.split.inside import DROP, DropRequest
from actors.leader.hand_over import Move, hand_over
from actors.protocol.java_hash import partition_for
from tests.coordinator.driver import image_of
from tests.coordinator.shards import numbered
from tests.coordinator.transactions.driver import TransactionDriver

EPOCH = 7
"""The epoch in which the parent has markers written."""


def name_in(partition: int, partitions: int = 2) -> str:
    """Return the first group id of a partition."""
    return next(f"g{n}" for n in range(1_000) if partition_for(f"g{n}", partitions) == partition)


STAYS, MOVES = name_in(0), name_in(1)


class Half(TransactionDriver):
    """The leader of one offsets partition of a tier that goes from one to two."""

    def __init__(self, partition: int, *, awaits_groups: bool = False) -> None:
        self._partition = partition
        self._awaits_groups = awaits_groups
        super().__init__(image_of(1, t=4))

    def new_shard(self) -> CoordinatorShard:
        return CoordinatorShard(
            self.settings,
            numbered(f"{self._partition}-{{}}"),
            self.image,
            home=Home(self._partition, self._awaits_groups),
        )

    async def inside(self, api_key: int, body: Any) -> Any:
        """Ask what only the tier may ask. Everything that was decided is committed with it."""
        token = self.send(api_key, body, 0)
        while token not in self.replies:
            self.replica.run_timers(self.now_ms)
        self.commit()
        return self.replies[token]

    def drop(self, child: int = 1) -> Any:
        return done(self.inside(DROP, DropRequest(child)))


def done(work: Coroutine[Any, Any, Any]) -> Any:
    """Carry out what never waits."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


class Split:
    """A parent that serves, and its child that awaits the groups."""

    def __init__(self) -> None:
        self.parent = Half(0)
        self.child = Half(1, awaits_groups=True)

    def hand_over(self) -> int:
        """Copy everything, and return how many records that was."""
        move = Move(0, 1, 2)
        work = hand_over(self.parent.replica, move, EPOCH, self.parent.inside, self.child.inside)
        count: int = done(work)
        return count
