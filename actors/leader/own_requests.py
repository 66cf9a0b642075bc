"""Requests that a replica makes for the tier itself, to its own shard and to its node's broker."""

from __future__ import annotations

import asyncio
from typing import Any

from actors.catalog import codec
from actors.ground.contract import Request, Token
from actors.ground.identity import TIER
from actors.ground.limits import ANSWER_TIMEOUT_S
from actors.network.link import Link
from actors.protocol.header import Header
from actors.replica.host import ReplicaHost

BROKER_TIMEOUT_S = ANSWER_TIMEOUT_S + 1.0
"""How long the node's broker is waited for, in seconds: longer than it waits itself, so that the answers that
it has by then are not lost with the rest."""


class OwnRequests:
    """The requests that one replica has under way. Their tokens are negative; those of clients' requests are
    not."""

    def __init__(self, host: ReplicaHost, link: Link) -> None:
        self._host = host
        self._link = link
        self._asked: dict[Token, asyncio.Future[Any]] = {}
        self._last_token = 0

    async def ask_shard(self, api_key: int, body: Any) -> Any:
        """Return the shard's answer once all that it decided is committed. It is a refusal if this replica
        does not lead."""
        host = self._host
        token = self._last_token = self._last_token - 1
        answer = self._asked[token] = asyncio.get_running_loop().create_future()
        try:
            response: Any = host.replica.submit(Request(token, api_key, 0, "", "", body), host.now_ms())
            host.wake()
            return await answer if response is None else response
        finally:
            del self._asked[token]

    def release(self, token: Token, response: Any) -> None:
        """Take the replica's answer to a request that had to wait."""
        answer = self._asked.get(token)
        if answer is not None and not answer.done():
            answer.set_result(response)

    async def ask_broker(self, api_key: int, api_version: int, entity: Any) -> Any:
        """Return what the node's broker answers, which passes the request on to other leaders; None if there
        is no answer."""
        header = Header(api_key, api_version, 0)
        frame = codec.encode_request(header, entity)[4:]
        answer = await self._link.relay(TIER, frame, BROKER_TIMEOUT_S)
        return None if answer is None else codec.decode_response(header, answer)
