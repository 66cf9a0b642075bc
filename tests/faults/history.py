"""What the clients of one group asked and were told, and what may be true after that.

The group's one committer commits 1, 2, 3, ..., each for a pair of partitions, going round the pairs; n + 1 is
sent only when n was acknowledged, and n again for as long as its outcome is unknown. So whoever reads finds
what some number of commits has left, and

* no commit is missing that was acknowledged, or seen by a read, before the read began;
* none is there that was sent after the read ended;
* none is half there, and none is missing below another: a lost commit shows until its pair's next turn.

The simulation's checkers look into the log; of real processes there are only the clients' words.
"""

from __future__ import annotations

from collections.abc import Mapping


class Violation(AssertionError):
    """A promise was broken. The text begins with its name."""


class History:
    def __init__(self, group_id: str, pairs: int) -> None:
        self.group_id = group_id
        self.sent = 0
        """The number of the newest commit that was ever sent."""
        self.acknowledged = 0
        self.retries = 0
        """How often a commit had to be sent again: refused, not answered, or nobody there to take it."""
        self.reads = 0
        self._pairs = pairs
        self._read = 0

    def begin_commit(self) -> dict[int, int]:
        """The offsets, by partition, of the next commit, which is about to be sent."""
        if self.sent == self.acknowledged:
            self.sent += 1
        first = self.sent % self._pairs * 2
        return {first: self.sent, first + 1: self.sent}

    def acknowledge(self) -> None:
        """The commit that was begun last has been acknowledged."""
        assert self.sent == self.acknowledged + 1, "the committer goes one by one"
        self.acknowledged = self.sent

    def begin_read(self) -> int:
        """The newest commit that a read which begins now must find."""
        return max(self.acknowledged, self._read)

    def end_read(self, floor: int, offsets: Mapping[int, int]) -> None:
        """Judge what a read has found for which `begin_read` gave `floor`; `offsets` by partition, those that
        were never committed left out. Raises Violation."""
        self.reads += 1
        self._read = max(self._read, self.judge(floor, offsets, "a read"))

    def judge(self, floor: int, offsets: Mapping[int, int], where: str) -> int:
        """Return the newest commit among the offsets that `where` holds. Raises Violation."""
        newest = max(offsets.values(), default=0)
        story = f"{where} of {self.group_id} holds {newest} ({floor} to {self.sent} may be)"
        for partition in range(0, self._pairs * 2, 2):
            found, other = offsets.get(partition, 0), offsets.get(partition + 1, 0)
            expected = self._last(max(newest, floor), partition // 2)
            if found != other:
                raise Violation(f"commit torn: {story}, partition {partition} {found}, its twin {other}")
            if found < expected:
                raise Violation(f"commit lost: {story}, partition {partition} {found} and not {expected}")
        if newest > self.sent:
            raise Violation(f"commit invented: {story}")
        return newest

    def _last(self, newest: int, pair: int) -> int:
        """The last commit up to `newest` that was for `pair`; 0 if none was."""
        return max(newest - (newest - pair) % self._pairs, 0)
