"""Lag in a real tier's history: of logs on all three nodes, asked for by the leader of the group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.ground.throwaway import Tier
from storage.history.segments.folder import Folder
from tests.history.read_back import read_all
from tests.polling import DEADLINE_S, until

pytestmark = pytest.mark.ray

TOPIC = "orders"
PARTITIONS = 6
RECORDS = 5


@pytest.fixture(scope="module")
def tier() -> Iterator[Tier]:
    """A tier of two nodes, so that one reads the logs of the other."""
    shape = ("--nodes=2", "--replicas=1", "--partitions=1")
    with Tier(*shape, "--set=history.lag.interval.ms=300", "--set=history.segment.ms=200") as running:
        yield running


def test_lag_is_sampled_wherever_the_log_is(tier: Tier) -> None:
    """Five records in each partition, of which the group has committed as many as the partition's number."""
    admin = AdminClient({"bootstrap.servers": tier.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(DEADLINE_S)
    producer = Producer({"bootstrap.servers": tier.bootstrap})
    for partition in range(PARTITIONS):
        for _ in range(RECORDS):
            producer.produce(TOPIC, b"x", partition=partition)
    assert producer.flush(DEADLINE_S) == 0
    leaders = {each.leader for each in admin.list_topics(TOPIC).topics[TOPIC].partitions.values()}
    assert len(leaders) == 2

    committed = [TopicPartition(TOPIC, partition, partition) for partition in range(PARTITIONS)]
    wanted = [ConsumerGroupTopicPartitions("billing", committed)]
    admin.alter_consumer_group_offsets(wanted)["billing"].result(DEADLINE_S)
    expected = {partition: RECORDS - partition for partition in range(PARTITIONS)}
    until(lambda: sampled(tier) == expected, f"lag of {expected}")


def sampled(tier: Tier) -> dict[Any, Any]:
    """Partition -> the lag that was told of it."""
    columns = ["kind", "group_id", "topic", "partition", "lag"]
    table, _ = read_all(Folder(str(tier.data_dir / "history")), columns=columns)
    return {
        row["partition"]: row["lag"]
        for row in table.to_pylist()
        if (row["kind"], row["group_id"], row["topic"]) == ("lag", "billing", TOPIC)
    }
