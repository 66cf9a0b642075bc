"""Requests that a replica makes for the tier itself: of its own shard, and of its node's broker."""

from __future__ import annotations

import asyncio
from typing import Any

from actors.api.transaction_relay import ANSWER_TIMEOUT_S
from actors.ground.contract import Request, Token
from actors.ground.identity import TIER
from actors.network.link import Link
from actors.protocol import codec
from actors.protocol.headers import Header
from actors.replica.host import ReplicaHost

BROKER_TIMEOUT_S = ANSWER_TIMEOUT_S + 1.0
"""Longer than the broker's own time-out, so that the answers it has by then are not lost with the rest."""


class OwnRequests:
    """One replica's requests under way. Their tokens are negative; those of clients' requests are not."""

    def __init__(self, host: ReplicaHost, link: Link) -> None:
        self._host = host
        self._link = link
        self._asked: dict[Token, asyncio.Future[Any]] = {}
        self._last_token = 0

    async def ask_shard(self, api_key: int, body: Any) -> Any:
        """Return the shard's answer once all that it decided is committed; a refusal if this is no leader."""
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
        """Return what the node's broker answers, which passes the request on to other leaders; or None."""
        header = Header(api_key, api_version, 0)
        frame = codec.encode_request(header, entity)[4:]
        answer = await self._link.relay(TIER, frame, BROKER_TIMEOUT_S)
        return None if answer is None else codec.decode_response(header, answer)
