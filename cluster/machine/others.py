"""The other machines of a tier: which there are, which of them answer, and what they say when they are asked.

Every machine asks every other twice a second whether it is there. With the answer comes which machines that
one knows, so that one that joined anywhere is soon known everywhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from actors.ground.calls import ActorCallError
from actors.machines.link import Link
from cluster.machine import identity
from cluster.machine.identity import Identity
from cluster.machine_moves import Moves

log = logging.getLogger("groupd.machine")

PING_INTERVAL_S: Final = 0.5
PING_TIMEOUT_S: Final = 1.0
SILENT_S: Final = 2.0
"""How long, in seconds, a machine may be silent before questions to all machines leave it out."""
MACHINES_MAX: Final = 1_000
RELAY_TIMEOUT_S: Final = 300.0


class Others:
    """The other machines, as this one sees them."""

    def __init__(self, directory: Path, me: Identity, secret: bytes, clock: Callable[[], float]) -> None:
        self._directory = directory
        self.me = me
        self._secret = secret
        self._clock = clock
        self._links: dict[str, Link] = {}
        self._heard_at: dict[str, float] = {}
        self._watches: dict[str, asyncio.Task[None]] = {}

    def begin(self) -> None:
        """Begin to look after every machine that is known."""
        for address in self.me.others:
            if address not in self._watches:
                self._watches[address] = asyncio.ensure_future(self._watch(address))

    def belong(self, cluster: str) -> None:
        """Take the id of the machines that this one belongs to now."""
        self.me = replace(self.me, cluster=cluster)
        identity.write(self._directory, self.me)

    def learn(self, addresses: Iterable[str]) -> None:
        """Take in machines that others know. Those beyond a bound are left out."""
        known = identity.with_others(self.me, set(addresses))
        if known.others != self.me.others and len(known.others) < MACHINES_MAX:
            self.me = known
            identity.write(self._directory, known)
            log.info("the other machines are %s", ", ".join(known.others))
            self.begin()

    def take_moves(self, moves: Moves) -> bool:
        """Learn that machines have other addresses now. Return whether this was news."""
        known = identity.with_moves(self.me, moves)
        if known == self.me:
            return False
        for address in set(self.me.others).difference(known.others):
            if (watch := self._watches.pop(address, None)) is not None:
                watch.cancel()
            if (link := self._links.pop(address, None)) is not None:
                link.close()
        self.me = known
        identity.write(self._directory, known)
        log.info("machines have other addresses: %s", ", ".join(f"{a} is {b} now" for a, b, _ in known.moved))
        self.begin()
        return True

    def close(self) -> None:
        for watch in self._watches.values():
            watch.cancel()
        for link in self._links.values():
            link.close()

    def answering(self) -> list[str]:
        """Return the machines that have answered lately."""
        since = self._clock() - SILENT_S
        return [address for address in self.me.others if self._heard_at.get(address, since) > since]

    async def ask(self, address: str, op: str, *args: Any, timeout_s: float = RELAY_TIMEOUT_S) -> Any:
        """Ask one machine. Raises like `Link.ask`."""
        if address not in self._links:
            self._links[address] = Link(address, self._secret)
        return await self._links[address].ask(op, *args, timeout_s=timeout_s)

    async def ask_all(self, op: str, *args: Any, timeout_s: float) -> dict[str, Any]:
        """Ask all machines that answer, at once. Return the answers by machine; who fails to answer is left
        out."""
        asked = self.answering()
        answers = await asyncio.gather(
            *(self.ask(address, op, *args, timeout_s=timeout_s) for address in asked), return_exceptions=True
        )
        return {
            address: answer
            for address, answer in zip(asked, answers, strict=True)
            if not isinstance(answer, BaseException)
        }

    async def _tell_moves(self, address: str) -> None:
        """Tell a machine that has been away which ones have other addresses now."""
        if self.me.moved:
            with contextlib.suppress(ActorCallError, TimeoutError, OSError):
                await self.ask(address, "moved", self.me.moved, timeout_s=PING_TIMEOUT_S)

    async def _watch(self, address: str) -> None:
        while True:
            try:
                known = await self.ask(address, "ping", self.me.address, timeout_s=PING_TIMEOUT_S)
            except (ActorCallError, TimeoutError, OSError) as error:
                if self._heard_at.pop(address, None) is not None:
                    log.warning("machine %s is silent: %s", address, error or "no answer")
            else:
                if address not in self._heard_at:
                    log.info("machine %s answers", address)
                    await self._tell_moves(address)
                self._heard_at[address] = self._clock()
                self.learn(known)
            await asyncio.sleep(PING_INTERVAL_S)
