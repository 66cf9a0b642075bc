"""Tasks that run beside their actor's other work, until they are done or given up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any

log = logging.getLogger("groupd.tasks")


class Tasks:
    """The tasks of one actor. It keeps what it runs, which the loop itself would forget, and logs what fails;
    `what` says in words what the tasks are."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._running: set[asyncio.Future[Any]] = set()

    def spawn(self, work: Awaitable[Any]) -> None:
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._done)

    def __len__(self) -> int:
        """Return how many tasks are under way."""
        return len(self._running)

    def close(self) -> None:
        """Give up the tasks that are under way."""
        for task in self._running:
            task.cancel()

    def _done(self, task: asyncio.Future[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("%s failed", self._what, exc_info=task.exception())
