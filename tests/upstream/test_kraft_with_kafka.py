"""The simulation's controller does what a real one does: the same requests, answers and partitions."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pytest
from kio.schema.errors import ErrorCode

from actors.upstream.controllers import METADATA_TOPIC
from actors.upstream.image import NO_LEADER, Endpoint, Partition
from actors.upstream.levels import FEATURES
from actors.upstream.moves import Cancel, Elect, Move, ToIsr, ToReplicas
from actors.upstream.node import log_dir_id
from actors.upstream.partitions import PartitionState
from actors.upstream.requests import (
    PREFERRED,
    UNCLEAN,
    BrokerHeartbeat,
    HeartbeatAnswer,
    PartitionErrors,
    RegisterBroker,
    RegistrationAnswer,
)
from actors.upstream.together import Decided, requests_of
from bench.ground.reference import KAFKA_VERSION
from bench.peers.kafka_nodes import CLUSTER_ID, HOST, KafkaNodes
from tests.polling import reached
from tests.simulation.upstream.kraft import Kraft
from tests.upstream.conftest import started
from tests.upstream.site import TOPIC, Site, running

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

NODES = (1001, 1002, 1003, 1004)
SEEDS = 5
STEPS = 80
EVERY_S = 0.5
QUORUM = [{"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0}]}]
KEY = (TOPIC, 0)
KINDS = (*("reassign",) * 3, "cancel", *("isr",) * 2, "elect", "fence", "cordon")


class Fence(NamedTuple):
    """A node is fenced, or unfenced."""

    node: int
    fenced: bool


class Cordon(NamedTuple):
    """A node is cordoned, or not."""

    node: int
    cordoned: bool


Step = Fence | Cordon | Move


class Both:
    """A real controller and the simulation's, which are asked the same."""

    def __init__(self, site: Site, kraft: Kraft) -> None:
        self.site = site
        self.kraft = kraft
        self.fenced: set[int] = set()
        self.epochs: dict[int, int] = {}

    async def set_up(self) -> None:
        for node in NODES:
            directory = log_dir_id(CLUSTER_ID, node)
            listeners = (Endpoint("PLAINTEXT", HOST, node),)
            asked = RegisterBroker(
                node, CLUSTER_ID, uuid4().bytes, listeners, FEATURES, None, (directory,), -1
            )
            answer = await self.site.link.call(asked)
            assert isinstance(answer, RegistrationAnswer)
            assert answer.error_code is ErrorCode.none
            self.site.tier.add(node)
            self.epochs[node] = answer.broker_epoch
            self.kraft.register(node, directory)
            await self.beat(node)
        await self.site.until(lambda image: all(not image.brokers[each].fenced for each in NODES), "unfenced")
        await self.site.create_offsets([NODES[:3]])
        self.kraft.create(TOPIC, [NODES[:3]])

    async def keep_alive(self) -> None:
        while True:
            for node in NODES:
                await self.beat(node)
            await asyncio.sleep(EVERY_S)

    async def beat(self, node: int, cordoned: bool | None = None) -> HeartbeatAnswer:
        directories = None if cordoned is None else (log_dir_id(CLUSTER_ID, node),) if cordoned else ()
        asked = BrokerHeartbeat(
            node,
            self.epochs[node],
            2**40,
            want_fence=node in self.fenced,
            cordoned_log_dirs=directories,
        )
        answer = await self.site.link.call(asked)
        assert isinstance(answer, HeartbeatAnswer)
        return answer

    def real(self) -> Partition:
        return self.site.log.image().partitions[self.site.topic_id(), 0]

    async def play(self, step: Step) -> None:
        """Do one thing on both sides, and see that it is the same."""
        await self._read_all()
        before = self.real()
        match step:
            case Fence():
                self.fenced = self.fenced | {step.node} if step.fenced else self.fenced - {step.node}
                await self.beat(step.node)
                (self.kraft.fence if step.fenced else self.kraft.unfence)(step.node)
            case Cordon():
                await self.beat(step.node, cordoned=step.cordoned)
                directories = self.kraft.brokers[step.node].log_dirs if step.cordoned else ()
                heartbeat = BrokerHeartbeat(step.node, self.kraft.brokers[step.node].broker_epoch, 0)
                fenced = self.kraft.brokers[step.node].fenced
                self.kraft.ask(heartbeat._replace(want_fence=fenced, cordoned_log_dirs=directories))
            case move:
                told = await self._ask(move, before), self._ask_simulated(move)
                assert told[0] == told[1], f"{move} of {before}: {told}"
        ours = shape(self.kraft.partitions[KEY])
        try:
            await reached(lambda: shape(self.real()) == ours, deadline_s=3.0)
        except AssertionError:
            raise AssertionError(f"{step} of {before}: {self.real()}, simulated {ours}") from None

    async def _read_all(self) -> None:
        """Read the metadata to its end: what is asked next must not be stale."""
        quorum = await self.site.controller_call("describe_quorum", 1, topics=QUORUM)
        end = quorum["topics"][0]["partitions"][0]["high_watermark"]
        await reached(lambda: self.site.log.metadata_offset >= end - 1, "the metadata is read")

    async def _ask(self, move: Move, state: PartitionState) -> str:
        topic_id, image = self.site.topic_id(), self.site.log.image()
        (request,) = requests_of([_decided(move, topic_id, state)], image.brokers)
        answer = await self.site.link.call(request)
        assert isinstance(answer, PartitionErrors)
        return _error(answer)

    def _ask_simulated(self, move: Move) -> str:
        decided = _decided(move, self.kraft.topic_ids[TOPIC], self.kraft.partitions[KEY])
        (request,) = requests_of([decided], self.kraft.brokers)
        answer = self.kraft.ask(request)
        assert isinstance(answer, PartitionErrors)
        return _error(answer)


