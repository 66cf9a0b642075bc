"""Have a shard take what was fetched of Kafka's log, and come back when that is committed.

A follower that fetches from an offset says that it has everything before it, and a broker acknowledges
commits on the strength of that. So the next Fetch may leave when this one's pieces are committed here, and
not before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from actors.coordinator.take_over.inside import TAKE, TakenResponse, TakeRequest
from actors.ground.limits import TAKEN_RECORDS_MAX
from actors.upstream.offsets_log.errors import LogUnreadable, TakingRefused
from actors.upstream.offsets_log.reading import pieces

Ask = Callable[[int, Any], Awaitable[TakenResponse]]
"""A function that asks the leader's shard: (api key, body) -> its answer, once what it decided is
committed."""


async def take_fetched(
    fetched: bytes, topic_id: bytes, next_offset: int, ask: Ask, high_watermark: int = 0
) -> int:
    """Return the offset from which on to fetch next. Pieces are asked for without waiting for answers, so
    that small ones share an entry of our log.

    Raises LogUnreadable and TakingRefused, when what stands before is committed, and what `ask` raises.
    """
    asked: list[asyncio.Task[TakenResponse]] = []
    unreadable: LogUnreadable | None = None
    records = 0
    async with asyncio.TaskGroup() as group:
        try:
            for piece in pieces(fetched, next_offset):
                request = TakeRequest(topic_id, piece, high_watermark)
                asked.append(group.create_task(_answer(ask(TAKE, request))))
                records += 1 + len(piece.records)
                if records >= TAKEN_RECORDS_MAX:
                    records = 0
                    await asyncio.sleep(0)  # this replica's Raft has its turn, too
        except LogUnreadable as error:
            unreadable = error
    for task in asked:
        answer = task.result()
        if answer.error_code:
            raise TakingRefused(answer.message or answer.error_code.name)
        next_offset = answer.next_offset
    if unreadable is not None:
        raise unreadable
    return next_offset


async def _answer(asked: Awaitable[TakenResponse]) -> TakenResponse:
    return await asked
