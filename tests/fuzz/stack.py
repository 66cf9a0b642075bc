"""The node under fire: one broker's actor, two leaders' actors, a controller, joined without sockets.

The third of the three offsets partitions is led by another node, so that requests are split, relayed and
refused as well. A frame goes in through `Connection.data_received`, as from a socket.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Collection
from functools import partial
from typing import Any
from uuid import UUID

from actors.ground.features import CLIENT_ASSIGNORS_LEVEL, PUSH_LEVEL
from actors.ground.identity import ClientIdentity
from actors.ground.settings import GroupSettings
from actors.ground.spec import BrokerSettings, NodeSpec, TierSpec, copies
from actors.leader.client_service import ClientService
from actors.leader.offsets_partition import OffsetsPartition, Outside
from actors.metadata.commands import Command, FoundTier, RegisterNode, ReportLeader
from actors.metadata.wire import pack_image
from actors.network.channel import Answer
from actors.network.connection import Connection, Service
from actors.network.hub import Leading
from actors.node.broker import Broker
from actors.replica.host import ReplicaHost
from tests.coordinator.alone import commit, lead, log_of
from tests.fuzz.leaping import LeapingLoop
from tests.metadata.driver import Host, new_shard, tier

EPOCH_MS = 1_700_000_000_000
PARTITIONS = 3
LED_HERE = (0, 1)
NODES = (1, 2)
SETTINGS = BrokerSettings(topics_max=200, partitions_max=1_000)


class Controller:
    """A controller without Raft: it decides at once and tells the brokers."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.brokers: list[Broker] = []

    async def submit(self, command: Command) -> Any:
        result = self.host.submit(command)
        await self.tell()
        return result

    async def placement(self) -> None:
        """Return that it is not known where replicas are: no leadership is handed over here."""

    async def tell_of_leader(self, *news: Any) -> None:
        """Do nothing: leaders do not change here."""

    async def tell(self) -> None:
        packed = pack_image(self.host.shard.image())
        for broker in self.brokers:
            await broker.on_image(packed)


class Awaited:
    """An answer that somebody waits for, or has given up, as whoever is asked over a socket learns never."""

    def __init__(self) -> None:
        self._answered: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()

    def give(self, answer: bytes | None) -> None:
        if not self._answered.done():
            self._answered.set_result(answer)

    async def taken(self) -> bytes | None:
        return await self._answered


class Ways:
    """The ways between the actors of a node: they stand for its Unix socket."""

    def __init__(self) -> None:
        self.broker: Any = None
        self.partitions: dict[int, ClientService] = {}


class _Hub:
    """The broker's end of these ways, without a socket."""

    def __init__(self, ways: Ways) -> None:
        self._ways = ways

    def connected(self, slot: int) -> bool:
        return slot in self._ways.partitions

    async def relay(self, slot: int, identity: ClientIdentity, frame: bytes, timeout_s: float) -> Any:
        awaited = Awaited()
        self._ways.partitions[slot].on_relay(identity, frame, awaited.give)
        return await awaited.taken()

    def learn_level(self, level: int) -> None:
        """Do nothing: no connection is handed over."""

    def push(self, kind: str, payload: bytes) -> None:
        for partition in self._ways.partitions.values():
            partition.on_push(kind, payload)

    def close(self) -> None:
        """Do nothing: no socket was opened."""


class _Link:
    """A replica's end of these ways, without a socket."""

    def __init__(self, ways: Ways) -> None:
        self._ways = ways

    def ask(self, identity: ClientIdentity, frame: bytes, answer: Answer, timeout_s: float) -> None:
        self._ways.broker.on_relay(0, identity, frame, answer)

    async def relay(self, identity: ClientIdentity, frame: bytes, timeout_s: float) -> bytes | None:
        awaited = Awaited()
        self.ask(identity, frame, awaited.give, timeout_s)
        return await awaited.taken()

    def gone(self, identity: ClientIdentity) -> None:
        """The quota of connections is not what is judged here."""


class Socket:
    """The transport of one connection: what is written to it, and whether it was closed."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0


class _Broker(Broker):
    async def _open(self) -> None:
        """Do nothing: a connection between replicas needs no socket here."""


class _Host(ReplicaHost):
    """A replica's host whose turns the stack makes."""

    def wake(self) -> None: ...

    def arm(self) -> None: ...


class _Partition(OffsetsPartition):
    async def _open(self) -> None:
        """Do nothing: the host needs no file and no socket here."""


