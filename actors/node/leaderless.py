"""Hold FindCoordinator back for the moment in which an offsets partition has no leader.

When a leader dies, its clients ask at once who leads now, and an election takes some tens of milliseconds.
The old leader's name would have each of them connect to a node that refuses it, and come back after a pause:
most of the time that a group is without service. So nobody is told of a leader that is known to be gone,
until there is another one or the moment is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from actors.network.early import Again
from actors.protocol.api_keys import FIND_COORDINATOR
from actors.protocol.header import Header

HELD_FOR_S: Final = 1.0
"""How long, in seconds, FindCoordinator is held back after a leader is lost. An election takes a tenth of it,
but the news of it is late on a busy machine; without a majority there is none, and clients are to hear what
is known."""
LOOK_AGAIN: Final = Again(0.005)


class Leaderless:
    """The offsets partitions whose leaders were lost a moment ago. `time` tells seconds."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._until: dict[int, float] = {}
        """Offsets partition without a leader -> until when FindCoordinator is held back for it."""

    def lost(self, partition: int) -> None:
        """Note that a partition has no leader that is known. Said again of the same partition it changes
        nothing: elections that fail must not hold clients for ever."""
        self._until.setdefault(partition, self._time() + HELD_FOR_S)

    def found(self, partition: int) -> None:
        """Note that a partition has a leader."""
        self._until.pop(partition, None)

    def holds(self, header: Header) -> bool:
        """Return whether a request is to be decided later."""
        if header.api_key != FIND_COORDINATOR or not self._until:
            return False
        now = self._time()
        return any(now < until for until in self._until.values())

    async def passed(self, header: Header) -> None:
        """Wait until a request may be answered."""
        while self.holds(header):
            await asyncio.sleep(LOOK_AGAIN.after_s)
