"""Actors of a tier whose machines have a Ray each: they are found and called through their machines' agents.

An actor and a command ask the agent of one machine, which passes on what concerns another one
(`cluster.machine.agent`). Questions are asked on a thread of their own, so that they can be waited for from
any thread and from any loop. Nothing that a client waits for comes this way.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from actors.ground.calls import ActorCallError
from actors.machines.link import Link, MachineUnreachable

FIND_TIMEOUT_S: Final = 2.5
MAKE_TIMEOUT_S: Final = 20.0
START_TIMEOUT_S: Final = 300.0
"""How long, in seconds, a call without a time-out of its own may take."""

PING_INTERVAL_S: Final = 0.5
PING_TIMEOUT_S: Final = 1.0

Ref = concurrent.futures.Future[Any]


class FarActor(NamedTuple):
    """A handle of an actor: it stays good when the actor, its process or its machine's Ray start anew."""

    machine: str
    """The address of its machine's agent."""
    name: str
    namespace: str


class Machines:
    """A tier's machines, asked through the first of these agents that answers."""

    def __init__(self, addresses: Sequence[str], secret: bytes) -> None:
        self._loop = asyncio.new_event_loop()
        self._links = [Link(address, secret) for address in addresses]
        threading.Thread(target=self._run, name="machines", daemon=True).start()
        if len(addresses) > 1:
            asyncio.run_coroutine_threadsafe(self._watch(), self._loop)

    def find(self, name: str, namespace: str) -> FarActor | None:
        """Return an actor's handle; None if no machine that can be reached has it. Blocks."""
        machine = self.ask("find", name, namespace, timeout_s=FIND_TIMEOUT_S).result()
        return None if machine is None else FarActor(machine, name, namespace)

    def list_actors(self, namespace: str) -> set[str]:
        """Return the names of the actors on all machines that can be reached. Blocks."""
        names: set[str] = self.ask("list", namespace, timeout_s=FIND_TIMEOUT_S).result()
        return names

    def create(self, machine: str, *args: Any) -> FarActor:
        """Make an actor on a machine. Blocks. Raises ValueError if the name is taken, MachineUnreachable."""
        name, namespace = self.ask("create", machine, *args, timeout_s=MAKE_TIMEOUT_S).result()
        return FarActor(machine, name, namespace)

    def kill(self, handle: FarActor, no_restart: bool) -> None:
        self.ask("kill", handle, no_restart, timeout_s=FIND_TIMEOUT_S).result()

    def call(self, handle: FarActor, method: str, args: Sequence[Any], timeout_s: float) -> Ref:
        return self.ask("call", handle, method, tuple(args), timeout_s, timeout_s=timeout_s)

    def list_machines(self) -> dict[str, bool]:
        """Return every machine, and whether it answers. Blocks."""
        answers: dict[str, bool] = self.ask("machines", timeout_s=FIND_TIMEOUT_S).result()
        return answers

    def moves(self) -> tuple[tuple[str, str, int], ...]:
        """Return the machines that have another address now: (former address, address, since when in ms).
        Blocks."""
        return tuple(map(tuple, self.ask("moves", timeout_s=FIND_TIMEOUT_S).result()))

    def releases(self) -> dict[str, dict[str, Any] | None]:
        """Return what every machine says of its release; None for one that does not answer. Blocks."""
        answers: dict[str, dict[str, Any] | None] = self.ask("releases", timeout_s=FIND_TIMEOUT_S).result()
        return answers

    def form(self, namespace: str) -> None:
        """Tell all machines that a tier is formed: its replicas have journals by now. Blocks."""
        self.ask("form", namespace, timeout_s=FIND_TIMEOUT_S).result()

    def is_formed(self, namespace: str) -> bool:
        """Return whether one of the machines was told so. Blocks. Raises ActorCallError, also if the machine
        that is asked has an older release."""
        answer: bool = self.ask("is_formed", namespace, timeout_s=FIND_TIMEOUT_S).result()
        return answer

    def ask(self, op: str, *args: Any, timeout_s: float) -> Ref:
        """Begin to ask; the future has the answer, or raises like `Link.ask`."""
        return asyncio.run_coroutine_threadsafe(self._ask(op, args, timeout_s), self._loop)

    async def _ask(self, op: str, args: tuple[Any, ...], timeout_s: float) -> Any:
        tried = tuple(self._links)
        for link in tried:
            try:
                return await link.ask(op, *args, timeout_s=timeout_s)
            except MachineUnreachable:
                self._put_last(link)
                if link is tried[-1]:
                    raise
        raise AssertionError("there is no machine to ask")

    async def _watch(self) -> None:
        """Give up a machine that was cut off, which closes no connection: whoever waits for it need not."""
        while True:
            link = self._links[0]
            try:
                await link.ask("machines", timeout_s=PING_TIMEOUT_S)
            except (ActorCallError, TimeoutError):
                link.close()
                self._put_last(link)
            await asyncio.sleep(PING_INTERVAL_S)

    def _put_last(self, link: Link) -> None:
        """Ask another machine first from now on."""
        self._links.remove(link)
        self._links.append(link)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
