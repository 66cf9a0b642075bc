"""Tell the controller who leads the offsets partitions, where it has not heard that.

A new leader says so to whoever leads the controller just then, once: that one may be starting, or fall. Nodes
that have no replica of a partition learn its leader from the controller alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from actors.ground.spec import partition_group
from actors.metadata.commands import ReportLeader
from cluster.sight import Sight


class LeaderNews:
    """What one leader of the controller has been told."""

    def __init__(self, submit: Callable[[Any], Awaitable[Any]]) -> None:
        self._submit = submit
        self._told: dict[int, int] = {}
        """Offsets partition -> the last term of which the leader was told."""

    async def tell(self, sight: Sight) -> None:
        """Tell of leaders that are in sight and news. A command about an earlier term changes nothing. Raises
        what `submit` raises."""
        for partition in range(len(sight.spec.placement)):
            leader = sight.leader(partition_group(partition))
            if leader is not None and self._told.get(partition) != leader["term"]:
                await self._submit(ReportLeader(partition, leader["node_id"], leader["term"]))
                self._told[partition] = leader["term"]
