"""What a replica does in slices, so that requests have their turn in between (`Result.work`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from actors.ground.contract import Reply, Result
from actors.ground.limits import LONG_WORKS_MAX

REPLIES_AT_ONCE_MAX = 1_000
"""Answers that leave in one piece, at some ten microseconds each: a group of 10,000 that has rebalanced must
not hold up all others."""

Give = Callable[[Reply], None]


class LongWorks:
    """Of one replica: each has a slice by turns."""

    def __init__(self) -> None:
        self._works: deque[Iterator[Result]] = deque()
        self._replies: deque[tuple[Give, Sequence[Reply]]] = deque()
        """That leave by and by."""

    def __len__(self) -> int:
        return len(self._works) + len(self._replies)

    @property
    def is_full(self) -> bool:
        """No request may begin another one."""
        return len(self._works) >= LONG_WORKS_MAX

    def add(self, work: Iterator[Result]) -> None:
        self._works.append(work)

    def step(self) -> Result | None:
        """What one slice has decided; None if it was the end of its work, or there is none."""
        if not self._works:
            return None
        work = self._works.popleft()
        result = next(work, None)
        if result is not None:
            self._works.append(work)
        return result

    def clear(self) -> None:
        self._works.clear()
        self._replies.clear()

    def give(self, replies: Sequence[Reply], give: Give) -> None:
        """As many as leave in one piece; the rest of very many follow in slices."""
        for reply in replies[:REPLIES_AT_ONCE_MAX] if len(replies) > REPLIES_AT_ONCE_MAX else replies:
            give(reply)
        for begin in range(REPLIES_AT_ONCE_MAX, len(replies), REPLIES_AT_ONCE_MAX):
            self._replies.append((give, replies[begin : begin + REPLIES_AT_ONCE_MAX]))

    def give_more(self) -> None:
        """The next slice of what follows."""
        if self._replies:
            give, replies = self._replies.popleft()
            for reply in replies:
                give(reply)
