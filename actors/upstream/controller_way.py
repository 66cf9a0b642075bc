"""Pass requests on to the upstream cluster's active controller, as the clients who made them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from kio.schema.errors import ErrorCode

from actors.ground.identity import ClientIdentity
from actors.network.frames import with_length
from actors.network.wire import Wire
from actors.upstream.controllers import (
    ADDRESSES_MAX,
    UNREADABLE,
    Address,
    CannotFollow,
    Connect,
    Elsewhere,
    Versions,
    find_active,
    words,
)
from actors.upstream.envelope import enveloped, opened
from actors.upstream.forwarding import Forwarding

log = logging.getLogger(__name__)

TRIES_MAX: Final = 5
"""How often a request is sent that a controller has not carried out, because it is not the active one."""
AGAIN_S: Final = 0.2


class ControllerWay:
    """The way to the active controller of cluster `cluster_id` (None: of whichever is found), which is looked
    for among `bootstrap` and those that it names.

    It is looked for by whoever connects to it, so that what waits for that is bounded as all that is passed
    on."""

    def __init__(
        self, connect: Connect, bootstrap: Sequence[Address], client_id: str, cluster_id: str | None = None
    ) -> None:
        self._connect = connect
        self._bootstrap = tuple(bootstrap)
        self._client_id = client_id
        self._cluster_id = cluster_id
        self._known: tuple[Address, ...] = ()
        self._way = Forwarding(self._connected, lambda: self._bootstrap[:1])

    async def forward(self, identity: ClientIdentity, frame: bytes, *, may_repeat: bool) -> bytes | None:
        """Return the answer to a client's request (a frame without its length), with its length; None if none
        can be had: then it may have been carried out all the same, unless it changes nothing."""
        envelope = enveloped(frame, identity, self._client_id)
        for left in reversed(range(TRIES_MAX)):
            answer = await self._way.forward(envelope, may_repeat=may_repeat)
            if answer is None:
                return None
            try:
                error_code, answered = opened(answer)
            except UNREADABLE as error:
                log.warning("the controller's answer to an envelope cannot be read: %s", error)
                return None
            if error_code == ErrorCode.none and answered is not None:
                return with_length(answered)
            if error_code != ErrorCode.not_controller:
                log.warning("the controller refuses a client's request: %s", error_code.name.upper())
                return None
            await self._way.close()  # another one is looked for
            if left:
                await asyncio.sleep(AGAIN_S)
        return None

    async def close(self) -> None:
        """Close what is idle."""
        await self._way.close()

    async def _connected(self, address: Address) -> tuple[Wire, Versions]:
        """Connect to the active controller, wherever it is. Raises ConnectionError that says why not."""
        addresses = tuple(dict.fromkeys((*self._known, *self._bootstrap)))
        try:
            active = await find_active(self._connect, addresses)
        except (CannotFollow, Elsewhere) as error:
            raise ConnectionError(f"no controller takes a client's request: {error}") from error
        if self._cluster_id is not None and active.cluster_id not in (None, self._cluster_id):
            await active.wire.close()
            raise ConnectionError(f"{words(active.address)} is a controller of cluster {active.cluster_id}")
        self._known = (active.address, *active.addresses)[:ADDRESSES_MAX]
        return active.wire, active.versions
