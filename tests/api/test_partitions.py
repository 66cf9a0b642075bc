"""What brokers tell administrators about partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.ground.topic_names import INTERNAL_TOPICS, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from actors.protocol.api_keys import (
    DESCRIBE_LOG_DIRS,
    DESCRIBE_PRODUCERS,
    DESCRIBE_TOPIC_PARTITIONS,
    ELECT_LEADERS,
)
from actors.topics.logs import Produced
from tests.api.brokers import Broker, brokers, part, versions
from tests.api.test_topics import create
from tests.topics.batches import batch

TIMEOUT = timedelta(seconds=5)


def run(story: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(story, 20))


async def described(broker: Broker, *names: str, limit: int, cursor: Any = None) -> Any:
    topics = tuple(part(DESCRIBE_TOPIC_PARTITIONS, 0, "TopicRequest", name=name) for name in names)
    asked = {"topics": topics, "response_partition_limit": limit, "cursor": cursor}
    return await broker.ask(DESCRIBE_TOPIC_PARTITIONS, 0, **asked)


def test_all_pages_together_have_every_partition_once() -> None:
    """W21: whoever follows the cursor sees all topics, in the order of their names."""

    async def story() -> None:
        _, (one, *_) = brokers()
        await create(one, 7, "b", "a", "c", partitions=5)
        seen: list[tuple[str, int]] = []
        cursor = None
        while True:
            page = await described(one, limit=4, cursor=cursor)
            told = [(topic.name, each.partition_index) for topic in page.topics for each in topic.partitions]
            assert 1 <= len(told) <= 4
            seen += told
            if page.next_cursor is None:
                break
            cursor = part(
                DESCRIBE_TOPIC_PARTITIONS,
                0,
                "Cursor",
                topic_name=page.next_cursor.topic_name,
                partition_index=page.next_cursor.partition_index,
            )
        partitions = range(len(one.apis.image.offsets_leaders))
        internal = [(name, partition) for name in INTERNAL_TOPICS for partition in partitions]
        assert seen == internal + [(name, partition) for name in "abc" for partition in range(5)]

    run(story())


def test_a_producer_is_told_with_its_last_batch_by_the_partitions_leader_alone() -> None:
    """W22."""

    async def story() -> None:
        _, members = brokers()
        await create(members[0], 7, "t", partitions=3)
        topic = members[0].apis.image.topics["t"]
        leader = next(each for each in members if each.node_id == topic.partition_leaders[1])
        records = batch(b"x", b"y", producer_id=7, epoch=2, sequence=0)
        leader.logs.append(topic, 1, Produced(records), leader.now_ms)
        asked = part(DESCRIBE_PRODUCERS, 0, "TopicRequest", name="t", partition_indexes=(1,))
        told = (await leader.ask(DESCRIBE_PRODUCERS, 0, topics=(asked,))).topics[0].partitions[0]
        (producer,) = told.active_producers
        assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 2, 1)
        assert (producer.coordinator_epoch, producer.current_txn_start_offset) == (-1, -1)
        other = next(each for each in members if each is not leader)
        refused = (await other.ask(DESCRIBE_PRODUCERS, 0, topics=(asked,))).topics[0].partitions[0]
        assert refused.error_code == ErrorCode.not_leader_or_follower

    run(story())


@pytest.mark.parametrize("version", versions(DESCRIBE_LOG_DIRS))
def test_each_broker_tells_the_logs_that_it_leads(version: int) -> None:
    """W23: what was appended counts, and the brokers' answers together have every partition once."""

    async def story() -> None:
        _, members = brokers()
        await create(members[0], 7, "t", partitions=4)
        topic = members[0].apis.image.topics["t"]
        leader = next(each for each in members if each.node_id == topic.partition_leaders[2])
        appended = leader.logs.append(topic, 2, Produced(batch(b"x" * 100)), leader.now_ms)
        sizes: dict[int, int] = {}
        for member in members:
            (directory,) = (await member.ask(DESCRIBE_LOG_DIRS, version, topics=None)).results
            for told in directory.topics:
                assert told.name in ("t", *INTERNAL_TOPICS)
                if told.name in INTERNAL_TOPICS:
                    continue
                for each in told.partitions:
                    assert each.partition_index not in sizes
                    sizes[each.partition_index] = each.partition_size
        assert sizes == {0: 0, 1: 0, 2: appended.size_bytes, 3: 0}

    run(story())


async def elect(broker: Broker, version: int, topic: str, partitions: tuple[int, ...] | None) -> Any:
    asked = None
    if partitions is not None:
        asked = (part(ELECT_LEADERS, version, "TopicPartitions", topic=topic, partitions=partitions),)
    answer = await broker.ask(
        ELECT_LEADERS, version, election_type=0, topic_partitions=asked, timeout=TIMEOUT
    )
    return {
        result.topic: {each.partition_id: each.error_code for each in result.partition_result}
        for result in answer.replica_election_results
    }


@pytest.mark.parametrize("version", versions(ELECT_LEADERS))
def test_an_offsets_partition_is_given_to_its_preferred_leader(version: int) -> None:
    """W24: partitions of internal topics have leaders to elect; "all" leaves out what needs none."""

    async def story() -> None:
        _, (one, *_) = brokers()
        asked: list[int] = []

        async def elected(partition: int) -> ErrorCode:
            asked.append(partition)
            return ErrorCode.none if partition == 2 else ErrorCode.election_not_needed

        one.apis.elect_with(elected)
        outcomes = await elect(one, version, OFFSETS_TOPIC, (2, 0, 99))
        assert outcomes[OFFSETS_TOPIC] == {
            2: ErrorCode.none,
            0: ErrorCode.election_not_needed,
            99: ErrorCode.unknown_topic_or_partition,
        }
        assert asked == [2, 0]
        assert await elect(one, version, TRANSACTIONS_TOPIC, (2,)) == {
            TRANSACTIONS_TOPIC: {2: ErrorCode.none}
        }
        everything = await elect(one, version, "", None)
        assert everything == {name: {2: ErrorCode.none} for name in INTERNAL_TOPICS}

    run(story())


@pytest.mark.parametrize("version", [1, 2])
def test_an_election_of_an_unknown_type_is_refused_if_it_is_of_a_partition(version: int) -> None:
    """An election of no partitions succeeds, whatever its type (W24); it was refused once."""

    async def story() -> None:
        _, (one, *_) = brokers()
        some = (part(ELECT_LEADERS, version, "TopicPartitions", topic=OFFSETS_TOPIC, partitions=(0,)),)
        for topics, code in (((), ErrorCode.none), (some, ErrorCode.invalid_request)):
            answer = await one.ask(
                ELECT_LEADERS, version, election_type=2, topic_partitions=topics, timeout=TIMEOUT
            )
            assert answer.error_code == code

    run(story())
