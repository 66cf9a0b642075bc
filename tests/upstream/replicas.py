"""The replicas of one offsets partition of a tier that stands in front of a Kafka, in this process and with
no node around them: real disks, real Raft, and a test that gives the orders."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from actors.coordinator.shard import CoordinatorShard
from actors.ground.image import MetadataImage
from actors.ground.spec import UpstreamSpec
from actors.leader.offsets_partition import OffsetsPartition
from actors.metadata.wire import pack_image
from actors.upstream.orders import LOOK, Order, Standing, unpack_standing
from tests.coordinator.take_over.taker import newest
from tests.ground.specs import spec_in
from tests.polling import DEADLINE_S, reached

LOOK_S = 0.02
FIRST_BROKER_ID = 1000


class Replicas:
    """All replicas of the partition, some of which may be cut off."""

    def __init__(self, actors: list[OffsetsPartition]) -> None:
        self.actors = actors
        self.cut: set[int] = set()

    @property
    def together(self) -> list[OffsetsPartition]:
        """The replicas that can reach each other."""
        return [actor for number, actor in enumerate(self.actors) if number not in self.cut]

    async def leader(self) -> OffsetsPartition:
        """Return the replica that leads, as soon as there is one."""
        await reached(lambda: any(each._host.replica.serving for each in self.together), "one leads")
        return next(each for each in self.together if each._host.replica.serving)

    async def shard(self) -> CoordinatorShard:
        shard = (await self.leader())._host.replica.shard
        assert isinstance(shard, CoordinatorShard)
        return shard

    async def order(self, order: Order) -> Standing:
        """Give the leader an order."""
        standing = Standing(leads=False)
        while not standing.leads:
            standing = unpack_standing(await (await self.leader()).upstream(order.pack()))
        return standing

    async def look(self) -> Standing:
        return await self.order(Order(LOOK))

    async def until(self, order: Order, phase: str, *, at_end: bool = False) -> Standing:
        """Give an order again and again until the leader stands so."""
        standing = await self.order(order)
        try:
            async with asyncio.timeout(DEADLINE_S):
                while standing.phase != phase or (at_end and not standing.at_end):
                    await asyncio.sleep(LOOK_S)
                    standing = await self.order(order)
        except TimeoutError:
            raise AssertionError(f"not {phase} but {standing}") from None
        return standing

    async def cut_off(self) -> OffsetsPartition:
        """Cut the leader off from the others, which elect another one, and return it. It goes on as long as
        it takes itself for the leader."""
        leader = await self.leader()
        self.cut.add(self.actors.index(leader))
        transport = leader._host._transport
        assert transport is not None
        await transport.close()
        return leader

    def learn(self, image: MetadataImage) -> None:
        """Tell all replicas what their nodes' brokers would."""
        packed = pack_image(image)
        for actor in self.actors:
            actor._clients.on_push("image", packed)


@asynccontextmanager
async def replicas(
    directory: Path, count: int = 3, image: MetadataImage | None = None
) -> AsyncIterator[Replicas]:
    """The replicas of offsets partition 0, one on each node."""
    os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"  # nobody has to hear of this leader
    upstream = UpstreamSpec("upstream", (), (), FIRST_BROKER_ID)
    spec = spec_in(directory, nodes=count)._replace(upstream=upstream)
    actors = [OffsetsPartition(spec, 0, number) for number in range(count)]
    found = Replicas(actors)
    try:
        for actor in actors:
            await actor.start()
        found.learn(newest() if image is None else image)
        yield found
    finally:
        await asyncio.gather(*(actor.stop() for actor in actors))
