"""An executor that runs the work at once, without a thread."""

from __future__ import annotations

from collections.abc import Callable


class Inline:
    """An executor that works at once, until `works` is taken away: what is submitted then never ends, as on a
    machine that is about to lose its power."""

    def __init__(self) -> None:
        self.works = True

    def submit(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        if not self.works:
            return
        error: BaseException | None = None
        try:
            work()
        except OSError as raised:
            error = raised
        done(error)

    def close(self) -> None:
        pass
