"""What the leader of an offsets partition does for a split: it hands over what moves, or takes it in.

Markers of transactions that come to a parent are written at its children first: only the parent knows for
certain that there are children, so that no coordinator has to.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

import msgpack
from kio.schema.errors import ErrorCode

from actors import runtime
from actors.coordinator.split.inside import (
    ARRIVE,
    ARRIVED,
    DROP,
    FORWARDED,
    SEAL,
    ArrivedRequest,
    ArriveRequest,
    DropRequest,
    ForwardedRequest,
    MarkersToForward,
    SplitResponse,
)
from actors.ground.tasks import Tasks
from actors.ground.topic_names import OFFSETS_TOPIC
from actors.leader.known_tier import KnownTier
from actors.leader.own_requests import OwnRequests
from actors.leader.transaction_markers import AGAIN
from actors.protocol.api_keys import WRITE_TXN_MARKERS
from actors.protocol.messages import NO_ERROR
from actors.protocol.partitioning import awaits_groups
from actors.protocol.transaction_codec import MARKERS_VERSION, write_markers_entity, written_markers
from actors.protocol.transaction_messages import WriteTxnMarkersRequest
from actors.replica.host import ReplicaHost

log = logging.getLogger("groupd.partition")

TIMEOUTS_S: Final = {SEAL: 60.0, ARRIVE: 10.0, ARRIVED: 120.0, DROP: 280.0}
"""How long, in seconds, a step may take. Those that look at every group or record take long in large
partitions."""
WAY_S: Final = 2.0
"""How much longer, in seconds, the child's answer is waited for."""
_BODIES: Final = {ARRIVE: ArriveRequest, ARRIVED: ArrivedRequest}


class Splits:
    """The splits that the replica of offsets partition `partition` takes part in. `epoch` gives the epoch in
    which it has markers written, None if it does not lead."""

    takes = (MarkersToForward,)
    """The classes of the events that are given to `on_event`."""

    def __init__(
        self,
        partition: int,
        host: ReplicaHost,
        known: KnownTier,
        own: OwnRequests,
        epoch: Callable[[], int | None],
    ) -> None:
        self._partition = partition
        self._host = host
        self._known = known
        self._own = own
        self._epoch = epoch
        self._one_at_a_time = asyncio.Lock()
        self._giving: asyncio.Task[int] | None = None
        """The handing over that was asked for last."""
        self.tasks = Tasks("a marker that is forwarded")

    def on_event(self, event: MarkersToForward) -> None:
        """Take an event of a split."""
        self.tasks.spawn(self._forward(event))

    def close(self) -> None:
        self.tasks.close()

    # Handing over.

    async def hand_over(self, child: int, partitions: int, child_actor: str) -> int:
        """Hand what moves over to the child's leader, and return how many records that was. Raises
        MoveInterruptedError, ActorCallError, TimeoutError: then it is to be tried again. What was asked for
        before is given up: whoever asks anew may know that the child has another leader."""
        from actors.leader.hand_over import MoveInterruptedError  # here: it is rarely needed

        if self._giving is not None:
            self._giving.cancel()
        giving = self._giving = asyncio.create_task(self._hand_over(child, partitions, child_actor))
        await asyncio.wait((giving,))
        if giving.cancelled():
            raise MoveInterruptedError("it was asked for anew")
        return giving.result()

    async def _hand_over(self, child: int, partitions: int, child_actor: str) -> int:
        from actors.leader.hand_over import Move, MoveInterruptedError, hand_over

        async with self._one_at_a_time:
            epoch = self._epoch()
            handle = await runtime.look_up(child_actor, self._known.spec.namespace)
            if epoch is None or handle is None:
                raise MoveInterruptedError("one of the two leaders has gone")

            async def tell(api_key: int, body: Any) -> SplitResponse:
                self._host.wake()  # whoever waited here is refused by now
                packed, timeout_s = msgpack.packb(body), TIMEOUTS_S[api_key] + WAY_S
                answer = await runtime.call(handle, "take_in", api_key, packed, timeout_s=timeout_s)
                return SplitResponse(ErrorCode(answer[0]), answer[1])

            move = Move(self._partition, child, partitions)
            total = await hand_over(self._host.replica, move, epoch, self._ask, tell)
        log.info("%d records have moved to partition %d", total, child)
        return total

    async def take_in(self, api_key: int, packed: bytes) -> tuple[int, str | None]:
        """Take a piece of what moves here, or its end. Return Kafka's error code and what it means."""
        body = _BODIES[api_key](*msgpack.unpackb(packed, use_list=False))
        answer = await self._ask(api_key, body)
        return int(answer.error_code), answer.message

    async def drop(self, child: int) -> tuple[int, str | None]:
        """Remove what has moved to the child, which has all of it. Return Kafka's error code and what it
        means."""
        async with self._one_at_a_time:
            answer = await self._ask(DROP, DropRequest(child))
        return int(answer.error_code), answer.message

    async def _ask(self, api_key: int, body: Any) -> SplitResponse:
        asked = self._own.ask_shard(api_key, body)
        answer: SplitResponse = await asyncio.wait_for(asked, TIMEOUTS_S[api_key])
        return answer

    # Markers.

    async def _forward(self, event: MarkersToForward) -> None:
        errors = (ErrorCode.not_leader_or_follower,) * len(event.body.markers)
        if self._all_serve(event.children):
            errors = await self._written(event)
        await self._own.ask_shard(FORWARDED, ForwardedRequest(event.token, errors))

    def _all_serve(self, children: tuple[int, ...]) -> bool:
        """Return whether it is known that every child serves. Before that, a child may still begin anew."""
        image = self._known.image
        total = len(image.offsets_leaders)
        return all(child < total and not awaits_groups(child, total, image.unmoved) for child in children)

    async def _written(self, event: MarkersToForward) -> tuple[ErrorCode, ...]:
        """Have the children write the markers. Return the error of each that is to be tried again."""
        topics = ((OFFSETS_TOPIC, event.children),)
        markers = tuple(marker._replace(topics=topics) for marker in event.body.markers)
        entity = write_markers_entity(MARKERS_VERSION, WriteTxnMarkersRequest(markers))
        answer = await self._own.ask_broker(WRITE_TXN_MARKERS, MARKERS_VERSION, entity)
        if answer is None:
            return (ErrorCode.network_exception,) * len(markers)
        given = (
            [error for _, numbers in each.topics for _, error in numbers]
            for each in written_markers(answer).markers
        )
        return tuple(next((error for error in errors if error in AGAIN), NO_ERROR) for errors in given)
