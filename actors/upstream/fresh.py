"""Whether what is known of a partition that leaves was asked for when its present state was known. PURE.

Between the two somebody else, who led the controller before, may have cancelled a reassignment and taken a
seal back. Then the partition has another epoch upstream, and what is asked of it afterwards says so.
"""

from collections.abc import Mapping
from typing import NamedTuple

from actors.upstream.asks import Ask
from actors.upstream.given import GivenLog
from actors.upstream.partitions import PartitionState, RaftLeader


class _Given(NamedTuple):
    asked_offset: int
    logs: Mapping[int, GivenLog]


class Fresh:
    """The offsets of the upstream's metadata at which states were seen, and answers were asked for."""

    def __init__(self) -> None:
        self._since: dict[int, tuple[int, int]] = {}
        """Partition -> its partition epoch, and the offset at which it was seen first."""
        self._asked: dict[tuple[int, int, str], int] = {}
        """Partition, leader's term and order -> the offset that was known when that was sent last."""
        self._told: dict[int, int] = {}
        """Partition -> the offset that was known when that was asked which was answered last."""
        self._given: dict[int, _Given] = {}

    def look(self, partitions: Mapping[int, PartitionState], offset: int) -> None:
        """Take note of the states at an offset."""
        for index, state in partitions.items():
            if self._since.get(index, (-1, -1))[0] != state.partition_epoch:
                self._since[index] = state.partition_epoch, offset

    def asked(self, ask: Ask, offset: int) -> None:
        """Take note that the leader of a partition is asked how that stands."""
        self._asked[ask.partition, ask.term, ask.order.order] = offset

    def told(self, ask: Ask, *, is_answer: bool) -> None:
        """Take note that the leader has answered, or will not."""
        offset = self._asked.pop((ask.partition, ask.term, ask.order.order), -1)
        if is_answer:
            self._told[ask.partition] = offset

    def given(self, broker_id: int, logs: Mapping[int, GivenLog], asked_offset: int) -> None:
        """Take note of the logs that a node gives."""
        self._given[broker_id] = _Given(asked_offset, logs)

    def log(self, leaders: Mapping[int, RaftLeader], index: int) -> GivenLog | None:
        """Return the log of a partition that the node of its leader gives."""
        found = self._of(leaders, index)
        return None if found is None else found.logs.get(index)

    def is_fresh(self, leaders: Mapping[int, RaftLeader], index: int) -> bool:
        """Return whether all answers about a partition are as new as its state."""
        found, since = self._of(leaders, index), self._since.get(index, (-1, -1))[1]
        return found is not None and min(found.asked_offset, self._told.get(index, -1)) >= since

    def _of(self, leaders: Mapping[int, RaftLeader], index: int) -> _Given | None:
        leader = leaders.get(index)
        return None if leader is None else self._given.get(leader.broker_id)
