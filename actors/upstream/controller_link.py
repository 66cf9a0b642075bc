"""The connection to the upstream's active controller: found among the controllers, asked one request at a
time, and looked for again when it is lost.

The controller closes the connection on a version that it does not speak, so its ApiVersions is asked first.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from actors.network.wire import Closed, Wire
from actors.upstream.controller import Controller, newest_version
from actors.upstream.controllers import (
    ADDRESSES_MAX,
    SOFTWARE,
    UNREADABLE,
    ActiveController,
    Address,
    CannotFollow,
    Connect,
    Elsewhere,
    find_active,
    version_of,
)
from actors.upstream.requests import NEEDED_VERSIONS, Answer, Request
from actors.upstream.wire_form import answer_of, fields_of

REQUEST_TIMEOUT_S: Final = 4.0
"""How long an answer may take: two of these, and a session of 9 s has not run out."""
FIND_TIMEOUT_S: Final = 30.0
"""How long the active controller is looked for before whoever asked is told why there is none."""
BACK_OFF_S: Final = (0.05, 0.1, 0.2, 0.5, 1.0)
"""The pauses between looks at all controllers; the last one is that of all further ones."""


class ControllerNotFound(Exception):
    """Raised if no address leads to an active controller; the text says why."""


class LinkLost(Exception):
    """Raised if a request has no answer, for whatever reason: it may have been carried out."""


class ControllerLink:
    """One connection to whichever controller is active."""

    def __init__(self, connect: Connect, bootstrap: Sequence[Address]) -> None:
        """`bootstrap` are addresses of controllers, of which one has to be up."""
        self._connect = connect
        self._bootstrap = tuple(bootstrap)
        self._known: tuple[Address, ...] = ()
        self._address: Address | None = None
        self._left: Address | None = None
        """The controller that gave no answer last. It may be frozen: everybody else is asked before it."""
        self._wire: Wire | None = None
        self._controller: Controller | None = None
        self._asking = asyncio.Lock()

    async def find(self) -> Controller:
        """Connect to the active controller, and return what it says of itself. Raises
        ControllerNotFound."""
        deadline = time.monotonic() + FIND_TIMEOUT_S
        for pause_s in itertools.chain(BACK_OFF_S, itertools.repeat(BACK_OFF_S[-1])):
            await self.close()
            try:
                return await self._try()
            except CannotFollow as error:
                raise ControllerNotFound(str(error)) from error
            except (OSError, Closed, Elsewhere, *UNREADABLE) as error:  # a TimeoutError is an OSError
                if time.monotonic() + pause_s > deadline:
                    problem = str(error) or type(error).__name__
                    raise ControllerNotFound(f"no active controller is found: {problem}") from error
            await asyncio.sleep(pause_s)
        raise AssertionError("the pauses have no end")

    async def _try(self) -> Controller:
        known = dict.fromkeys((*self._known, *self._bootstrap))
        addresses = sorted(known, key=lambda address: address == self._left)
        active = await find_active(self._connect, addresses)
        try:
            self._controller = _controller(active, await features_of(active))
        except BaseException:
            await active.wire.close()
            raise
        self._wire, self._known = active.wire, active.addresses[:ADDRESSES_MAX]
        self._address, self._left = active.address, None
        return self._controller

    async def call(self, request: Request) -> Answer:
        """Send one request and return its answer. Raises LinkLost, after which `find` connects again."""
        async with self._asking:
            if self._wire is None or self._controller is None:
                raise LinkLost("there is no connection to the active controller")
            version = newest_version(self._controller, type(request))
            if version is None:
                raise LinkLost(f"the controller does not speak {type(request).__name__} as this release does")
            fields = fields_of(request, version, round(REQUEST_TIMEOUT_S * 1000))
            api = NEEDED_VERSIONS[type(request)].api
            try:
                answer = await self._wire.call(api, version, timeout_s=REQUEST_TIMEOUT_S, **fields)
            except (OSError, Closed, *UNREADABLE) as error:
                self._left = self._address
                await self.close()
                raise LinkLost(f"{api}: {str(error) or type(error).__name__}") from error
            except asyncio.CancelledError:
                await self.close()  # its answer would be taken for the next one's
                raise
            return answer_of(request, answer)

    async def close(self) -> None:
        """Close the connection, if there is one."""
        wire, self._wire, self._controller = self._wire, None, None
        if wire is not None:
            with suppress(OSError):
                await wire.close()


async def features_of(active: ActiveController) -> Mapping[str, Any]:
    """Ask for the features, which the versions of requests come with. Before version 4 of the request those
    that may be at level 0 are not among the supported ones (KIP-1022)."""
    return await active.wire.call(
        "api_versions",
        version_of("api_versions", active.versions, (4,)) or 3,
        timeout_s=REQUEST_TIMEOUT_S,
        **SOFTWARE,
    )


def _controller(active: ActiveController, features: Mapping[str, Any]) -> Controller:
    return Controller(
        active.cluster_id or "",
        frozenset(active.voters),
        active.versions,
        {row["name"]: row["max_version"] for row in features["supported_features"]},
        {row["name"]: row["max_version_level"] for row in features["finalized_features"]},
    )
