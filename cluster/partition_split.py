"""Double the number of a running tier's offsets partitions, from outside the tier.

The controller decides, and its leader has the partitions' leaders carry the split out. Whoever asked for it
may wait for that here.
"""

from __future__ import annotations

import time
from typing import Any, Final, NamedTuple

from cluster.replica_changes import LOOK_INTERVAL_S, Progress, ReplicaChanges
from cluster.tier_file import TierError

SPLIT_WAIT_S: Final = 1_800.0
"""How long, in seconds, a split is waited for; it goes on by itself after that."""


class SplitState(NamedTuple):
    """How far the last split is."""

    partitions: int
    """How many offsets partitions there are, those that serve nobody yet among them."""
    unmoved: tuple[int, ...]
    """The partitions whose groups have not moved yet."""
    undropped: tuple[int, ...]
    """The partitions that still hold what has moved, or is to move; (): no split runs."""

    @property
    def before(self) -> int:
        """Return how many partitions there were before the last split, if there was one."""
        return self.partitions // 2

    def in_words(self) -> str:
        """Return how far the split that runs is, as one line."""
        moved = self.before - len(self.unmoved)
        done = self.before - len(self.undropped)
        return f"{moved} of {self.before} partitions have handed their groups over, {done} are done"

    def part_of(self, partition: int) -> str:
        """Return what one partition does now."""
        if not self.undropped:
            return "serves"
        parent = partition if partition < self.before else partition - self.before
        if parent in self.unmoved:
            return "is to be split" if partition == parent else "waits for its groups"
        return "removes what has moved" if partition in self.undropped else "serves"


class PartitionSplit(ReplicaChanges):
    """The split of a tier's offsets partitions. Every method raises TierError, in words."""

    def state(self) -> SplitState:
        found: dict[str, Any] = self.controller("split_state")
        return SplitState(found["partitions"], tuple(found["unmoved"]), tuple(found["undropped"]))

    def begin(self) -> SplitState:
        """Have every partition split. Return how far that is."""
        before = self.state()
        problem = self.controller("split_partitions", before.partitions)
        if problem is not None:
            raise TierError(f"the offsets partitions cannot be split now: {problem}")
        return self.state()

    def wait_until_done(self, progress: Progress) -> SplitState:
        """Wait until the split is over."""
        deadline = time.monotonic() + SPLIT_WAIT_S
        while (state := self.state()).undropped:
            progress(state.in_words())
            if time.monotonic() > deadline:
                raise TierError(
                    f"not done after {SPLIT_WAIT_S:.0f} s: {state.in_words()}; it goes on by itself"
                )
            time.sleep(LOOK_INTERVAL_S)
        return state
