"""An executor that runs the work at once, without a thread."""

from __future__ import annotations

from collections.abc import Callable

from storage.raft.disk import Done


class Inline:
    """An executor that works at once, until `works` is taken away: what is submitted then never ends, as on a
    machine that is about to lose its power. It says of each work that it took `takes_s` seconds."""

    def __init__(self, takes_s: float = 0.01) -> None:
        self.works = True
        self.takes_s = takes_s

    def submit(self, work: Callable[[], None], done: Done) -> None:
        if not self.works:
            return
        error: BaseException | None = None
        try:
            work()
        except OSError as raised:
            error = raised
        done(error, self.takes_s)

    def close(self) -> None:
        pass
