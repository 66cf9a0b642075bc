"""Follow Kafka's log of one offsets partition: fetch it as the partition's replicas, and have the shard take
it.

Whoever fetches from an offset says to have everything before it, and a broker that counts the fetcher among
the in-sync replicas acknowledges commits on the strength of that. So each round of fetches begins when all
that came with the round before is committed here, and no round begins that this leader cannot answer for.
Only what is fetched in one round is in memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from actors.coordinator.take_over.inside import (
    DROP_TAKEN,
    RETAKE,
    TAKE,
    DropTakenRequest,
    LogPiece,
    RetakeRequest,
    TakenResponse,
    TakeRequest,
)
from actors.ground.limits import MIB
from actors.ground.records import DROPPED, TakenLogValue
from actors.upstream.controllers import Connect
from actors.upstream.offsets_fetch import LeaderLinks, Place
from actors.upstream.offsets_log.errors import LogUnreadable, TakingRefused
from actors.upstream.offsets_log.taking import Ask, take_fetched
from actors.upstream.offsets_round import Anew, LookForEnds, Outcome, Take, Wait, outcome_of, outside
from actors.upstream.orders import Order, Source

log = logging.getLogger("groupd.upstream")

FETCH_BYTES_MAX: Final = 2 * MIB
"""How much is asked for at once: some thousands of records."""
TOLD_BYTES_MAX: Final = 1
"""How much the other replicas ask for, whose records nobody needs."""
WAIT_MS: Final = 500
"""How long the leader may hold a fetch if there is nothing new; it answers at once when there is."""
AGAIN_PAUSES_S: Final = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""How long, in seconds, to wait before the next try; the last one repeats. News of the leader end a pause."""
_KNOWN: Final = LogPiece(0, 0, -1)
"""A piece that is always known: the answer comes when everything before it is committed."""


def _lacks(source: Source, taken: TakenLogValue, shared_offset: int) -> bool:
    """Return whether a leader whose log is the same up to this offset lacks what Kafka had acknowledged, and
    what is here alone therefore. What is kept of groups that the tier has served stays in any case."""
    is_other = source.leader_epoch > taken.leader_epoch
    return is_other and shared_offset < taken.acknowledged_offset and taken.kept_epoch < 0


async def lacks_acknowledged(
    source: Source | None, partition: int, connect: Connect, taken: TakenLogValue
) -> bool | str:
    """Return whether the log of the broker that leads an offsets partition lacks what Kafka had acknowledged
    of what was taken, or in words why that is not known."""
    if taken.acknowledged_offset == 0 or taken.kept_epoch >= 0:
        return False
    if source is None:
        return "nobody is known to lead the partition upstream: only the tier may have what was taken of it"
    links = LeaderLinks(connect, partition)
    await links.turn_to(source)
    try:
        end = await links.end_of_epoch(source, taken.leader_epoch)
    finally:
        await links.close()
    return end if isinstance(end, str) else _lacks(source, taken, end)