class Stack:
    """A broker and its replicas in one event loop; make it inside a running LeapingLoop."""

    def __init__(self, loop: LeapingLoop, data_dir: str) -> None:
        self.loop = loop
        self._ways = Ways()
        self._peers = itertools.count(1)
        self.controller = Controller(_tier())
        spec, ids = _spec(data_dir), itertools.count(1)
        self.partitions = [
            _Partition(
                spec,
                partition,
                0,
                Outside(
                    new_host=partial(_Host, now_ms=self.now_ms),
                    new_link=lambda *_: _Link(self._ways),  # type: ignore[arg-type,return-value]
                    new_id=lambda: str(UUID(int=next(ids))),
                ),
            )
            for partition in LED_HERE
        ]
        self.broker = _Broker(
            spec,
            NODES[0],
            clock_ms=self.now_ms,
            new_hub=lambda *_: _Hub(self._ways),  # type: ignore[arg-type]
            new_controller=lambda _: self.controller,  # type: ignore[arg-type,return-value]
        )
        self.controller.brokers.append(self.broker)
        self._ways.broker = self.broker
        for number, partition in enumerate(self.partitions):
            slot = spec.link_slot(number, 0)
            self._ways.partitions[slot] = partition._clients
            lead(partition._host.replica)
            partition._host.raft = log_of(partition._host.replica)  # type: ignore[assignment]
            self.broker.on_leading(slot, Leading(NODES[0], 1, True))

    async def start(self) -> None:
        for actor in (self.broker, *self.partitions):
            await actor.start()
        await self.controller.tell()
        await self.settle()

    def now_ms(self) -> int:
        return EPOCH_MS + int(self.loop.time() * 1_000)

    def connect(self, place: int, software: tuple[str, str] = ("", "")) -> tuple[Connection, Socket]:
        """A connection served by the leader of partition `place`, or by the broker if that is -1.
        `software`: name and version, as the client told the broker."""
        service: Service = self.broker if place < 0 else self.partitions[place]._clients
        table = self.broker._table if place < 0 else self.partitions[place]._clients.table
        socket = Socket()
        identity = ClientIdentity("/127.0.0.1", f"127.0.0.1:{next(self._peers)}", *software)
        connection = Connection(table, service, identity, b"")
        if place >= 0:
            connection.holding = self.partitions[place]._clients.held.of_client(*software)
        connection.connection_made(socket)  # type: ignore[arg-type]
        return connection, socket

    def topic_ids(self, names: Collection[str]) -> list[UUID]:
        """The ids of the topics of these names that are there."""
        topics = self.broker._apis.image.topics.values()
        return [UUID(bytes=topic.topic_id) for topic in topics if topic.name in names]

    def turn(self) -> None:
        """What the host does at the end of a loop iteration: timers, batch, commit."""
        for partition in self.partitions:
            replica = partition._host.replica
            replica.run_timers(self.now_ms())
            commit(replica)

    async def settle(self, turns: int = 3) -> None:
        """Let the tasks run that were spawned."""
        for _ in range(turns):
            self.turn()
            await asyncio.sleep(0)
        self.turn()

    async def leap(self, seconds: float, steps: int) -> None:
        """Time goes by, with all timers of coordinators and brokers fired in their turn."""
        for _ in range(steps):
            await asyncio.sleep(seconds / steps)
            await self.settle()

    def stop_working(self) -> None:
        """End what would be done every few seconds for weeks: looking for old records, and asking the other
        node, which is never there, to write the markers of a transaction."""
        self.broker._apis.close()
        for partition in self.partitions:
            partition._transactions.close()

    def owed(self) -> dict[str, int]:
        """Answers that somebody still waits for, by who owes them."""
        owed = {"broker": len(self.broker._tasks)}
        for number, partition in enumerate(self.partitions):
            server = partition._server
            owed[f"partition {number}"] = len(server._owed) + len(server._released)
            owed[f"replica {number}"] = partition._host.replica.owed
        return owed

    async def stop(self) -> None:
        await self.broker.stop()
        for each in (self.broker, *self.partitions):
            each._tasks.close()
        await asyncio.sleep(0)


def _tier() -> Host:
    host = tier(SETTINGS, ())
    host.shard = new_shard(SETTINGS, PARTITIONS)
    host.submit(FoundTier(max(CLIENT_ASSIGNORS_LEVEL, PUSH_LEVEL)))
    for node_id in NODES:
        host.submit(RegisterNode(node_id, "127.0.0.1", 9_090 + node_id))
    for partition in range(PARTITIONS):
        host.submit(ReportLeader(partition, NODES[0] if partition in LED_HERE else NODES[1], 1))
    return host


def _spec(data_dir: str) -> TierSpec:
    return TierSpec(
        tier_id="fuzz",
        secret="fuzz",
        data_dir=data_dir,
        run_dir=data_dir,
        nodes=tuple(NodeSpec(node_id=node_id, host="127.0.0.1", port=9_090 + node_id) for node_id in NODES),
        placement=tuple(copies([NODES[0] if p in LED_HERE else NODES[1]]) for p in range(PARTITIONS)),
        controllers=copies([NODES[0]]),
        formed=True,
        groups=GroupSettings(),
        broker=SETTINGS,
    )
