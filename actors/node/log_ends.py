"""Find where logs of the tier's topics end, for a leader that asks its node's broker: whichever broker leads
the log.

Clients send ListOffsets to the leader of a log, which alone answers it; here the parts of one request go to
the leaders of their logs.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from actors.catalog import codec
from actors.ground.image import NO_NODE, MetadataImage
from actors.ground.limits import ANSWER_TIMEOUT_S
from actors.network.peers import Peers
from actors.protocol.header import Header


class LogEnds:
    """The ends of logs, for the broker of node `node_id`. `list_here` answers for the logs that this broker
    leads; `ask_upstream` has a broker answer that is no node of the tier, if there are such brokers."""

    def __init__(
        self,
        node_id: int,
        peers: Peers,
        list_here: Callable[[Header, Any], Awaitable[Any]],
        ask_upstream: Callable[[int, Header, Any], Awaitable[Any]] | None = None,
    ) -> None:
        self._node_id = node_id
        self._peers = peers
        self._list_here = list_here
        self._ask_upstream = ask_upstream

    async def answer(self, image: MetadataImage, header: Header, entity: Any) -> Any:
        """Return kio's answer without the partitions that do not exist, have no leader, or whose leader does
        not answer in time. A topic comes once for each node that leads some of it."""
        parts: defaultdict[int | None, list[Any]] = defaultdict(list)
        for topic in entity.topics:
            of_node: defaultdict[int | None, list[Any]] = defaultdict(list)
            for partition in topic.partitions:
                of_node[image.leader_of(topic.name, partition.partition_index)].append(partition)
            for node_id, partitions in of_node.items():
                parts[node_id].append(replace(topic, partitions=tuple(partitions)))
        asked = (
            self._ask(image, node_id, header, replace(entity, topics=tuple(topics)))
            for node_id, topics in parts.items()
            if node_id is not None and node_id != NO_NODE
        )
        answers = [each for each in await asyncio.gather(*asked) if each is not None]
        topics = tuple(topic for answer in answers for topic in answer.topics)
        return codec.build(codec.response_class(header.api_key, header.api_version), topics=topics)

    async def _ask(self, image: MetadataImage, node_id: int, header: Header, entity: Any) -> Any:
        if node_id == self._node_id:
            return await self._list_here(header, entity)
        if node_id not in image.nodes and self._ask_upstream is not None:
            try:
                async with asyncio.timeout(ANSWER_TIMEOUT_S):
                    return await self._ask_upstream(node_id, header, entity)
            except TimeoutError:
                return None  # the answers of the others are not to wait for it
        return await self._peers.ask(node_id, header.api_key, header.api_version, entity, ANSWER_TIMEOUT_S)
