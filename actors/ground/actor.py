"""What the tier's actors have in common: they start themselves, say why they could not, and keep their tasks.

Ray restarts an actor by constructing it again and calls nothing else, and an exception in a constructor is
final. So the constructor only begins the start, and keeps in the actor's state what goes wrong.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from types import MethodType
from typing import Any

from actors.ground.logs import log_to_file
from actors.ground.signals import look_for_signals_rarely
from actors.ground.tasks import Tasks
from actors.ground.threads import LOOP_NAME, name_this_thread

log = logging.getLogger("groupd.actor")

REST_TRIES = 50
REST_INTERVAL_S = 0.1


class Actor(ABC):
    """The base of a plain class that `actors.runtime` makes an actor. It is constructed on the actor's
    running loop.

    A subclass fills itself and calls `super().__init__` last: that begins `_open`.
    """

    def __init__(self, data_dir: str, name: str) -> None:
        self._data_dir = data_dir
        self._name = name
        self._problem: str | None = None
        """Why the start failed, for `status`; None: it did not."""
        self._problem_kind: str | None = None
        """The class of the error for which the start failed."""
        self._tasks = Tasks(f"work of {name}")
        self._started = asyncio.ensure_future(self._begin())

    async def start(self) -> None:
        """Wait until the actor is up. Raises what went wrong, in words. May be called again."""
        await asyncio.shield(self._started)

    @abstractmethod
    async def _open(self) -> None:
        """Open files, sockets and links."""

    async def _begin(self) -> None:
        name_this_thread(LOOP_NAME)
        try:
            log_to_file(self._data_dir, self._name)
            await self._open()
        except Exception as error:
            self._problem_kind = type(error).__name__
            self._problem = f"{self._problem_kind}: {error}"
            log.error("cannot start: %s", self._problem)
            raise RuntimeError(self._problem) from error
        gc.collect()
        gc.freeze()  # what the start loaded never dies: keep collections short
        self._spawn(_rest())

    def _unwrap(self, *names: str) -> None:
        """Have these methods called directly. Ray wraps every method of the class that it makes of ours, to
        trace remote calls, which costs a quarter of a microsecond for each call within the process, too."""
        for name in names:
            setattr(self, name, MethodType(inspect.unwrap(getattr(type(self), name)), self))

    def _spawn(self, work: Awaitable[Any]) -> None:
        """Run `work` beside the actor's other work, and keep it until it is done."""
        self._tasks.spawn(work)


async def _rest() -> None:
    """Let the main thread rest. At any moment it may be busy: then it is looked at again."""
    for _ in range(REST_TRIES):
        if look_for_signals_rarely():
            return
        await asyncio.sleep(REST_INTERVAL_S)
    log.info("the main thread goes on looking for signals a hundred times a second")
