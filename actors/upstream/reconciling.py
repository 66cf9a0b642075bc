"""Sends what a reconcile asks for to the upstream's controller, and brings the answers back.

What is decided is in `actors/upstream/leadership.py` and `actors/upstream/moving.py`. A controller answers
one request of a connection at a time, and a write takes it tens of milliseconds: so there are a few
connections, and what is asked in one turn goes out on all of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final, Generic, Protocol, TypeVar

from kio.schema.errors import ErrorCode

from actors.ground.clock import monotonic_ms
from actors.upstream.controller import Controller
from actors.upstream.controller_link import ControllerLink, ControllerNotFound, LinkLost
from actors.upstream.requests import Answer, Request

log = logging.getLogger(__name__)

LOOK_S: Final = 0.1
"""How often facts are looked at while nobody calls `look`: what was refused is tried again then."""


LINK_S: Final = 1.0
"""How long a request may wait for a connection."""


F = TypeVar("F")
F_contra = TypeVar("F_contra", contravariant=True)


class Turn(Protocol):
    """What is to be sent now, in any order, and what is to be told."""

    @property
    def requests(self) -> Sequence[Request]: ...
    @property
    def reports(self) -> Sequence[object]: ...


class Reconcile(Protocol[F_contra]):
    """What decides, by facts, what to ask of the controller."""

    def turn(self, facts: F_contra, now_ms: int) -> Turn: ...
    def answered(self, request: Any, answer: Answer, now_ms: int) -> None: ...
    def lost(self, request: Any, now_ms: int) -> None: ...


class Reconciling(Generic[F]):
    """Has the upstream's controller carry out what a reconcile asks for, for as long as `run` runs."""

    def __init__(
        self, links: Sequence[ControllerLink], facts: Callable[[], F], reconcile: Reconcile[F]
    ) -> None:
        """`facts` says what is known now; it must not block. The links are closed when `run` ends."""
        self._links = tuple(links)
        self._facts = facts
        self._reconcile = reconcile
        self.controller: Controller | None = None
        """The active controller as it described itself last; None before one was found."""
        self._free: asyncio.Queue[ControllerLink] = asyncio.Queue()
        self._looked = asyncio.Event()
        self._sending: set[asyncio.Task[None]] = set()

    def look(self) -> None:
        """Have the reconcile look at the facts now, because they have changed."""
        self._looked.set()

    async def run(self) -> None:
        """Go on until cancelled."""
        try:
            for link in self._links:
                self._start(self._connect(link))
            while True:
                turn = self._reconcile.turn(self._facts(), monotonic_ms())
                for report in turn.reports:
                    log.info("%s", report)
                for request in turn.requests:
                    self._start(self._send(request))
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await self._looked.wait()
                self._looked.clear()
                self._raise_failed()
        finally:
            for task in self._sending:
                task.cancel()
            await asyncio.gather(*self._sending, return_exceptions=True)
            for link in self._links:
                await link.close()

    def _start(self, work: Coroutine[None, None, None]) -> None:
        self._sending.add(asyncio.create_task(work))

    def _raise_failed(self) -> None:
        """Forget what is done; raise what must not have happened."""
        done = {task for task in self._sending if task.done()}
        self._sending -= done
        for task in done:
            task.result()

    async def _connect(self, link: ControllerLink) -> None:
        """Find the active controller for a link, and let the link be used."""
        while True:
            try:
                self.controller = await link.find()
            except ControllerNotFound as error:
                log.warning("%s; going on looking", error)
            else:
                self._free.put_nowait(link)
                return

    async def _send(self, request: Request) -> None:
        try:
            async with asyncio.timeout(LINK_S):
                link = await self._free.get()
        except TimeoutError:
            self._reconcile.lost(request, monotonic_ms())  # it was decided on facts that are old by now
            return
        try:
            answer = await link.call(request)
        except LinkLost as error:
            log.info("the active controller is looked for again: %s", error)
            self._reconcile.lost(request, monotonic_ms())
            await self._connect(link)
        else:
            self._reconcile.answered(request, answer, monotonic_ms())
            self.look()
            if answer.error_code is ErrorCode.not_controller:
                await self._connect(link)
            else:
                self._free.put_nowait(link)
