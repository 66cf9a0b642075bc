"""How often it was tried to take one partition over, and when it may be tried again. PURE.

What does not get on is given up for a while, so that the partition's brokers do not wait for replicas that
do not come, and the other partitions have their turn.
"""

from collections.abc import Hashable
from typing import Final

STALLED_MS: Final = 30_000
"""How long a partition that joins may get on no further."""
SETTLED_MS: Final = 6_000
"""How long after the last look without it a partition may begin to join: for so long a request to the
upstream's controller may be under way, which another leader of ours may have sent."""
PAUSE_MS: Final = 1_000
"""How long a partition is left alone after the first try; twice as long after each further one."""
PAUSE_MAX_MS: Final = 60_000


class Effort:
    """The tries of one partition."""

    def __init__(self) -> None:
        self.tries = 0
        """How many have failed."""
        self.is_given_up = False
        """Whether the present try is being undone."""
        self._due_ms = 0
        self._is_in = False
        self._out_since_ms: int | None = None
        self._mark: Hashable = None
        self._since_ms = 0

    def is_due(self, now_ms: int) -> bool:
        """Return whether a try may begin."""
        return now_ms >= self._due_ms

    def joins(self, mark: Hashable, now_ms: int, stalled_ms: int = STALLED_MS) -> bool:
        """Take note that the partition moves, and how far it is. Return whether it is given up just now,
        because it does not get on."""
        self._out_since_ms = None
        if not self._is_in or mark != self._mark:
            self._is_in, self._mark, self._since_ms = True, mark, now_ms
            return False
        if self.is_given_up or now_ms - self._since_ms < stalled_ms:
            return False
        self.is_given_up = True
        return True

    def is_out(self, now_ms: int) -> None:
        """Take note that the partition is where it was before."""
        if self._is_in:
            self.failed(now_ms)
        self._is_in = self.is_given_up = False
        if self._out_since_ms is None:
            self._out_since_ms = now_ms

    def begins(self) -> None:
        """Take note that a node of ours is asked for as a replica."""
        self._out_since_ms = None

    def is_settled(self, now_ms: int) -> bool:
        """Return whether no node of ours is a replica, nor can become one by what was asked before."""
        return self._out_since_ms is not None and now_ms - self._out_since_ms >= SETTLED_MS

    def failed(self, now_ms: int) -> None:
        """Take note that a try has failed."""
        self._due_ms = now_ms + min(PAUSE_MS << min(self.tries, 10), PAUSE_MAX_MS)
        self.tries += 1
