"""aiokafka against the real tier: the classic protocol at low versions, and its admin calls.

It says no client software (ApiVersions 0), joins with JoinGroup 5, heartbeats with version 1 and asks one
group at a time for offsets: what no other client here covers (W15, W16).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiokafka
import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from bench.ground.throwaway import Tier
from tests.polling import DEADLINE_S
from tests.tier.consumers import produce
from tests.tier.python_readers import AiokafkaReader, are_shared_out, wait_until

pytestmark = pytest.mark.clients

PARTITIONS = 6


async def shared_out(*readers: AiokafkaReader) -> None:
    await wait_until(lambda: are_shared_out(readers, PARTITIONS), "each partition has one owner, evenly")


@asynccontextmanager
async def admin_of(tier: Tier) -> AsyncIterator[AIOKafkaAdminClient]:
    client = AIOKafkaAdminClient(bootstrap_servers=tier.bootstrap)
    await client.start()
    try:
        yield client
    finally:
        await client.close()


async def state_of(client: AIOKafkaAdminClient, group_id: str) -> str:
    """A DescribeGroups answer of aiokafka is a tuple: error code, group id, state, ..."""
    (answer,) = await client.describe_consumer_groups([group_id])
    ((error_code, _, state, *_),) = answer.groups
    assert error_code == 0
    return str(state)


@pytest.mark.parametrize(
    "assignor", [RoundRobinPartitionAssignor, StickyPartitionAssignor], ids=["roundrobin", "sticky"]
)
def test_group_shares_partitions_and_resumes_where_it_committed(
    tier: Tier, topic: str, group_id: str, assignor: type
) -> None:
    """C1, C8, C15, C23, O9: a join and a leave move partitions; the next member reads on."""
    settings = {"partition_assignment_strategy": [assignor]}

    async def story() -> None:
        await asyncio.to_thread(produce, tier.bootstrap, topic, 60)
        first = AiokafkaReader(tier.bootstrap, topic, group_id, **settings)
        await wait_until(lambda: len(first.seen) == 60, "all records are read")
        await shared_out(first)
        second = AiokafkaReader(tier.bootstrap, topic, group_id, **settings)
        await shared_out(first, second)
        await second.stop()
        await shared_out(first)
        await first.stop()

        await asyncio.to_thread(produce, tier.bootstrap, topic, 12)
        third = AiokafkaReader(tier.bootstrap, topic, group_id, **settings)
        await wait_until(lambda: len(third.seen) >= 12, "the new records are read")
        await third.stop()
        assert not first.seen & third.seen

    asyncio.run(story())


def test_static_member_restarts_without_a_rebalance(tier: Tier, topic: str, group_id: str) -> None:
    """C21, E3, E8: the instance is back with its partitions and its neighbour was not asked to join."""

    async def story() -> None:
        neighbour = AiokafkaReader(tier.bootstrap, topic, group_id, group_instance_id="a")
        await shared_out(neighbour)
        restarted = AiokafkaReader(tier.bootstrap, topic, group_id, group_instance_id="b")
        await shared_out(neighbour, restarted)
        joined, owned = neighbour.assignments, restarted.owned
        await restarted.stop()
        again = AiokafkaReader(tier.bootstrap, topic, group_id, group_instance_id="b")
        await wait_until(lambda: again.owned == owned, "the same partitions as before the restart")
        assert neighbour.assignments == joined
        await again.stop()
        await neighbour.stop()

    asyncio.run(story())


def test_admin_sees_a_group_and_its_offsets(tier: Tier, topic: str, group_id: str) -> None:
    """C25, W9, O9: list, describe and read, in the versions of long ago."""

    async def story() -> None:
        await asyncio.to_thread(produce, tier.bootstrap, topic, 60)
        reader = AiokafkaReader(tier.bootstrap, topic, group_id)
        await wait_until(lambda: len(reader.seen) == 60, "all records are read")
        async with admin_of(tier) as client:
            assert await state_of(client, group_id) == "Stable"
            assert (group_id, "consumer") in await client.list_consumer_groups()
            await reader.stop()
            assert await state_of(client, group_id) == "Empty"
            offsets = await client.list_consumer_group_offsets(group_id)
            assert {tp.partition: at.offset for tp, at in offsets.items()} == dict.fromkeys(range(6), 10)
            missing = aiokafka.TopicPartition(topic, 99)
            unknown = await client.list_consumer_group_offsets(group_id, partitions=[missing])
            assert unknown[missing].offset == -1

    asyncio.run(story())


def test_admin_makes_describes_grows_and_deletes_topics(tier: Tier, group_id: str) -> None:
    """W16, A19: topic administration and records deleted up to an offset."""
    name = f"made-by-{group_id}"
    first = aiokafka.TopicPartition(name, 0)

    async def partitions(client: AIOKafkaAdminClient) -> set[int]:
        (described,) = await client.describe_topics([name])
        return {partition["partition"] for partition in described["partitions"]}

    async def story() -> None:
        async with admin_of(tier) as client:
            topic = NewTopic(name, 2, 1, topic_configs={"retention.ms": "3600000"})
            made = await client.create_topics([topic])
            assert [error_code for _, error_code, *_ in made.topic_errors] == [0]
            resource = ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": ""})
            (answer,) = await client.describe_configs([resource])
            ((error_code, _, _, _, configs),) = answer.resources
            assert (error_code, [config[:2] for config in configs]) == (0, [("retention.ms", "3600000")])

            await client.create_partitions({name: NewPartitions(3)})
            async with asyncio.timeout(DEADLINE_S):
                while await partitions(client) != {0, 1, 2}:
                    pass
            await asyncio.to_thread(produce, tier.bootstrap, name, 30, 3)
            assert await client.delete_records({first: RecordsToDelete(4)}) == {first: 4}

            deleted = await client.delete_topics([name])
            assert [error_code for _, error_code in deleted.topic_error_codes] == [0]
            async with asyncio.timeout(DEADLINE_S):
                while name in await client.list_topics():
                    pass

    asyncio.run(story())


def test_idempotent_producer_keeps_order_and_offsets_are_found_by_time(
    tier: Tier, topic: str, group_id: str
) -> None:
    """InitProducerId and sequence numbers; ListOffsets by timestamp, earliest and latest."""
    start_ms, count = 1_700_000_000_000, 50
    partition = aiokafka.TopicPartition(topic, 0)

    async def story() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=tier.bootstrap, enable_idempotence=True)
        async with producer:
            sent = [
                await producer.send(topic, b"%d" % n, partition=0, timestamp_ms=start_ms + n)
                for n in range(count)
            ]
            assert [(await each).offset for each in sent] == list(range(count))
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=tier.bootstrap, fetch_max_wait_ms=200)
        async with consumer:
            consumer.assign([partition])
            found = await consumer.offsets_for_times({partition: start_ms + 20})
            assert (found[partition].offset, found[partition].timestamp) == (20, start_ms + 20)
            assert (await consumer.offsets_for_times({partition: start_ms + count}))[partition] is None
            assert await consumer.beginning_offsets([partition]) == {partition: 0}
            assert await consumer.end_offsets([partition]) == {partition: count}
            consumer.seek(partition, 40)
            values = [(await asyncio.wait_for(consumer.getone(), DEADLINE_S)).value for _ in range(10)]
            assert values == [b"%d" % number for number in range(40, 50)]

    asyncio.run(story())
