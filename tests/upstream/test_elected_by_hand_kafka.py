"""While a tier is away, somebody has a real Kafka's broker lead its offsets partitions by an unclean
election. When the tier is back it takes them over again, and nothing is lost that either has acknowledged:
Kafka 4.4 and 4.3."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer, TopicPartition

from actors.ground.topic_names import OFFSETS_TOPIC
from actors.network.wire import Wire
from actors.upstream.requests import UNCLEAN
from bench.ground.throwaway import Tier
from bench.peers.kafka_nodes import KafkaNodes
from tests.kafka import jvm
from tests.kafka.members import JavaMember, partitions_of, shared_out
from tests.polling import until
from tests.tier.consumers import produce
from tests.upstream.conftest import started
from tests.upstream.kafka import topics, wired
from tests.upstream.test_attach_with_kafka import (
    PARTITIONS,
    TOPIC,
    WAIT_S,
    bootstrap_of,
    make_topic,
    status,
    tier_before,
)

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

GROUPS = tuple(f"group-{number}" for number in range(6))
"""Groups in all partitions."""


@pytest.fixture
def kafka(version: str) -> Iterator[KafkaNodes]:
    """A cluster of one node, for one story."""
    more = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": str(PARTITIONS)}
    yield from started(version, 1, more)


def commit(bootstrap: str, partition: int, offset: int) -> None:
    """Commit one offset in each group, as a client that is no member."""
    for group in GROUPS:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        consumer.commit(offsets=[TopicPartition(TOPIC, partition, offset)], asynchronous=False)
        consumer.close()


def committed(bootstrap: str) -> set[tuple[int, ...]]:
    """What the groups have committed for the first three partitions."""
    found = set()
    for group in GROUPS:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        asked = [TopicPartition(TOPIC, number) for number in range(3)]
        found.add(tuple(each.offset for each in consumer.committed(asked, WAIT_S)))
        consumer.close()
    return found


async def _elect(wire: Wire) -> None:
    rows = [{"partition_index": index, "replicas": [1]} for index in range(PARTITIONS)]
    moved = await wire.call(
        "alter_partition_reassignments",
        0,
        timeout=10_000,
        topics=[{"name": OFFSETS_TOPIC, "partitions": rows}],
    )
    assert not moved["error_code"], moved
    named = [{"topic": OFFSETS_TOPIC, "partitions": list(range(PARTITIONS))}]
    elected = await wire.call(
        "elect_leaders", 2, election_type=UNCLEAN, topic_partitions=named, timeout=10_000
    )
    assert not elected["error_code"], elected


async def _leaders(wire: Wire) -> set[int]:
    _, partitions = (await topics(wire))[OFFSETS_TOPIC]
    return {row[0] for row in partitions.values()}


def leaders(kafka: KafkaNodes) -> set[int]:
    async def asked() -> set[int]:
        async with wired(*kafka.address(1)) as wire:
            return await _leaders(wire)

    return asyncio.run(asked())


def elect_the_broker(kafka: KafkaNodes) -> None:
    async def asked() -> None:
        async with wired(*kafka.address(1)) as wire:
            await _elect(wire)

    until(lambda: leaders(kafka) == {-1}, "nobody leads", WAIT_S)
    asyncio.run(asked())
    until(lambda: leaders(kafka) == {1}, "the broker leads", WAIT_S)


def come_back(tier: Tier, kafka: KafkaNodes) -> None:
    tier.run("up", "--detach", "--port", str(tier.port))
    until(
        lambda: min(leaders(kafka)) > 1000 and status(tier)["served"] == PARTITIONS,
        "the tier serves",
        WAIT_S,
    )


def test_what_a_broker_was_made_to_lead_comes_back_with_all_commits(kafka: KafkaNodes) -> None:
    bootstrap = bootstrap_of(kafka)
    make_topic(bootstrap)
    with tier_before(kafka) as tier:
        tier.run("attach")
        commit(bootstrap, 0, 17)
        commit(bootstrap, 2, 3)
        tier.run("down", "--force")
        elect_the_broker(kafka)
        commit(bootstrap, 1, 5)
        commit(bootstrap, 2, 4)
        assert committed(bootstrap) == {(-1001, 5, 4)}, "the broker knows nothing of the tier's commits"
        come_back(tier, kafka)
        assert committed(bootstrap) == {(17, 5, 4)}
        tier.run("detach")
        assert leaders(kafka) == {1}
        assert committed(bootstrap) == {(17, 5, 4)}


@pytest.mark.skipif(jvm.missing() is not None, reason=str(jvm.missing()))
def test_java_members_that_nobody_knows_any_more_join_anew(kafka: KafkaNodes) -> None:
    """They have not asked the broker meanwhile, whose GROUP_ID_NOT_FOUND is the end of a KIP-848 member."""
    bootstrap = bootstrap_of(kafka)
    make_topic(bootstrap)
    with tier_before(kafka) as tier, ExitStack() as stack:
        tier.run("attach")
        members = [
            stack.enter_context(
                JavaMember(
                    jvm.build(),
                    bootstrap,
                    TOPIC,
                    f"java-{protocol}",
                    group_protocol=protocol,
                    commit_each_poll="true",
                )
            )
            for protocol in ("classic", "consumer")
        ]
        for member in members:
            shared_out([member], partitions_of(TOPIC))
            member.signal(signal.SIGSTOP)
        tier.run("down", "--force")
        elect_the_broker(kafka)
        come_back(tier, kafka)
        joined = [len(member.told("assigned")) for member in members]
        for member, before in zip(members, joined, strict=True):
            member.signal(signal.SIGCONT)
            member.until(lambda m=member, n=before: len(m.told("assigned")) > n, "it has joined anew")
        produce(bootstrap, TOPIC, 60)
        for member in members:
            member.until(lambda m=member: len(m.seen) >= 60, "it reads on")
            member.until(lambda m=member: sum(m.acknowledged.values()) >= 60, "it commits")
            member.close()
