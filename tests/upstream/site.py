"""Nodes of a tier in front of a real Kafka cluster, without the tier: they register, and nobody serves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import UUID

from actors.network.wire import Closed, Wire
from actors.upstream.controller import may_cordon
from actors.upstream.controller_link import ControllerLink
from actors.upstream.image import Broker, Endpoint
from actors.upstream.leadership import Leadership
from actors.upstream.levels import refuses_cordoned
from actors.upstream.node import TierNode, log_dir_id
from actors.upstream.partitions import Facts as LeaderFacts
from actors.upstream.partitions import RaftLeader, Stray
from actors.upstream.reconciling import Reconciling
from actors.upstream.registered import RegisteredNode
from actors.upstream.registration import Facts, RegisteredBroker
from bench.peers.kafka_nodes import CLUSTER_ID, HOST, KafkaNodes
from tests.polling import reached
from tests.upstream.kafka import connector, wired
from tests.upstream.metadata_log import Image, MetadataLog

TOPIC = "__consumer_offsets"
LISTENERS = {"PLAINTEXT": 0}
WAIT_S = 30.0


class Site:
    """A cluster with a connection to a broker, one to the active controller, and the metadata as it is."""

    def __init__(self, nodes: KafkaNodes, directory: Path) -> None:
        self.nodes = nodes
        self.leaders: dict[int, RaftLeader] = {}
        self.dead: set[int] = set()
        self.tier: set[int] = set()
        self._directory = directory
        self._stack = AsyncExitStack()
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Site:
        self.broker = await self._wire(*self.nodes.address(self.nodes.numbers[-1]))
        self.link = self.new_link()
        self.controller = await self.link.find()
        described = await self.broker.call(
            "describe_cluster", 1, include_cluster_authorized_operations=False, endpoint_type=1
        )
        assert described["cluster_id"] == CLUSTER_ID
        self.log = MetadataLog(connector(), self.controllers())
        await self._stack.enter_async_context(running(self.log.follow()))
        await reached(lambda: self.log.metadata_offset >= 0, "the metadata is read")
        return self

    async def __aexit__(self, *exc: object) -> None:
        if TOPIC in self.log.image().topic_names.values():
            await self.broker.call(
                "delete_topics", 6, topics=[{"name": TOPIC, "topic_id": None}], timeout=10_000
            )
        for node in list(self._tasks):
            await self.kill(node)
        for node in sorted(self.tier):
            await self.controller_call("unregister_broker", 0, broker_id=node)
        await self.link.close()
        await self._stack.aclose()

    def controllers(self) -> list[tuple[str, int]]:
        return [(HOST, self.nodes.address(number)[1] + self.nodes.brokers) for number in self.nodes.numbers]

    def new_link(self) -> ControllerLink:
        return ControllerLink(connector(), self.controllers())

    async def active(self) -> int:
        """Return the number of the node whose controller is active, as soon as there is one."""
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            for number in self.nodes.numbers:
                with suppress(OSError, Closed):
                    described = await self._described(number)
                    if described["controller_id"] > 0:
                        return int(described["controller_id"])
            await asyncio.sleep(0.05)
        raise AssertionError(f"no controller is active within {WAIT_S:g} s")

    async def _described(self, number: int) -> dict[str, Any]:
        async with wired(*self.controllers()[number - 1]) as wire:
            return await wire.call(
                "describe_cluster", 1, include_cluster_authorized_operations=False, endpoint_type=2
            )

    async def controller_call(self, api: str, version: int, **fields: Any) -> dict[str, Any]:
        async with wired(*self.controllers()[await self.active() - 1]) as wire:
            return await wire.call(api, version, **fields)

    def facts(self, broker_id: int) -> Facts:
        image = self.log.image()
        broker = image.brokers.get(broker_id)
        return Facts(
            metadata_offset=image.metadata_offset,
            listeners=LISTENERS,
            registered=None if broker is None else _registered(broker),
            replicas=sum(broker_id in state.replicas for state in image.partitions.values()),
        )

    def node(
        self, broker_id: int, directory: str | None = None, cluster_id: str = CLUSTER_ID
    ) -> RegisteredNode:
        node = TierNode(cluster_id, broker_id, (Endpoint("PLAINTEXT", HOST, 1 + broker_id % 60_000),))
        place = self._directory / (directory or str(broker_id))
        return RegisteredNode(node, place, self.new_link(), lambda: self.facts(broker_id))

    async def start(self, *broker_ids: int) -> list[RegisteredNode]:
        """Register nodes and wait until they are unfenced in the metadata."""
        nodes = [self.node(broker_id) for broker_id in broker_ids]
        for broker_id, node in zip(broker_ids, nodes, strict=True):
            self._tasks[broker_id] = asyncio.create_task(node.run())
            self.tier.add(broker_id)
            self.dead.discard(broker_id)
        for broker_id in broker_ids:
            await self.until(
                lambda image, which=broker_id: _is_unfenced(image, which), f"{broker_id} is unfenced"
            )
        return nodes

    async def kill(self, broker_id: int) -> None:
        """End a node without a word."""
        task = self._tasks.pop(broker_id)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def until(self, holds: Any, what: str) -> Image:
        """Wait until the metadata is so."""

        def looked() -> bool:
            for task in self._tasks.values():
                if task.done():
                    task.result()
            return bool(holds(self.log.image()))

        await reached(looked, what, WAIT_S)
        return self.log.image()

    async def place(self, topic: str, partitions: int, factor: int = 1) -> list[list[int]]:
        """Create a topic and return where its partitions are."""
        return await self._create(topic, partitions, factor, ())

    async def create_offsets(self, assignments: Iterable[tuple[int, ...]]) -> None:
        """Create the topic of offsets on these brokers."""
        await self._create(TOPIC, -1, -1, tuple(assignments))

    def topic_id(self, topic: str = TOPIC) -> bytes:
        return next(topic_id for topic_id, name in self.log.image().topic_names.items() if name == topic)

    def leader_facts(self) -> LeaderFacts:
        """Return what the reconcile of leaders has to know."""
        image = self.log.image()
        ours = self.topic_id()
        strays = tuple(
            Stray(image.topic_names[topic_id], topic_id, index, state)
            for (topic_id, index), state in image.partitions.items()
            if topic_id != ours and self.tier & set(state.replicas)
        )
        return LeaderFacts(
            image.metadata_offset,
            TOPIC,
            ours,
            {index: state for (topic_id, index), state in image.partitions.items() if topic_id == ours},
            dict(self.leaders),
            image.brokers,
            frozenset(self.tier),
            frozenset(self.dead),
            strays,
            may_cordon(self.controller),
            refuses_cordoned(self.controller.supported),
        )

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[Reconciling[LeaderFacts]]:
        """Run the reconcile of leaders."""
        links = [self.new_link() for _ in range(4)]
        leading = Reconciling(links, self.leader_facts, Leadership())

        async def look() -> None:
            while True:
                await self.log.changed()
                leading.look()

        async with running(leading.run()), running(look()):
            yield leading

    async def _create(self, topic: str, partitions: int, factor: int, assignments: Any) -> list[list[int]]:
        rows = [{"partition_index": index, "broker_ids": list(ids)} for index, ids in enumerate(assignments)]
        asked = {"name": topic, "num_partitions": partitions, "replication_factor": factor}
        answer = await self.broker.call(
            "create_topics",
            7,
            topics=[{**asked, "assignments": rows, "configs": []}],
            timeout=10_000,
            validate_only=False,
        )
        assert answer["topics"][0]["error_code"].value == 0, answer
        topic_id = answer["topics"][0]["topic_id"].bytes
        image = await self.until(lambda image: (topic_id, 0) in image.partitions, "the topic is there")
        return [list(state.replicas) for key, state in sorted(image.partitions.items()) if key[0] == topic_id]

    async def _wire(self, host: str, port: int) -> Wire:
        wire = await Wire.connect(host, port, "site")
        self._stack.push_async_callback(wire.close)
        return wire


@asynccontextmanager
async def running(work: Any) -> AsyncIterator[None]:
    """Run something beside, and say what went wrong with it."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        if task.done():
            task.result()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _registered(broker: Broker) -> RegisteredBroker:
    return RegisteredBroker(broker.incarnation_id, broker.log_dirs, broker.in_controlled_shutdown)


