"""Hold FindCoordinator back for the moment in which an offsets partition has no leader.

When a leader dies, its clients ask at once who leads now, and an election takes some tens of milliseconds.
The old leader's name would have each of them connect to a node that refuses it, and come back after a pause:
most of the time that a group is without service. So nobody is told of a leader that is known to be gone,
until there is another one or the moment is over. Who asks for groups of other partitions is answered at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, Protocol

from actors.catalog import codec
from actors.protocol.api_keys import FIND_COORDINATOR
from actors.protocol.header import Header
from actors.protocol.partitioning import Partitioning

HELD_FOR_S: Final = 1.0
"""How long, in seconds, FindCoordinator is held back after a leader is lost. An election takes a tenth of it,
but the news of it is late on a busy machine; without a majority there is none, and clients are to hear what
is known."""
_KEYS_SINCE: Final = 4
"""The version since which FindCoordinator asks for several groups."""

Wake = Callable[[], object]
Leader = tuple[int, int]
"""The term and the node of an offsets partition's leader; the term is -1 if the image alone says so."""


class Loop(Protocol):
    """What this needs of an event loop; asyncio's is one."""

    def call_soon(self, callback: Wake) -> Any: ...
    def call_later(self, delay: float, callback: Wake) -> Any: ...


class Leaderless:
    """The offsets partitions whose leaders were lost a moment ago, and who waits for the next ones.
    `partitioning` says how groups and transactional ids are spread over partitions now."""

    def __init__(self, loop: Loop, partitioning: Callable[[], Partitioning]) -> None:
        self._loop = loop
        self._partitioning = partitioning
        self._named: dict[int, Leader] = {}
        """Link of a replica of this node -> the leader that it has named since it was linked."""
        self._waiting: dict[int, list[Wake] | None] = {}
        """Offsets partition without a leader -> who waits for one; None: the moment is over."""
        self._held = 0
        """The number of partitions for which FindCoordinator is held back."""

    def named(self, slot: int, leader: Leader) -> None:
        """Note whom a replica of this node takes for its partition's leader."""
        self._named[slot] = leader

    def unnamed(self, slot: int, partition: int, known: Leader | None) -> None:
        """Note that a replica knows of no leader, or that itself was the leader and is gone. That is no news
        of a loss if another leader is known than the one that it had named: who was just started knows nobody
        yet, and what it has lost may have been replaced."""
        is_told_by_image_alone = known is None or known[0] < 0
        if self._named.pop(slot, None) == known or is_told_by_image_alone:
            self._lost(partition)

    def unlinked(self, slot: int) -> None:
        """Forget what a replica has said: it is gone, or has come again."""
        self._named.pop(slot, None)

    def found(self, partition: int) -> None:
        """Note that a partition has a leader, and wake who waits for it."""
        if partition in self._waiting:
            self._end(partition)
            del self._waiting[partition]

    def holds(self, header: Header, frame: bytes, body_offset: int) -> int | None:
        """Return the partition for whose leader a request has to wait; None: it may be answered now. Raises
        MalformedRequest."""
        if header.api_key != FIND_COORDINATOR or not self._held:
            return None
        asked = codec.decode_entity(header, frame, body_offset)
        keys: Iterable[str] = asked.coordinator_keys if header.api_version >= _KEYS_SINCE else (asked.key,)
        for partition in map(self._partitioning().partition_of, keys):
            if self._waiting.get(partition) is not None:
                return partition
        return None

    def wake_with(self, partition: int, wake: Wake) -> None:
        """Call `wake`, soon after the partition has a leader or the moment is over. Each connection has one
        request that waits here, so there are no more than connections."""
        waiting = self._waiting.get(partition)
        if waiting is None:
            self._loop.call_soon(wake)
        else:
            waiting.append(wake)

    async def passed(self, header: Header, frame: bytes, body_offset: int) -> None:
        """Wait until a request may be answered. Raises MalformedRequest."""
        while (partition := self.holds(header, frame, body_offset)) is not None:
            woken = asyncio.Event()
            self.wake_with(partition, woken.set)
            await woken.wait()

    def _lost(self, partition: int) -> None:
        """Hold FindCoordinator back. Said again of the same partition it changes nothing: elections that fail
        must not hold clients for ever."""
        if partition not in self._waiting:
            waiting: list[Wake] = []
            self._waiting[partition] = waiting
            self._held += 1
            self._loop.call_later(HELD_FOR_S, partial(self._is_over, partition, waiting))

    def _is_over(self, partition: int, waiting: list[Wake]) -> None:
        if self._waiting.get(partition) is waiting:
            self._end(partition)
            self._waiting[partition] = None

    def _end(self, partition: int) -> None:
        waiting = self._waiting[partition]
        if waiting is not None:
            self._held -= 1
            for wake in waiting:
                self._loop.call_soon(wake)
