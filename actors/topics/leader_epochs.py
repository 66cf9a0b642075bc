"""The leader epochs of one log: which one wrote what, so that followers find where their log differs
(KIP-101, KIP-320; org.apache.kafka LeaderEpochFileCache)."""

from __future__ import annotations

from bisect import bisect_right

NO_LEADER_EPOCH = -1
"""The leader epoch of who knows none."""
NO_OFFSET = -1


class LeaderEpochs:
    """Epochs and the offsets at which they begin, both rising."""

    def __init__(self, epoch: int, start_offset: int) -> None:
        self._epochs = [epoch]
        self._starts = [start_offset]

    @property
    def latest(self) -> int:
        return self._epochs[-1]

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that what comes from this offset on is of an epoch. One that is not newer changes nothing."""
        if epoch <= self.latest:
            return
        if self._starts[-1] == start_offset:
            self._epochs[-1] = epoch
        else:
            self._epochs.append(epoch)
            self._starts.append(start_offset)

    def at(self, offset: int) -> int:
        """Return the epoch of the record at an offset."""
        return self._epochs[max(bisect_right(self._starts, offset) - 1, 0)]

    def end_of(self, epoch: int, end_offset: int) -> tuple[int, int]:
        """Return the latest epoch that is not above `epoch`, and the offset where its records end in a log
        that ends at `end_offset`; (-1, -1) if that is not known.

        Below the first epoch there is nothing any more: then the answer is where that begins.
        """
        if epoch == NO_LEADER_EPOCH or epoch > self.latest:
            return NO_LEADER_EPOCH, NO_OFFSET
        index = bisect_right(self._epochs, epoch)
        if index == len(self._epochs):
            return epoch, end_offset
        return (self._epochs[index - 1] if index else epoch), self._starts[index]

    def start_at(self, offset: int) -> None:
        """Note that the log begins at `offset` now."""
        first = max(bisect_right(self._starts, offset) - 1, 0)
        del self._epochs[:first], self._starts[:first]
        self._starts[0] = max(self._starts[0], offset)
