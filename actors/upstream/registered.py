"""Keeps one node registered with the upstream cluster: runs its state machine against the active controller.

What the machine decides is in `actors/upstream/registration.py`. Here are the clock, the connection and the
disk: an epoch is on disk before the first heartbeat names it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

from actors.ground.clock import monotonic_ms
from actors.upstream import identity
from actors.upstream.controller_link import ControllerLink, ControllerNotFound, LinkLost
from actors.upstream.node import TierNode
from actors.upstream.registration import Facts, FindController, Over, Registration, Wait
from actors.upstream.states import State

log = logging.getLogger(__name__)

LOOK_MS: Final = 100
"""How often facts are looked at while the machine waits and nobody calls `look`."""


class RegistrationRefused(Exception):
    """Raised if the node cannot be a broker of the upstream cluster; the text says why and what to do."""


class RegisteredNode:
    """One node's registration. `run` ends when the node has left."""

    def __init__(
        self, node: TierNode, directory: Path, link: ControllerLink, facts: Callable[[], Facts]
    ) -> None:
        """Read the node's identity from its directory, or make it. Raises IdentityRefused, NodeInvalid,
        OSError. `facts` says what is known now; it must not block."""
        self._directory = directory
        self._link = link
        self._facts = facts
        kept = identity.of_node(directory, node.cluster_id, node.broker_id, uuid4().bytes)
        registered = facts().registered
        if (
            registered is not None
            and registered.in_controlled_shutdown
            and registered.incarnation_id == kept.incarnation_id
        ):
            kept = identity.renewed(directory, kept, uuid4().bytes)
        self._kept = kept
        self._machine = Registration(node, self._kept.incarnation_id, self._kept.broker_epoch)
        self._looked = asyncio.Event()

    @property
    def state(self) -> State:
        """What the node is to the upstream cluster."""
        return self._machine.state

    @property
    def broker_epoch(self) -> int:
        """The epoch of the registration, -1 before the first one."""
        return self._machine.broker_epoch

    def look(self) -> None:
        """Have the machine look at the facts now, because they have changed."""
        self._looked.set()

    def leave(self, *, unregister: bool) -> None:
        """Have the node leave; `run` ends when it has."""
        self._machine.leave(unregister=unregister)
        self.look()

    async def run(self) -> None:
        """Register, and keep the registration alive until the node has left. Raises RegistrationRefused;
        OSError if the epoch cannot be written."""
        try:
            while True:
                step = self._machine.step(self._facts(), monotonic_ms())
                match step:
                    case Over():
                        if step.refusal is not None:
                            raise RegistrationRefused(step.refusal)
                        return
                    case Wait():
                        await self._wait(step.until_ms)
                    case FindController():
                        await self._find()
                    case request:
                        try:
                            answer = await self._link.call(request)
                        except LinkLost as error:
                            self._machine.failed(str(error))
                        else:
                            self._machine.answered(answer, monotonic_ms())
                            await self._keep()
                self._tell()
        finally:
            self._tell()
            await self._link.close()

    async def _find(self) -> None:
        try:
            controller = await self._link.find()
        except ControllerNotFound as error:
            log.warning("%s; going on looking", error)
        else:
            self._machine.found(controller, monotonic_ms())

    async def _wait(self, until_ms: int) -> None:
        ahead_ms = min(max(until_ms - monotonic_ms(), 1), LOOK_MS)
        with suppress(TimeoutError):
            async with asyncio.timeout(ahead_ms / 1000):
                await self._looked.wait()
        self._looked.clear()

    async def _keep(self) -> None:
        epoch = self._machine.broker_epoch
        if epoch != self._kept.broker_epoch:
            kept = self._kept._replace(broker_epoch=epoch)
            await asyncio.to_thread(identity.write, self._directory, kept)
            self._kept = kept

    def _tell(self) -> None:
        for happened in self._machine.told():
            log.info("%s", happened)
