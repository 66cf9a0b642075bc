"""Plug-ins that assign groups, run for the shard by its actor: each in a thread, with a deadline.

The shard asks for an assignment by `AssignmentAsked` and hears of the outcome by `ASSIGNED`. A thread cannot
be stopped: one that does not come back keeps its place, and when no place is left, groups are told so at
their deadline.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from actors.assignors.registry import AssignorError, PlugIn, named
from actors.assignors.spec import Assignment
from actors.coordinator.consumer.assignment_jobs import ASSIGNED, AssignedRequest, AssignmentAsked
from actors.ground.limits import PLUG_IN_THREADS_MAX
from actors.ground.settings import GroupSettings
from actors.ground.tasks import Tasks

AskShard = Callable[[int, Any], Awaitable[Any]]
"""A function that asks the shard: (api key, body) -> the shard's answer."""


class PlugInAssignments:
    """The plug-ins' assignments that one replica has under way."""

    takes = (AssignmentAsked,)
    """The classes of the events that are given to `on_event`."""

    def __init__(self, settings: GroupSettings, ask_shard: AskShard) -> None:
        self._entries = settings.group_consumer_assignors
        self._timeout_s = settings.group_consumer_assignor_timeout_ms / 1000
        self._ask_shard = ask_shard
        self._places = asyncio.Semaphore(PLUG_IN_THREADS_MAX)
        self.tasks = Tasks("an assignment by a plug-in")

    def on_event(self, event: AssignmentAsked) -> None:
        """Take the event that asks for a plug-in's assignment."""
        self.tasks.spawn(self._assign(event))

    def close(self) -> None:
        self.tasks.close()

    async def _assign(self, asked: AssignmentAsked) -> None:
        assignment, error = None, ""
        try:
            assignment = await asyncio.wait_for(self._in_thread(asked), self._timeout_s)
        except TimeoutError:
            error = f"{asked.assignor} did not assign within {self._timeout_s:g} s"
            if self._places.locked():
                error += f": {PLUG_IN_THREADS_MAX} calls have not come back"
        except AssignorError as failure:
            error = str(failure)
        body = AssignedRequest(asked.group_id, asked.group_epoch, asked.assignor, assignment, error)
        await self._ask_shard(ASSIGNED, body)

    async def _in_thread(self, asked: AssignmentAsked) -> Assignment:
        await self._places.acquire()
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Assignment] = loop.create_future()

        def tell(assignment: Assignment | None, error: Exception | None) -> None:
            self._places.release()
            if outcome.done():
                return
            if error is None and assignment is not None:
                outcome.set_result(assignment)
            else:
                outcome.set_exception(AssignorError(str(error)))

        def work() -> None:
            found: tuple[Assignment | None, Exception | None]
            try:
                assignor = named(self._entries)[asked.assignor]
                assert isinstance(assignor, PlugIn)
                found = assignor.assign(asked.spec), None
            except Exception as error:  # told to whoever asked, whatever it is
                found = None, error
            with contextlib.suppress(RuntimeError):  # the loop may be closed by now
                loop.call_soon_threadsafe(tell, *found)

        threading.Thread(target=work, name=f"assignor {asked.assignor}", daemon=True).start()
        return await outcome