class OffsetsFollower:
    """Follows the log of offsets partition `partition`. `ask` asks the leader's shard, `taken` says how far
    that has taken the log, and `goes_on` whether this leader is still to follow."""

    def __init__(
        self,
        partition: int,
        connect: Connect,
        ask: Ask,
        taken: Callable[[], TakenLogValue | None],
        goes_on: Callable[[], bool],
    ) -> None:
        self._partition = partition
        self._links = LeaderLinks(connect, partition)
        self._ask_shard = ask
        self._taken = taken
        self._goes_on = goes_on
        self._order = Order("")
        self._first = 0
        """Which of the replicas fetches while the end of the log is not reached."""
        self._news = asyncio.Event()
        self.at_end = False
        """Whether everything is taken that the leader's in-sync replicas have."""
        self.records = 0
        """How many records were taken."""
        self.problem: str | None = None
        """What is wrong now, in words; None if all is well."""

    def aim(self, order: Order) -> None:
        """Follow as the newest order says."""
        if order != self._order:
            self._order = order
            self._news.set()

    async def run(self) -> None:
        """Follow until `goes_on` says no. Cancel it to have it end at once: then the shard may still be about
        to commit something."""
        failures = 0
        try:
            while self._goes_on():
                self._news.clear()
                try:
                    did = await self._step(self._order)
                except (LogUnreadable, TakingRefused) as error:
                    did, self.problem = False, str(error)
                failures = 0 if did else failures + 1
                if not did:
                    await self._pause(AGAIN_PAUSES_S[min(failures, len(AGAIN_PAUSES_S)) - 1])
        finally:
            await self._links.close()

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()

    async def _step(self, order: Order) -> bool:
        """Do one round, and return whether it has brought anything, or may have. Raises LogUnreadable and
        TakingRefused."""
        if order.source is None or not order.replicas:
            self.problem = "nobody is known to lead the partition upstream"
            return False
        taken = self._taken()
        if taken is not None and taken.phase == DROPPED:
            await self._drop("its removal did not end", 0)
        await self._settle(order.topic_id)
        taken = self._taken()
        is_other = taken is not None and taken.topic_id != order.topic_id
        place = Place(order.topic_id, 0, -1)
        if taken is not None and not is_other:
            place = Place(order.topic_id, taken.next_offset, taken.leader_epoch)
        await self._links.turn_to(order.source)
        outcome = await self._round(order, order.source, place)
        if is_other and not isinstance(outcome, Wait):
            await self._drop("the topic was made anew")
            return True
        return await self._do(outcome, order, place)

    async def _settle(self, topic_id: bytes) -> None:
        """Wait until everything that the shard has decided is committed. Raises TakingRefused if nothing may
        be taken."""
        answer = await self._ask_shard(TAKE, TakeRequest(topic_id, _KNOWN))
        taken = self._taken()
        if answer.error_code and (taken is None or taken.topic_id == topic_id):
            raise TakingRefused(answer.message or answer.error_code.name)

    async def _round(self, order: Order, source: Source, place: Place) -> Outcome:
        """Fetch from a place as one replica, or as all if the end was reached: then the others ask for as
        little as can be, to say where they stand. The answer with the most records is the one that counts."""
        first = order.replicas[self._first % len(order.replicas)]
        others = [replica for replica in order.replicas if replica != first] if self.at_end else []
        answers = await asyncio.gather(
            self._links.fetch(source, first, place, FETCH_BYTES_MAX, WAIT_MS),
            *(self._links.fetch(source, each, place, TOLD_BYTES_MAX, WAIT_MS) for each in others),
        )
        ids = [broker_id for broker_id, _ in (first, *others)]
        outcome, self.problem = outcome_of(dict(zip(ids, answers, strict=True)))
        if not answers[0].is_fine:
            self._first += 1
        return outcome

    async def _do(self, outcome: Outcome, order: Order, place: Place) -> bool:
        match outcome:
            case Take(records, high_watermark):
                next_offset = place.next_offset
                if records:
                    next_offset = await take_fetched(
                        records, place.topic_id, next_offset, self._ask, high_watermark
                    )
                self.at_end = next_offset >= high_watermark
                return True
            case Anew(shared_offset):
                await self._part(order, min(shared_offset, place.next_offset))
            case LookForEnds():
                await self._begin_inside(order, place)
            case Wait():
                pass
        return False

    async def _begin_inside(self, order: Order, place: Place) -> None:
        """Go on after an offset that the leader does not have."""
        assert order.source is not None
        broker_id = order.replicas[self._first % len(order.replicas)][0]
        start = await self._links.start_of_log(order.source, broker_id)
        if isinstance(start, str):
            self.problem = start
            return
        begin = outside(place.next_offset, start)
        if isinstance(begin, int):
            answer = await self._ask(TAKE, TakeRequest(place.topic_id, LogPiece(0, begin, -1)))
            if answer.error_code:
                raise TakingRefused(answer.message or answer.error_code.name)
        elif start > place.next_offset:
            await self._drop(f"the leader's log begins at {start} and has no offset {place.next_offset}")
        else:
            await self._part(order, begin.shared_offset)

    async def _part(self, order: Order, shared_offset: int) -> None:
        """Part from a leader whose log is the same up to an offset only. What is behind that was never
        acknowledged if the leader is one that had to be in sync, and the log is taken anew; otherwise it is
        here alone, and the leader's log is taken on top of it. Raises TakingRefused."""
        taken = self._taken()
        assert order.source is not None, "somebody has told them apart"
        if taken is None or not _lacks(order.source, taken, shared_offset):
            await self._drop("the leader's log has never had all of it", shared_offset)
            return
        log.warning(
            "broker %d leads offsets partition %d without the offsets %d to %d of its log, which Kafka had "
            "acknowledged: they are kept, and its log is taken on top of them",
            order.source.broker_id,
            self._partition,
            shared_offset,
            taken.acknowledged_offset - 1,
        )
        self.at_end = False
        request = RetakeRequest(taken.topic_id, order.source.leader_epoch)
        answer = await self._ask_shard(RETAKE, request)
        if answer.error_code:
            raise TakingRefused(answer.message or answer.error_code.name)

    async def _drop(self, why: str, owed_offset: int | None = None) -> None:
        """Remove what was taken; if Kafka may count on it, nobody is served before `owed_offset` is reached
        again. Raises TakingRefused."""
        taken = self._taken()
        log.warning(
            "what was taken of Kafka's log of offsets partition %d, up to offset %d, is removed: %s",
            self._partition,
            0 if taken is None else taken.next_offset,
            why,
        )
        self.at_end = False
        answer = await self._ask_shard(DROP_TAKEN, DropTakenRequest(owed_offset))
        if answer.error_code:
            raise TakingRefused(answer.message or answer.error_code.name)

    async def _ask(self, api_key: int, body: Any) -> TakenResponse:
        answer = await self._ask_shard(api_key, body)
        if not answer.error_code:
            self.records += len(body.piece.records)
        return answer
