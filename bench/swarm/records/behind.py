"""How far groups are behind what was produced while a swarm runs: `lag` says the same of a whole history.

PURE. Positions come from all processes of the swarm, in any order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from bench.swarm.planning.plan import Plan

Position = tuple[str, str, int, int]
"""Group, topic, partition, and the offset that the group has committed. With END for a group: the partition's
end."""
END: Final = ""


class Behind:
    """Counts how far all groups of a plan with producers are behind."""

    def __init__(self, plan: Plan) -> None:
        written = {topic for producer in plan.producers for topic in producer.topics}
        read = {(member.group_id, topic) for member in plan.members for topic in member.topics}
        self._readers = Counter(topic for _, topic in read if topic in written)
        """How many groups read each topic that is written to."""
        self._reached: dict[tuple[str, str, int], int] = {}
        self._lag = 0

    def take(self, positions: Iterable[Position]) -> None:
        """Take positions. One that goes back is passed over: a later one was heard sooner."""
        for group_id, topic, partition, offset in positions:
            place = group_id, topic, partition
            rise = offset - self._reached.get(place, 0)
            if rise <= 0 or topic not in self._readers:
                continue
            self._reached[place] = offset
            self._lag += rise * self._readers[topic] if group_id == END else -rise

    @property
    def lag(self) -> int:
        """How many records all groups together are behind. Never negative, though a commit may be heard of
        before the end that it reaches."""
        return max(0, self._lag)
