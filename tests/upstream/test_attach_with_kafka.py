"""`groupd attach` on a real Kafka cluster whose groups are alive: a real tier takes them over while members
commit, and nobody notices more than a failover. Kafka 4.4 and 4.3.

How long it takes is printed; `pytest -s` shows it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from bench.ground.throwaway import Tier
from bench.peers.kafka_nodes import KafkaNodes
from cluster.ports import free_ports
from tests.polling import DEADLINE_S, reached, until
from tests.tier.committer import under_load
from tests.tier.consumers import Reader, produce
from tests.upstream.conftest import started
from tests.upstream.kafka import connector
from tests.upstream.metadata_log import MetadataLog
from tests.upstream.site import running

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

TOPIC = "orders"
PARTITIONS = 2
RAW = [f"raw-{number}" for number in range(4)]
"""Groups whose members commit without pause."""
REAL = {"of-classic": "classic", "of-consumer": "consumer"}
"""Groups of real consumers, with their protocols."""
WAIT_S = 120.0
FENCED_MAX_S = 3.0
"""How long a dead node may be a broker: the controller looks at all nodes every two seconds at least."""


@pytest.fixture
def kafka(version: str) -> Iterator[KafkaNodes]:
    """A cluster of one node, for one story: whoever leaves it attached leaves its groups without anybody."""
    more = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": str(PARTITIONS)}
    yield from started(version, 1, more)


@contextmanager
def tier_before(kafka: KafkaNodes) -> Iterator[Tier]:
    """A tier in front of a cluster."""
    addresses = [":".join(map(str, each)) for each in (kafka.address(1), kafka.controller(1))]
    with Tier("--upstream", addresses[0], "--controllers", addresses[1], port=free_ports(3)) as tier:
        yield tier


@contextmanager
def consumers(bootstrap: str) -> Iterator[list[Reader]]:
    """Two real consumers in each of some groups, which have settled."""
    readers = [
        Reader(bootstrap, TOPIC, group_id, **{"group.protocol": protocol, "enable.auto.commit": True})
        for group_id, protocol in REAL.items()
        for _ in range(2)
    ]
    for reader in readers:
        reader.start()
    try:
        until(lambda: all(len(reader.owned) == 3 for reader in readers), "all have settled", WAIT_S)
        yield readers
    finally:
        for reader in readers:
            reader.stop()


def are_read(readers: list[Reader], records: int) -> bool:
    """Whether each group has read so many records."""
    return all(
        len(one.seen | other.seen) == records for one, other in zip(readers[::2], readers[1::2], strict=True)
    )


def described(bootstrap: str) -> dict[str, Any]:
    """The members of the real groups with what they have, as a client that knows nothing is told."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found = {}
    for group_id, future in admin.describe_consumer_groups(list(REAL)).items():
        group = future.result(DEADLINE_S)
        found[group_id] = (
            group.state,
            sorted(
                (each.member_id, sorted(tp.partition for tp in each.assignment.topic_partitions))
                for each in group.members
            ),
        )
    return found


def coordinators(bootstrap: str) -> set[int]:
    """Who coordinates the real groups."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    groups = admin.describe_consumer_groups(list(REAL)).values()
    return {future.result(DEADLINE_S).coordinator.id for future in groups}


def status(tier: Tier) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(tier.run("attach", "status", "--json"))
    return told


def bootstrap_of(kafka: KafkaNodes) -> str:
    return ":".join(map(str, kafka.address(1)))


def make_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, 6, 1)])[TOPIC].result(WAIT_S)


def kill_controllers_leader(tier: Tier) -> None:
    """Kill the process that leads the tier's controllers."""
    (leader,) = [row for row in tier.controllers() if row["serving"]]
    os.kill(leader["pid"], signal.SIGKILL)


def attach(tier: Tier, *, crashes: bool) -> None:
    """Attach, perhaps with a crash of the controller's leader on the way."""
    began = time.monotonic()
    if crashes:
        tier.run("attach", "--no-wait")
        until(lambda: status(tier)["nodes"]["1002"] == "running", "the nodes are brokers", WAIT_S)
        kill_controllers_leader(tier)
    print(f"\n{tier.run('attach')}in {time.monotonic() - began:.1f} s")
    assert status(tier)["done"]


