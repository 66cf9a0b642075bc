"""Serve OffsetFetch for a group whose leader on this node was lost a moment ago.

When a Kafka broker dies, nothing answers on its port, and clients ask again until they have found the new
coordinator. Here the port lives on when a leader dies: a client that is quicker with its retry than the
election would be told NOT_COORDINATOR, after which librdkafka never repeats an OffsetFetch: its member then
owns partitions that it does not consume. So for a moment such a request waits for the new leader and is
passed on to it; if that cannot be, the connection is closed as a dead broker's would be.
"""

from __future__ import annotations

import asyncio
from typing import Final

from actors.api.transaction_relay import Ways
from actors.catalog import codec
from actors.catalog.headers import parse_header
from actors.ground.identity import ClientIdentity
from actors.ground.limits import ANSWER_TIMEOUT_S
from actors.protocol.api_keys import OFFSET_FETCH
from actors.protocol.header import Header

PASSED_ON_FOR_S: Final = 2.0
"""How long, in seconds, requests are passed on after a leader is lost: two election timeouts. Later clients
have long found the new coordinator."""
_LOOK_EVERY_S: Final = 0.005


class FallenLeaders:
    """The leaders that were lost a moment ago on the broker's node: their requests go on to new leaders."""

    def __init__(self, ways: Ways) -> None:
        self._ways = ways
        self._until: dict[int, float] = {}
        """Offsets partition -> until when its requests are passed on, by the loop's clock."""

    def fell(self, partition: int) -> None:
        """Note that the replica is gone that led the partition on this node."""
        self._until[partition] = asyncio.get_running_loop().time() + PASSED_ON_FOR_S

    def waits_for(self, header: Header, partitions: set[int]) -> bool:
        """Return whether `fetch` is to answer this request of groups of `partitions`."""
        if header.api_key != OFFSET_FETCH or len(partitions) != 1:
            return False
        return asyncio.get_running_loop().time() < self._until.get(next(iter(partitions)), 0.0)

    async def fetch(
        self, partition: int, identity: ClientIdentity, header: Header, frame: bytes, *, elsewhere: bool
    ) -> bytes | None:
        """Return the new leader's answer frame; None to close the connection. With `elsewhere`, another node
        may be asked, which takes this node's word for what the client may see."""
        loop = asyncio.get_running_loop()
        while loop.time() < self._until[partition]:
            slot = self._ways.leaders.slot_of(partition)
            if slot is not None:
                return await self._ways.hub.relay(slot, identity, frame, ANSWER_TIMEOUT_S)
            node_id = self._ways.leaders.node_of(partition)
            if node_id is not None and node_id != self._ways.node_id:
                return await self._from(node_id, header, frame) if elsewhere else None
            await asyncio.sleep(_LOOK_EVERY_S)
        return None

    async def _from(self, node_id: int, header: Header, frame: bytes) -> bytes | None:
        asked = codec.decode_entity(header, frame, parse_header(frame)[1])
        answer = await self._ways.peers.ask(
            node_id, header.api_key, header.api_version, asked, ANSWER_TIMEOUT_S
        )
        if answer is None:
            return None
        return codec.encode_entity(header.api_key, header.api_version, header.correlation_id, answer)
