"""What coordinators need of other leaders for transactions, done by production's own classes on each process.

A request between leaders goes the way of `actors.api.transaction_relay`, without its frames: to whoever leads
an offsets partition, unless it is lost, or nobody answers in time.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from actors.api.transaction_relay import TransactionRelay, Ways
from actors.catalog.table import coordinated
from actors.ground.image import MetadataImage
from actors.leader import splits, transaction_markers
from actors.protocol.header import Header
from actors.protocol.partitioning import Partitioning, partitioning_of
from tests.simulation.coroutines import Coroutines
from tests.simulation.parts import Process
from tests.simulation.split.halves import Half

LOST = 0.03
WAY_S = (0.0001, 0.012)
SLOW_S = (0.05, 0.6)
"""How long one request in thirty is on its way: by then much may have changed."""
ANSWER_S = 0.25
transaction_markers.BACKOFF_S_MAX = 0.1  # type: ignore[misc]


class Service:
    """What the actor of one process has for transactions and for splits. It is its own OwnRequests, KnownTier
    and `Leaders`."""

    def __init__(self, halves: list[Half], process: Process) -> None:
        self._halves = halves
        self._process = process
        partition = process.world.home.partition
        self.loop = Coroutines(process)
        self._transactions = transaction_markers.Transactions(
            partition,
            ask_shard=self.ask_shard,
            ask_broker=self.ask_broker,
            image=lambda: self.image,
            epoch=self._epoch,
        )
        self._splits = splits.Splits(
            partition, cast("Any", None), cast("Any", self), cast("Any", self), self._epoch
        )
        self._relay = _Relay(self)

    def take(self, event: Any) -> None:
        for taker in (self._transactions, self._splits):
            if type(event) in taker.takes:
                taker.on_event(event)

    @property
    def image(self) -> MetadataImage:
        image: MetadataImage = self._process.machine.shard.state.image
        return image

    def _epoch(self) -> int | None:
        """Return what OffsetsPartition says, too."""
        machine = self._process.machine
        if not machine.serving:
            return None
        term: int = self._process.raft.term
        arrival = machine.shard.state.arrival
        return term if arrival is None else arrival.coordinator_epoch + term

    async def ask_shard(self, api_key: int, body: Any) -> Any:
        answer = self.loop.create_future()
        self._process.plug_ins.ask(api_key, body, lambda found: _give(answer, found))
        return await answer

    async def ask_broker(self, api_key: int, api_version: int, entity: Any) -> Any:
        header = Header(api_key, api_version, 0)
        return await self._relay.answer(self.image, header, entity, pass_on=True)

    # Leaders.

    @property
    def partitioning(self) -> Partitioning:
        return partitioning_of(self.image)

    def slot_of(self, partition: int) -> int | None:
        return partition

    def node_of(self, partition: int) -> int | None:
        return None

    # Other leaders.

    async def ask_leader(self, partition: int, api_key: int, api_version: int, body: Any) -> Any:
        """Return what a partition's leader answers; None if nothing comes."""
        answer = self.loop.create_future()
        half = self._halves[partition]

        def arrive() -> None:
            leader = half.leader()
            if leader is not None:
                leader.later(0.0, lambda: ask(leader))

        def ask(leader: Process) -> None:
            leader.plug_ins.ask(api_key, body, lambda found: self._travel(found, answer), version=api_version)

        half.after(self._way_s(), arrive) if not self._is_lost() else None
        try:
            return await asyncio.wait_for(answer, ANSWER_S)
        except TimeoutError:
            return None

    def _travel(self, found: Any, answer: asyncio.Future[Any]) -> None:
        if not self._is_lost():
            self._process.world.after(self._way_s(), lambda: _give(answer, found))

    def _is_lost(self) -> bool:
        world = self._process.world
        return not world.is_healed and world.chance.random() < LOST

    def _way_s(self) -> float:
        world = self._process.world
        is_slow = not world.is_healed and world.chance.random() < LOST
        return float(world.chance.uniform(*(SLOW_S if is_slow else WAY_S)))


def _give(answer: asyncio.Future[Any], found: Any) -> None:
    if not answer.done():
        answer.set_result(found)


class _Relay(TransactionRelay):
    def __init__(self, service: Service) -> None:
        nothing: Any = None
        super().__init__(Ways(0, nothing, service, nothing), nothing)
        self._service = service

    async def _ask(self, where: Any, api_key: int, api_version: int, entity: Any) -> Any:
        row = coordinated(api_key)
        body = row.decode(entity)
        answer = await self._service.ask_leader(where.slot, api_key, api_version, body)
        assert row.encode is not None
        return None if answer is None else row.encode(api_version, answer)


class Services:
    """The services of all processes of a run."""

    def __init__(self, halves: list[Half]) -> None:
        self._halves = halves
        self._services: dict[Process, Service] = {}
        for half in halves:
            half.take = self._take

    def _take(self, process: Process, event: Any) -> None:
        for dead in [each for each in self._services if not each.is_alive]:
            self._services.pop(dead).loop.close()
        if process not in self._services:
            self._services[process] = Service(self._halves, process)
        service = self._services[process]
        service.loop.call_soon(service.take, event)

    def close(self) -> None:
        for service in self._services.values():
            service.loop.close()
