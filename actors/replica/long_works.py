"""Do long work in slices, so that requests are served in between (`Result.work`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from actors.ground.contract import Push, Reply, Result
from actors.ground.limits import LONG_WORKS_MAX

REPLIES_AT_ONCE_MAX = 1_000
"""How many answers leave in one piece, at some ten microseconds each: a group of 10,000 that has rebalanced
must not hold up all others."""

Give = Callable[[Reply | Push], None]


class LongWorks:
    """The long works of one replica, which do a slice each, one after the other."""

    def __init__(self) -> None:
        self.works: deque[Iterator[Result]] = deque()
        self.replies: deque[tuple[Give, Sequence[Reply | Push]]] = deque()
        """The answers that leave in later slices, and what gives them."""

    @property
    def is_full(self) -> bool:
        """Whether no request may begin another long work."""
        return len(self.works) >= LONG_WORKS_MAX

    def add(self, work: Iterator[Result]) -> None:
        self.works.append(work)

    def step(self) -> Result | None:
        """Do one slice of a work and return what it has decided; None if the work is at its end, or there is
        none."""
        if not self.works:
            return None
        work = self.works.popleft()
        result = next(work, None)
        if result is not None:
            self.works.append(work)
        return result

    def clear(self) -> None:
        self.works.clear()
        self.replies.clear()

    def give(self, replies: Sequence[Reply | Push], give: Give) -> None:
        """Give as many replies as leave in one piece; the rest of very many follow in slices."""
        for reply in replies[:REPLIES_AT_ONCE_MAX] if len(replies) > REPLIES_AT_ONCE_MAX else replies:
            give(reply)
        for begin in range(REPLIES_AT_ONCE_MAX, len(replies), REPLIES_AT_ONCE_MAX):
            self.replies.append((give, replies[begin : begin + REPLIES_AT_ONCE_MAX]))

    def give_more(self) -> None:
        """Give the next slice of the replies that follow."""
        if self.replies:
            give, replies = self.replies.popleft()
            for reply in replies:
                give(reply)
