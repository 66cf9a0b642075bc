"""What the leader of an offsets partition does about its twin at Kafka, as the controller orders it.

Orders come again and again, so nothing of them is kept beyond this leadership: whoever leads next finds in
its shard how far Kafka's log was taken, and goes on there with the next order.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from actors.coordinator.shard import CoordinatorShard
from actors.coordinator.take_over.inside import (
    DROP_TAKEN,
    RELEASE,
    RETAKE,
    SEAL_SERVED,
    SERVE,
    UNSEAL,
    DropTakenRequest,
    ReleaseRequest,
    RetakeRequest,
    SealServedRequest,
    ServeRequest,
    TakenResponse,
    UnsealRequest,
)
from actors.ground import records
from actors.ground.records import TakenLogValue
from actors.leader.own_requests import OwnRequests
from actors.leader.serving import serving_shard
from actors.replica.host import ReplicaHost
from actors.upstream import orders
from actors.upstream.controllers import Connect
from actors.upstream.offsets_following import OffsetsFollower, lacks_acknowledged
from actors.upstream.orders import Order, OrderUnreadable, Standing, unpack_order

log = logging.getLogger("groupd.upstream")

ORDERED_S: Final = 10.0
"""How long, in seconds, a leader goes on following that hears of no order: twenty times as long as the
controller waits between two. A fetcher that nobody wants any more would keep its place among Kafka's in-sync
replicas."""
_PHASES: Final[Mapping[int, str]] = {
    records.FOLLOWED: orders.FOLLOWED,
    records.SERVED: orders.SERVED,
    records.DROPPED: orders.DROPPING,
    records.SEALED: orders.SEALED,
}

Work = Callable[[Order], Awaitable[None]]


class UpstreamOrders:
    """The orders that the replica of offsets partition `partition` is given while it leads."""

    def __init__(
        self,
        partition: int,
        host: ReplicaHost,
        own: OwnRequests,
        term: Callable[[], int | None],
        connect: Connect,
    ) -> None:
        """`term` gives the term in which this replica leads and serves, None if it does not. `connect`
        connects to the brokers."""
        self._partition = partition
        self._host = host
        self._own = own
        self._serving_term = term
        self._connect = connect
        self._works: Mapping[str, Work] = {
            orders.FOLLOW: self._follow,
            orders.SERVE: self._serve,
            orders.DROP: self._drop,
            orders.SEAL: self._seal,
            orders.UNSEAL: self._unseal,
            orders.RETAKE: self._retake,
            orders.RELEASE: self._release,
        }
        self._order = Order(orders.LOOK)
        self._ordered_at = 0.0
        self._term: int | None = None
        self._work: asyncio.Task[None] | None = None
        self._follower: OffsetsFollower | None = None
        """What follows, or followed last, in this leadership."""
        self._problem: str | None = None

    def take(self, packed: bytes) -> bytes:
        """Take an order. Return how the partition stands now: the work goes on."""
        shard = serving_shard(self._host)
        if shard is None:
            self.close()
            return Standing(leads=False).pack()
        try:
            order = unpack_order(packed)
        except OrderUnreadable as error:
            return self._standing(shard)._replace(problem=str(error)).pack()
        if order.order != orders.LOOK:
            self._obey(order)
        return self._standing(shard).pack()

    def close(self) -> None:
        """Give up what is under way."""
        if self._work is not None:
            self._work.cancel()

    def _obey(self, order: Order) -> None:
        loop = asyncio.get_running_loop()
        before, self._order, self._ordered_at = self._order, order, loop.time()
        term, self._term = self._term, self._serving_term()
        if (term, before.topic_id) != (self._term, order.topic_id):
            self._follower = None
        work, is_same = self._work, (before.order, term) == (order.order, self._term)
        if is_same and before.topic_id == order.topic_id and work is not None and not work.done():
            if self._follower is not None:
                self._follower.aim(order)
            return
        if work is not None:
            work.cancel()
        if order.order == orders.FOLLOW:
            self._follower = None
        self._work = loop.create_task(self._do(order, work))

    async def _do(self, order: Order, before: asyncio.Task[None] | None) -> None:
        """Carry an order out when the work on the one before it, which is given up, has ended."""
        if before is not None:
            await asyncio.wait((before,))
        self._problem = None
        try:
            await self._works[order.order](order)
        except Exception as error:
            self._problem = f"{order.order} failed: {error!r}"
            log.exception("order %s of offsets partition %d failed", order.order, self._partition)

    def _goes_on(self) -> bool:
        """Return whether this leader still leads, and somebody wants it to follow."""
        since_s = asyncio.get_running_loop().time() - self._ordered_at
        return self._serving_term() == self._term and since_s < ORDERED_S

    def _taken(self) -> TakenLogValue | None:
        shard = serving_shard(self._host)
        return None if shard is None else shard.state.from_kafka.log

    # Works.

    async def _follow(self, order: Order) -> None:
        ask = self._own.ask_shard
        follower = OffsetsFollower(self._partition, self._connect, ask, self._taken, self._goes_on)
        self._follower = follower
        follower.aim(self._order)
        await follower.run()

    async def _serve(self, order: Order) -> None:
        """Serve what was taken. Nothing of it is under way any more: a round that was given up has been
        decided, or never will be, and the brokers count on none of its records."""
        taken = self._taken()
        next_offset = 0 if taken is None else taken.next_offset
        request = ServeRequest(order.topic_id, next_offset, order.led_epoch)
        self._note(await self._own.ask_shard(SERVE, request))

    async def _drop(self, order: Order) -> None:
        """Remove what was taken, unless Kafka lacks what it had acknowledged of it."""
        taken = self._taken()
        if taken is not None and taken.phase == records.FOLLOWED and taken.topic_id == order.topic_id:
            lacks = await lacks_acknowledged(order.source, self._partition, self._connect, taken)
            if isinstance(lacks, str):
                self._problem = lacks
                return
            if lacks:
                await self._retake(order)
                return
        self._note(await self._own.ask_shard(DROP_TAKEN, DropTakenRequest()))

    async def _seal(self, order: Order) -> None:
        self._refuse_waiting(await self._own.ask_shard(SEAL_SERVED, SealServedRequest()))

    async def _unseal(self, order: Order) -> None:
        self._note(await self._own.ask_shard(UNSEAL, UnsealRequest()))

    async def _retake(self, order: Order) -> None:
        assert order.source is not None, "a broker leads"
        request = RetakeRequest(order.topic_id, order.source.leader_epoch)
        self._refuse_waiting(await self._own.ask_shard(RETAKE, request))

    async def _release(self, order: Order) -> None:
        self._note(await self._own.ask_shard(RELEASE, ReleaseRequest(order.led_epoch)))

    def _refuse_waiting(self, answer: TakenResponse) -> None:
        """Refuse who waits for groups that are not served here any more."""
        self._note(answer)
        shard = serving_shard(self._host)
        if shard is not None and not answer.error_code:
            self._host.replica.refuse(shard.is_elsewhere)
            self._host.wake()

    def _note(self, answer: TakenResponse) -> None:
        self._problem = (answer.message or answer.error_code.name) if answer.error_code else None

    # Answers.

    def _standing(self, shard: CoordinatorShard) -> Standing:
        taken, follower = shard.state.from_kafka.log, self._follower
        standing = Standing(problem=self._problem)
        if follower is not None:
            standing = standing._replace(at_end=follower.at_end, records=follower.records)
        if follower is not None and self._order.order == orders.FOLLOW:
            standing = standing._replace(problem=self._problem or follower.problem)
        if taken is None:
            return standing
        phase = _PHASES[taken.phase]
        if phase == orders.FOLLOWED and taken.kept_epoch >= 0:
            phase = orders.RETAKEN
        if phase == orders.SERVED and shard.state.is_closed:
            phase = orders.FOLLOWED  # its groups are still being looked at
        return standing._replace(
            phase=phase, next_offset=taken.next_offset, released_epoch=taken.released_epoch
        )
