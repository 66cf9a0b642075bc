"""How often it was tried to take one partition over, and when it may be tried again. PURE.

What does not get on is given up for a while, so that the partition's brokers do not wait for replicas that
do not come, and the other partitions have their turn.
"""

from collections.abc import Hashable
from typing import Final

STALLED_MS: Final = 30_000
"""How long a partition that joins may get on no further."""
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
        self._mark: Hashable = None
        self._since_ms = 0

    def is_due(self, now_ms: int) -> bool:
        """Return whether a try may begin."""
        return now_ms >= self._due_ms

    def joins(self, mark: Hashable, now_ms: int, stalled_ms: int = STALLED_MS) -> bool:
        """Take note that the partition moves, and how far it is. Return whether it is given up just now,
        because it does not get on."""
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

    def failed(self, now_ms: int) -> None:
        """Take note that a try has failed."""
        self._due_ms = now_ms + min(PAUSE_MS << min(self.tries, 10), PAUSE_MAX_MS)
        self.tries += 1
