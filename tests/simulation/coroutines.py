"""An event loop for the coroutines of one simulated process: production code that is written for asyncio runs
on it, in the order and at the times of the world.

What `loop.SimLoop` says of paused and dead processes holds here too. What a thread does is done at
once, and its outcome comes a moment later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any

from tests.simulation.loop import SimLoop, Turning

THREAD_S = (0.0001, 0.002)
"""How long work in a thread takes."""


class Coroutines(asyncio.AbstractEventLoop):
    def __init__(self, process: Turning) -> None:
        self.process = process
        self._loop = SimLoop(process)
        self._tasks: list[asyncio.Task[Any]] = []

    def close(self) -> None:
        """End what is under way: the process has ended."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            if not task.done():
                coroutine: Any = task.get_coro()
                coroutine.close()

    # What asyncio asks of a loop.

    def time(self) -> float:
        return self._loop.time()

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._loop.call_soon(lambda: self._run(handle))
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._loop.call_at(when, lambda: self._run(handle))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, Any], **others: Any) -> asyncio.Task[Any]:  # type: ignore[override]
        self._tasks = [task for task in self._tasks if not task.done()]
        task = asyncio.Task(coro, loop=self, **others)
        self._tasks.append(task)
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        outcome = self.create_future()

        def work() -> None:
            if outcome.cancelled():
                return
            try:
                outcome.set_result(func(*args))
            except Exception as error:
                outcome.set_exception(error)

        self.call_later(self.process.world.chance.uniform(*THREAD_S), work)
        return outcome

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Raise what a callback raised. What a task raised is for whoever has the task."""
        if "handle" in context:
            raise context["exception"]

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: a handle that was cancelled does nothing when its time comes."""

    def _run(self, handle: asyncio.Handle) -> None:
        if handle.cancelled():
            return
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            handle._run()
        finally:
            asyncio._set_running_loop(before)
