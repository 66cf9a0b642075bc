"""An event loop whose time leaps: nothing waits, a timer that is an hour away fires at once."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Mapping
from typing import Any


class _LeapingSelector(selectors.BaseSelector):
    """Instead of waiting it moves the clock. Without a timer to leap to, it waits for other threads."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self._inner = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._inner.select(0)
        if not ready and timeout is None:
            return self._inner.select(None)
        if not ready and timeout:
            self.now += timeout
        return ready

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._inner.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._inner.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._inner.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._inner.get_map()

    def close(self) -> None:
        self._inner.close()


class LeapingLoop(asyncio.SelectorEventLoop):
    """`advance` moves its clock by hand; idle, it leaps to its next timer."""

    def __init__(self) -> None:
        self._leaping = _LeapingSelector()
        super().__init__(self._leaping)

    def time(self) -> float:
        return self._leaping.now

    def advance(self, seconds: float) -> None:
        self._leaping.now += seconds
