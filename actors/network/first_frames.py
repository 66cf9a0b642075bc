"""The memory of large first frames: how much clients may send before they have shown themselves to be any.

A first request may be as large as any other, so what is bounded is not each of them but all together. A
connection has FIRST_FRAME_FREE_BYTES for its own: a small request waits for nobody. A larger frame claims its
whole length before it is read on, so that whatever is begun can be finished. Claims that do not fit wait, the
smallest first, and what their clients send stays in the kernel, in the end with the client. While any waits,
connections whose frame does not come on are closed, the largest first.

Nothing here reads or counts bytes of proven clients.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import Final, Protocol

PROGRESS_BYTES_MIN: Final = 64 * 1024
"""How much has to come of a claimed frame between two sweeps while others wait."""
STALLED: Final = "its first request does not come on, and others wait for the memory"


class Claimant(Protocol):
    """A connection whose first frame is large."""

    @property
    def read_bytes(self) -> int:
        """Return how much of the frame has been read."""

    def read_on(self) -> None:
        """Read the rest of the frame: there is room for it now."""

    def close(self, reason: str | None = None) -> None:
        """Close the connection, which gives its claim back."""


class FirstFrames:
    """The claims of one node's connections, `bytes_max` in all."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.claimed_bytes = 0
        self._claims: dict[Claimant, int] = {}
        """Connection -> the size of the frame that it may read."""
        self._seen: dict[Claimant, int] = {}
        """Connection -> how much of its claimed frame had been read at the last sweep."""
        self._waiting: dict[Claimant, int] = {}
        """Connection -> the number of its claim, which waits."""
        self._order: list[tuple[int, int, Claimant]] = []
        """A heap of claims that waited: size, number, connection. Some wait no longer."""
        self._numbers = count()

    def claim(self, claimant: Claimant, size_bytes: int) -> bool:
        """Claim room for a frame. Return whether there is any; if not, `read_on` is called when there is."""
        if self.claimed_bytes + size_bytes > self.bytes_max:
            number = self._waiting[claimant] = next(self._numbers)
            heappush(self._order, (size_bytes, number, claimant))
            return False
        self._give(claimant, size_bytes)
        return True

    def give_back(self, claimant: Claimant) -> None:
        """Take back what the connection has claimed, or let it wait no longer."""
        self._waiting.pop(claimant, None)
        self._seen.pop(claimant, None)
        self.claimed_bytes -= self._claims.pop(claimant, 0)
        while self._order:
            size_bytes, number, smallest = self._order[0]
            if self._waiting.get(smallest) != number:
                heappop(self._order)  # it is gone
            elif self.claimed_bytes + size_bytes > self.bytes_max:
                break
            else:
                heappop(self._order)
                del self._waiting[smallest]
                self._give(smallest, size_bytes)
                smallest.read_on()

    def sweep(self) -> None:
        """Close connections whose claimed frame has not come on since the last sweep, until nobody waits."""
        stalled = [
            claimant
            for claimant, seen_bytes in self._seen.items()
            if claimant.read_bytes - seen_bytes < PROGRESS_BYTES_MIN
        ]
        stalled.sort(key=self._claims.__getitem__)
        while self._waiting and stalled:
            stalled.pop().close(STALLED)
        self._seen = {claimant: claimant.read_bytes for claimant in self._claims}

    def _give(self, claimant: Claimant, size_bytes: int) -> None:
        self._claims[claimant] = size_bytes
        self.claimed_bytes += size_bytes