def _is_unfenced(image: Image, broker_id: int) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and not broker.fenced


def log_dir(broker_id: int) -> bytes:
    return log_dir_id(CLUSTER_ID, broker_id)


async def fence(site: Site, node: int) -> None:
    """Have a node fenced, as its peers do when it is dead."""
    await _heartbeat(site, node, want_fence=True, cordoned_log_dirs=None)


async def heartbeat(site: Site, node: int, *, cordoned: bool) -> None:
    """Send a node's heartbeat, which says whether it is cordoned."""
    dirs = [UUID(bytes=log_dir(node))] if cordoned else []
    await _heartbeat(site, node, want_fence=False, cordoned_log_dirs=dirs)


async def _heartbeat(site: Site, node: int, **said: Any) -> None:
    answer = await site.controller_call(
        "broker_heartbeat",
        2,
        broker_id=node,
        broker_epoch=site.log.image().brokers[node].broker_epoch,
        current_metadata_offset=site.log.metadata_offset,
        want_shut_down=False,
        **said,
    )
    assert answer["error_code"].value == 0, answer


async def reassign(site: Site, topic: str, index: int, replicas: list[int]) -> None:
    """Reassign a partition as Kafka's tool does, through a broker."""
    rows = [{"name": topic, "partitions": [{"partition_index": index, "replicas": replicas}]}]
    answer = await site.broker.call("alter_partition_reassignments", 0, timeout=5_000, topics=rows)
    assert answer["error_code"].value == 0, answer
    assert answer["responses"][0]["partitions"][0]["error_code"].value == 0, answer
