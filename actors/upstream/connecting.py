"""Connect to controllers and brokers of the upstream cluster as actors do: without TLS or authentication."""

from __future__ import annotations

import asyncio
from typing import Final

from actors.network.wire import Wire
from actors.upstream.controllers import Address, Connect, Versions

CONNECT_TIMEOUT_S: Final = 5.0
API_VERSIONS_VERSION: Final = 0
"""The version of ApiVersions that every Kafka answers."""


async def offered(wire: Wire, timeout_s: float = CONNECT_TIMEOUT_S) -> Versions:
    """Ask which versions of each API a server offers. Raises Closed and TimeoutError."""
    answer = await wire.call("api_versions", API_VERSIONS_VERSION, timeout_s=timeout_s)
    return {row["api_key"]: (row["min_version"], row["max_version"]) for row in answer["api_keys"]}


def connector(client_id: str) -> Connect:
    """Return a function that connects; `client_id` is who the brokers' logs name."""

    async def connect(address: Address) -> tuple[Wire, Versions]:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            wire = await Wire.connect(*address, client_id)
        try:
            return wire, await offered(wire)
        except BaseException:
            await wire.close()
            raise

    return connect