def _decided(move: Move, topic_id: bytes, state: PartitionState) -> Decided:
    return Decided(KEY, topic_id, state.partition_epoch, state.leader, state.leader_epoch, move, 0)


def _error(answer: PartitionErrors) -> str:
    return next(iter(answer.partitions.values()), answer.error_code).name


def shape(state: PartitionState) -> tuple[object, ...]:
    """Return what must be the same on both sides: all but epochs, which count on from elsewhere."""
    return (
        state.replicas,
        set(state.isr),
        set(state.adding_replicas),
        set(state.removing_replicas),
        state.leader,
    )


def steps(chance: random.Random, both: Both) -> Iterator[Step]:
    """Choose one step after the other, as the partition is then."""
    for _ in range(STEPS):
        state = both.kraft.partitions[KEY]
        kind = chance.choice(KINDS)
        if kind == "reassign":
            yield ToReplicas(tuple(chance.sample(NODES, chance.randint(1, 3))))
        elif kind == "cancel":
            yield Cancel()
        elif kind == "isr" and state.leader != NO_LEADER:
            others = [each for each in state.replicas if each != state.leader]
            isr = chance.sample(others, chance.randint(0, len(others)))
            yield ToIsr((state.leader, *isr))
        elif kind == "elect":
            yield Elect(chance.choice((PREFERRED, UNCLEAN)))
        elif kind == "fence":
            node = chance.choice(NODES)
            yield Fence(node, node not in both.fenced)
        elif kind == "cordon":
            node = chance.choice(NODES)
            yield Cordon(node, not both.kraft.brokers[node].cordoned_log_dirs)


@pytest.fixture(scope="module")
def kafka(version: str) -> Iterator[KafkaNodes]:
    """A cluster that changes no leader of itself."""
    yield from started(version, 1, {"auto.leader.rebalance.enable": "false"})


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_simulated_controller_is_a_real_one(
    kafka: KafkaNodes, version: str, seed: int, tmp_path: Path
) -> None:
    async def story() -> None:
        async with Site(kafka, tmp_path) as site:
            both = Both(site, Kraft(refuses_cordoned=version == KAFKA_VERSION))
            await both.set_up()
            async with running(both.keep_alive()):
                for step in steps(random.Random(seed), both):
                    await both.play(step)

    asyncio.run(story())
