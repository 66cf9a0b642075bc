"""What clients do wrong, in the log: one line in LOG_INTERVAL_S at most, or a flood of clients floods the
disk too."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

LOG_INTERVAL_S: Final = 10.0


class FloodLog:
    """One kind of lines, which count what they leave out."""

    def __init__(self, loop: asyncio.AbstractEventLoop, logger: logging.Logger, what: str) -> None:
        """`what` is the line but for its end: it has a %d for how often it happened."""
        self._loop = loop
        self._logger = logger
        self._line = f"{what}: %s"
        self._untold = 0
        self._tell_after_s = float("-inf")

    def tell(self, reason: str) -> None:
        """Count one, and log its reason if it is time."""
        self._untold += 1
        now_s = self._loop.time()
        if now_s >= self._tell_after_s:
            self._tell_after_s = now_s + LOG_INTERVAL_S
            self._logger.warning(self._line, self._untold, reason)
            self._untold = 0
