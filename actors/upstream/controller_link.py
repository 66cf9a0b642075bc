"""The connection to the upstream's active controller: found among the controllers, asked one request at a
time, and looked for again when it is lost.

The controller closes the connection on a version that it does not speak, so its ApiVersions is asked first.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from actors.network.wire import Closed, Wire
from actors.protocol.api_keys import DESCRIBE_CLUSTER
from actors.upstream.controller import Controller, newest_version
from actors.upstream.requests import NEEDED_VERSIONS, Answer, Request
from actors.upstream.wire_form import answer_of, fields_of

Address = tuple[str, int]
Connect = Callable[[str, int], Awaitable[Wire]]
"""A function that opens a connection and logs in. It raises OSError or Closed."""

CONNECT_TIMEOUT_S: Final = 2.0
REQUEST_TIMEOUT_S: Final = 4.0
"""How long an answer may take: two of these, and a session of 9 s has not run out."""
FIND_TIMEOUT_S: Final = 30.0
"""How long the active controller is looked for before whoever asked is told why there is none."""
BACK_OFF_S: Final = (0.05, 0.1, 0.2, 0.5, 1.0)
"""The pauses between looks at all controllers; the last one is that of all further ones."""
CONTROLLERS_MAX: Final = 64
"""How many addresses of controllers are kept."""
_CONTROLLERS: Final = 2
"""The endpoint type of controllers in DescribeCluster (KIP-919)."""
_CLIENT: Final = "groupd-upstream"
_DESCRIBE_VERSION: Final = 1


class ControllerNotFound(Exception):
    """Raised if no address leads to an active controller; the text says of each why."""


class LinkLost(Exception):
    """Raised if a request has no answer, for whatever reason: it may have been carried out."""


class NotAController(Exception):
    """Raised if an address is that of something else; the text says what to do."""


async def connect_plainly(host: str, port: int) -> Wire:
    """Open a connection without encryption or authentication."""
    return await Wire.connect(host, port, _CLIENT)


class ControllerLink:
    """One connection to whichever controller is active."""

    def __init__(self, bootstrap: Sequence[Address], connect: Connect = connect_plainly) -> None:
        """`bootstrap` are addresses of controllers, of which one has to be up."""
        self._bootstrap = tuple(bootstrap)
        self._connect = connect
        self._known: tuple[Address, ...] = ()
        self._wire: Wire | None = None
        self._controller: Controller | None = None
        self._asking = asyncio.Lock()

    async def find(self) -> Controller:
        """Connect to the active controller, and return what it says of itself. Raises
        ControllerNotFound."""
        deadline = time.monotonic() + FIND_TIMEOUT_S
        for pause_s in itertools.chain(BACK_OFF_S, itertools.repeat(BACK_OFF_S[-1])):
            await self.close()
            problems: dict[Address, str] = {}
            for address in dict.fromkeys((*self._known, *self._bootstrap)):
                try:
                    return await self._try(address)
                except (OSError, Closed, NotAController) as error:  # a TimeoutError is an OSError
                    problems[address] = str(error) or type(error).__name__
            if time.monotonic() + pause_s > deadline:
                raise ControllerNotFound(f"no active controller is found: {_in_words(problems)}")
            await asyncio.sleep(pause_s)
        raise AssertionError("the pauses have no end")

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
            except (OSError, Closed) as error:
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

    async def _try(self, address: Address) -> Controller:
        """Connect to the controller that an address leads to, or that the one there names as the active
        one. Raises OSError, Closed, NotAController."""
        for _ in range(2):
            wire, versions, described = await self._look_at(address)
            active = described["controller_id"]
            self._known = tuple((row["host"], row["port"]) for row in described["brokers"][:CONTROLLERS_MAX])
            addresses = {row["broker_id"]: (row["host"], row["port"]) for row in described["brokers"]}
            if addresses.get(active) == address:
                self._wire, self._controller = wire, _controller(described, versions)
                return self._controller
            await wire.close()
            if active not in addresses:
                raise NotAController("the controllers elect an active one")
            address = addresses[active]
        raise NotAController("the active controller has changed meanwhile")

    async def _look_at(self, address: Address) -> tuple[Wire, dict[str, Any], dict[str, Any]]:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            wire = await self._connect(*address)
        try:
            versions = await _versions(wire)
            keys = {row["api_key"]: row["max_version"] for row in versions["api_keys"]}
            if keys.get(DESCRIBE_CLUSTER, 0) < _DESCRIBE_VERSION:
                raise NotAController(
                    "this is no controller of Kafka 3.7 or newer; give the controllers' listeners"
                )
            described = await wire.call(
                "describe_cluster",
                _DESCRIBE_VERSION,
                timeout_s=CONNECT_TIMEOUT_S,
                include_cluster_authorized_operations=False,
                endpoint_type=_CONTROLLERS,
            )
            if described["error_code"].value != 0:
                raise NotAController(
                    f"DescribeCluster is refused with {described['error_code'].name}: give the listeners of "
                    "controllers (controller.listener.names), not of brokers"
                )
        except BaseException:
            await wire.close()
            raise
        return wire, versions, described


async def _versions(wire: Wire) -> dict[str, Any]:
    answer = await wire.call(
        "api_versions",
        3,
        timeout_s=CONNECT_TIMEOUT_S,
        client_software_name="groupd",
        client_software_version="1",
    )
    if answer["error_code"].value != 0:
        raise NotAController(f"ApiVersions is refused with {answer['error_code'].name}")
    return answer


def _controller(described: Mapping[str, Any], versions: Mapping[str, Any]) -> Controller:
    return Controller(
        described["cluster_id"],
        frozenset(row["broker_id"] for row in described["brokers"]),
        {row["api_key"]: (row["min_version"], row["max_version"]) for row in versions["api_keys"]},
        {row["name"]: row["max_version"] for row in versions["supported_features"]},
        {row["name"]: row["max_version_level"] for row in versions["finalized_features"]},
    )


def _in_words(problems: Mapping[Address, str]) -> str:
    return "; ".join(f"{host}:{port}: {problem}" for (host, port), problem in problems.items())
