"""Markers that come to a partition that was split are written at its children first."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors import runtime
from actors.catalog.table import coordinated
from actors.coordinator.split.inside import (
    FORWARDED,
    SEAL,
    ForwardedRequest,
    MarkersToForward,
    SplitResponse,
)
from actors.ground.image import MetadataImage
from actors.leader.hand_over import MoveInterruptedError
from actors.leader.splits import Splits
from actors.machines.far import FarActor
from actors.protocol.messages import NO_ERROR
from actors.protocol.transaction_messages import (
    TxnMarker,
    TxnMarkerErrors,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.polling import reached

TOKEN = 5
MARKERS = WriteTxnMarkersRequest(
    tuple(TxnMarker(producer, 0, True, (("__consumer_offsets", (0,)),), 3, 0) for producer in (7, 8))
)


class World:
    """The leader of partition 0, whose children are 2 and, since the last split, 4. Brokers answer with
    `errors`, by producer and partition."""

    def __init__(self, *, unmoved: tuple[int, ...] = (), leaders: int = 8) -> None:
        self.image = MetadataImage(offsets_leaders=(1,) * leaders, unmoved=unmoved)
        self.errors: dict[tuple[int, int], ErrorCode] = {}
        self.asked: list[WriteTxnMarkersRequest] = []
        self.said: list[ForwardedRequest] = []
        self.answers = True
        host: Any = None
        known: Any = SimpleNamespace(image=self.image)
        own: Any = self
        self.work = Splits(0, host, known, own, lambda: 3)

    async def ask_shard(self, api_key: int, body: Any) -> None:
        assert api_key == FORWARDED
        self.said.append(body)

    async def ask_broker(self, api_key: int, api_version: int, entity: Any) -> Any:
        body = coordinated(api_key).decode(entity)
        self.asked.append(body)
        if not self.answers:
            return None
        answered = [
            TxnMarkerErrors(
                marker.producer_id,
                tuple(
                    (topic, tuple((n, self.errors.get((marker.producer_id, n), NO_ERROR)) for n in numbers))
                    for topic, numbers in marker.topics
                ),
            )
            for marker in body.markers
        ]
        encode = coordinated(api_key).encode
        assert encode is not None
        return encode(api_version, WriteTxnMarkersResponse(tuple(answered)))

    def forwarded(self) -> tuple[ErrorCode, ...]:
        """Return what the shard is told of each marker."""

        async def story() -> None:
            self.work.on_event(MarkersToForward(TOKEN, MARKERS, (2, 4)))
            await reached(lambda: bool(self.said))

        asyncio.run(story())
        [said] = self.said
        assert said.waiting == TOKEN
        return said.errors


def test_each_marker_goes_to_all_children() -> None:
    world = World()
    assert world.forwarded() == (NO_ERROR, NO_ERROR)
    [asked] = world.asked
    assert [marker.topics for marker in asked.markers] == [(("__consumer_offsets", (2, 4)),)] * 2
    assert [marker.coordinator_epoch for marker in asked.markers] == [3, 3]


def test_a_marker_that_one_child_cannot_write_now_is_to_be_sent_again() -> None:
    world = World()
    world.errors = {(8, 4): ErrorCode.not_leader_or_follower, (7, 2): ErrorCode.invalid_producer_epoch}
    assert world.forwarded() == (NO_ERROR, ErrorCode.not_leader_or_follower)


def test_without_an_answer_all_are_to_be_sent_again() -> None:
    world = World()
    world.answers = False
    assert set(world.forwarded()) == {ErrorCode.network_exception}


def test_a_child_that_may_still_begin_anew_is_given_no_marker() -> None:
    for world in (World(unmoved=(0,)), World(leaders=4)):
        assert set(world.forwarded()) == {ErrorCode.not_leader_or_follower}
        assert not world.asked


class Tier:
    """A leader whose log commits nothing, and the directory of the tier's actors."""

    def __init__(self) -> None:
        self.asked = 0
        self.hangs = True
        host: Any = SimpleNamespace(replica=None)
        known: Any = SimpleNamespace(spec=SimpleNamespace(namespace="tier"))
        own: Any = self
        self.work = Splits(0, host, known, own, lambda: 3)

    def find(self, name: str, namespace: str) -> FarActor:
        return FarActor("", name, namespace)

    async def ask_shard(self, api_key: int, body: Any) -> SplitResponse:
        assert api_key == SEAL
        self.asked += 1
        if self.hangs:
            await asyncio.Event().wait()
        return SplitResponse(ErrorCode.not_coordinator)


def test_what_is_asked_for_anew_does_not_wait_for_what_hangs() -> None:
    tier = Tier()
    way: Any = tier

    async def story() -> None:
        hangs = asyncio.create_task(tier.work.hand_over(1, 2, "partition-1-0"))
        await reached(lambda: tier.asked == 1, "the first has begun")
        tier.hangs = False
        with pytest.raises(MoveInterruptedError, match="the seal was refused: not_coordinator"):
            await asyncio.wait_for(tier.work.hand_over(1, 2, "partition-1-1"), 30)
        with pytest.raises(MoveInterruptedError, match="it was asked for anew"):
            await hangs

    runtime.use(way)
    try:
        asyncio.run(story())
    finally:
        runtime.use(None)
