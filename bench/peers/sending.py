"""Sends many requests to the coordinators of their groups, each once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from bench.peers.lines import ANSWER_TIMEOUT_S, NOT_YET, RETRY_S, Address, Line, coordinators
from bench.peers.options import Failed
from bench.peers.peer import Peer

CONNECTIONS: Final = 64
"""The number of connections to each node."""


async def send(
    peer: Peer,
    group_ids: list[str],
    frames: Iterator[tuple[str, bytes]],
    taken: Callable[[str, bytes], int],
) -> None:
    """Send all frames, each when the one before it on its connection has been answered. Servers take one
    request of a connection at a time, so only many connections share a write to disk. `taken` is called with
    the group and the answer, and returns the error in that. Raises Failed with the first one, and what
    connections raise."""
    found = await coordinators(peer.bootstrap[0], group_ids)

    async def send_some() -> None:
        lines: dict[Address, Line] = {}

        async def ask(group_id: str, frame: bytes) -> int:
            address = found[group_id]
            if address not in lines:
                lines[address] = await Line.open(address)
            return taken(group_id, await lines[address].ask(frame))

        try:
            for group_id, frame in frames:
                async with asyncio.timeout(ANSWER_TIMEOUT_S):
                    while (error := await ask(group_id, frame)) in NOT_YET:
                        await asyncio.sleep(RETRY_S)
                        found.update(await coordinators(peer.bootstrap[0], [group_id]))
                if error:
                    raise Failed(f"{group_id}: error {error}")
        finally:
            for line in lines.values():
                line.close()

    await asyncio.gather(*(send_some() for _ in range(CONNECTIONS)))