@pytest.mark.parametrize("crashes", [False, True], ids=["in-peace", "with-a-crash"])
def test_live_groups_move_to_the_tier(kafka: KafkaNodes, crashes: bool) -> None:
    bootstrap = bootstrap_of(kafka)
    make_topic(bootstrap)
    produce(bootstrap, TOPIC, 60)
    with consumers(bootstrap) as readers, tier_before(kafka) as tier:
        before = described(bootstrap)
        assert coordinators(bootstrap) == {1}
        under_load([kafka.address(1)], RAW, TOPIC, lambda: attach(tier, crashes=crashes))
        assert described(bootstrap) == before, "members, generations and assignments are as they were"
        assert min(coordinators(bootstrap)) > 1000
        assert [reader.lost for reader in readers] == [0] * len(readers)
        produce(bootstrap, TOPIC, 60)
        until(lambda: are_read(readers, 120), "all records are read", WAIT_S)
        for reader in readers:
            reader.stop()


def test_what_was_aborted_is_as_before(kafka: KafkaNodes) -> None:
    """Commits go on at the brokers all the time, whatever was taken over until then stays with the tier, and
    is served."""

    def begun_and_aborted(tier: Tier) -> None:
        tier.run("attach", "--no-wait")
        until(lambda: status(tier)["nodes"]["1002"] == "running", "the nodes are brokers", WAIT_S)
        tier.run("attach", "abort")
        told = status(tier)
        assert told["done"]
        assert told["goal"] == ("aborted" if told["served"] else "detached")
        if told["served"]:
            tier.run("attach", "resume")
        else:
            tier.run("attach")

    bootstrap = bootstrap_of(kafka)
    make_topic(bootstrap)
    with tier_before(kafka) as tier:
        under_load([kafka.address(1)], RAW, TOPIC, lambda: begun_and_aborted(tier))
        assert status(tier)["served"] == PARTITIONS


def test_a_cluster_without_groups(kafka: KafkaNodes) -> None:
    """The tier makes the topic, and the first group is its own."""
    bootstrap = bootstrap_of(kafka)
    make_topic(bootstrap)
    with tier_before(kafka) as tier:
        tier.run("attach")
        produce(bootstrap, TOPIC, 60)
        with consumers(bootstrap) as readers:
            assert min(coordinators(bootstrap)) > 1000
            until(lambda: are_read(readers, 60), "all records are read", WAIT_S)
            for reader in readers:
                reader.stop()


@pytest.fixture
def patient(version: str) -> Iterator[KafkaNodes]:
    """A cluster that waits long for a silent broker."""
    more = {"broker.session.timeout.ms": "30000", "offsets.topic.num.partitions": str(PARTITIONS)}
    yield from started(version, 1, more)


async def fenced_after_s(kafka: KafkaNodes, broker_id: int, kill: Callable[[], None]) -> float:
    """Return how long it takes until a broker is fenced that was killed."""
    log = MetadataLog(connector(), [kafka.controller(1)])
    async with running(log.follow()):
        await reached(lambda: broker_id in log.image().brokers, "the metadata is read")
        assert not log.image().brokers[broker_id].fenced
        kill()
        began = time.monotonic()
        while not log.image().brokers[broker_id].fenced:
            async with asyncio.timeout(WAIT_S):
                await log.changed()
        return time.monotonic() - began


def test_a_dead_node_is_fenced_long_before_its_session_ends(patient: KafkaNodes) -> None:
    with tier_before(patient) as tier:
        tier.run("attach")
        (leader,) = {row["node_id"] for row in tier.controllers() if row["serving"]}
        node = next(each for each in (1, 2, 3) if each != leader)
        pids = [row["pid"] for row in (*tier.brokers(), *tier.replicas()) if row["node_id"] == node]

        def kill() -> None:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)

        took_s = asyncio.run(fenced_after_s(patient, 1000 + node, kill))
        print(f"\nfenced after {took_s:.2f} s")
        assert took_s < FENCED_MAX_S
        until(lambda: set(status(tier)["nodes"].values()) == {"running"}, "it is back", WAIT_S)
