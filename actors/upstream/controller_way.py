"""Pass requests on to the upstream cluster's active controller, as the clients who made them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from kio.schema.errors import ErrorCode

from actors.ground.identity import ClientIdentity
from actors.network.frames import with_length
from actors.upstream.controllers import (
    ADDRESSES_MAX,
    UNREADABLE,
    Address,
    CannotFollow,
    Connect,
    Elsewhere,
    find_active,
)
from actors.upstream.envelope import enveloped, opened
from actors.upstream.forwarding import Forwarding

log = logging.getLogger(__name__)

TRIES_MAX: Final = 5
"""How often a request is sent that a controller has not carried out, because it is not the active one."""
AGAIN_S: Final = 0.2


class ControllerWay:
    """The way to the active controller, which is looked for among `bootstrap` and those that it names."""

    def __init__(self, connect: Connect, bootstrap: Sequence[Address], client_id: str) -> None:
        self._connect = connect
        self._bootstrap = tuple(bootstrap)
        self._client_id = client_id
        self._known: tuple[Address, ...] = ()
        self._active: Address | None = None
        self._finding = asyncio.Lock()
        self._way = Forwarding(connect, self._addresses)

    async def forward(self, identity: ClientIdentity, frame: bytes, *, may_repeat: bool) -> bytes | None:
        """Return the answer to a client's request (a frame without its length), with its length; None if none
        can be had: then it may have been carried out all the same, unless it changes nothing."""
        envelope = enveloped(frame, identity, self._client_id)
        for left in reversed(range(TRIES_MAX)):
            if not await self._found():
                return None
            answer = await self._way.forward(envelope, may_repeat=may_repeat)
            if answer is None:
                self._active = None
                return None
            try:
                error_code, answered = opened(answer)
            except UNREADABLE as error:
                log.warning("the controller's answer to an envelope cannot be read: %s", error)
                return None
            if error_code == ErrorCode.none and answered is not None:
                return with_length(answered)
            self._active = None
            if error_code != ErrorCode.not_controller:
                log.warning("the controller refuses a client's request: %s", error_code.name.upper())
                return None
            if left:
                await asyncio.sleep(AGAIN_S)
        return None

    async def close(self) -> None:
        """Close what is idle."""
        await self._way.close()

    def _addresses(self) -> list[Address]:
        return [] if self._active is None else [self._active]

    async def _found(self) -> bool:
        """Return whether the active controller is known, after looking for it if it was not."""
        async with self._finding:
            if self._active is not None:
                return True
            addresses = tuple(dict.fromkeys((*self._known, *self._bootstrap)))
            try:
                active = await find_active(self._connect, addresses)
            except (CannotFollow, Elsewhere) as error:
                log.info("no controller takes a client's request: %s", error)
                return False
            await active.wire.close()
            self._active, self._known = active.address, active.addresses[:ADDRESSES_MAX]
            return True
