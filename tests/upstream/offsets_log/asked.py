"""A shard's leader as those see it who have it take Kafka's log."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from actors.coordinator.take_over.inside import TakenResponse
from actors.upstream.offsets_log.taking import take_fetched
from tests.coordinator.alone import log_of
from tests.coordinator.take_over.taker import TOPIC_ID, Taker

WAIT_TURNS_MAX = 8


class Asked:
    """The shard's leader. It commits when nothing more is asked, or after some turns of the loop, by
    chance."""

    def __init__(self, chance: random.Random | None = None) -> None:
        self.taker = Taker()
        self.entries = 0
        self.committed_offset = 0
        """Up to which offset the log is taken for good."""
        self._chance = chance

    async def __call__(self, api_key: int, body: Any) -> TakenResponse:
        token = self.taker.send(api_key, body, 0)
        for _ in range(1 if self._chance is None else self._chance.randint(1, WAIT_TURNS_MAX)):
            await asyncio.sleep(0)  # the others ask, too
        while token not in self.taker.replies:
            self.taker.replica.run_timers(self.taker.now_ms)
        before = log_of(self.taker.replica).last_index
        self.taker.commit()
        self.entries += log_of(self.taker.replica).last_index - before
        self.committed_offset = self.taker.next_offset
        answer = self.taker.replies[token]
        assert isinstance(answer, TakenResponse)
        return answer

    def take(self, fetched: bytes, next_offset: int = 0) -> int:
        return asyncio.run(take_fetched(fetched, TOPIC_ID, next_offset, self))
