"""confluent-kafka (librdkafka) in both protocols against the real tier: W15, W16, C rows, M rows, E rows."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, TopicPartition
from confluent_kafka import ConsumerGroupTopicPartitions as GroupPartitions
from confluent_kafka.admin import AdminClient

from bench.ground.throwaway import Tier
from tests.polling import DEADLINE_S, until
from tests.tier.consumers import Reader, produce, shared_out

pytestmark = pytest.mark.clients

PROTOCOLS: list[dict[str, Any]] = [
    {"group.protocol": "classic"},
    {"group.protocol": "classic", "partition.assignment.strategy": "cooperative-sticky"},
    {"group.protocol": "consumer"},
]


@pytest.fixture(params=PROTOCOLS, ids=["classic", "cooperative-sticky", "consumer"])
def protocol(request: pytest.FixtureRequest) -> dict[str, Any]:
    settings: dict[str, Any] = request.param
    return settings


def test_group_shares_partitions_and_rebalances_on_join_and_leave(
    tier: Tier, topic: str, group_id: str, protocol: dict[str, Any]
) -> None:
    """B2, B7, M11 to M13: a join and a leave move partitions, nobody ever owns one twice."""
    first = Reader(tier.bootstrap, topic, group_id, **protocol)
    first.start()
    shared_out([first])
    second = Reader(tier.bootstrap, topic, group_id, **protocol)
    second.start()
    shared_out([first, second])
    second.stop()
    shared_out([first])
    first.stop()


def test_consumer_resumes_where_its_group_committed(
    tier: Tier, topic: str, group_id: str, protocol: dict[str, Any]
) -> None:
    """O9, O17: what was committed on close is where the next member starts."""
    produce(tier.bootstrap, topic, 600)
    first = Reader(tier.bootstrap, topic, group_id, **protocol)
    first.start()
    until(lambda: len(first.seen) == 600, "all records read")
    first.stop()
    produce(tier.bootstrap, topic, 60)
    second = Reader(tier.bootstrap, topic, group_id, **protocol)
    second.start()
    until(lambda: len(second.seen) == 60, "only the new records read")
    second.stop()
    assert not first.seen & second.seen


@pytest.mark.parametrize("group_protocol", ["classic", "consumer"])
def test_static_member_restarts_without_a_rebalance(
    tier: Tier, topic: str, group_id: str, group_protocol: str
) -> None:
    """E3, E8, M20, M21: the instance comes back to its partitions and its neighbour notices nothing."""
    settings = {"group.protocol": group_protocol}
    neighbour = Reader(tier.bootstrap, topic, group_id, **settings, **{"group.instance.id": "a"})
    neighbour.start()
    shared_out([neighbour])
    restarted = Reader(tier.bootstrap, topic, group_id, **settings, **{"group.instance.id": "b"})
    restarted.start()
    shared_out([neighbour, restarted])
    before, kept = set(restarted.owned), set(neighbour.owned)
    restarted.stop()
    again = Reader(tier.bootstrap, topic, group_id, **settings, **{"group.instance.id": "b"})
    again.start()
    until(lambda: again.owned == before, "the same partitions as before the restart")
    assert neighbour.owned == kept
    again.stop()
    neighbour.stop()


def test_admin_sees_groups_members_and_offsets(
    tier: Tier, admin: AdminClient, topic: str, group_id: str, protocol: dict[str, Any]
) -> None:
    """A12, B10, C25, M23, O13: list, describe, read, alter and delete through the admin client."""
    produce(tier.bootstrap, topic, 60)
    reader = Reader(tier.bootstrap, topic, group_id, **protocol)
    reader.start()
    until(lambda: len(reader.seen) == 60, "all records read")
    described = admin.describe_consumer_groups([group_id])[group_id].result(DEADLINE_S)
    assert described.state == ConsumerGroupState.STABLE
    (member,) = described.members
    assert {p.partition for p in member.assignment.topic_partitions} == set(range(6))
    listed = admin.list_consumer_groups().result(DEADLINE_S)
    assert group_id in {group.group_id for group in listed.valid}
    assert listed.errors == []
    reader.stop()
    until(
        lambda: (
            admin.describe_consumer_groups([group_id])[group_id].result(DEADLINE_S).state
            == ConsumerGroupState.EMPTY
        ),
        "the group is empty",
    )
    wanted = [TopicPartition(topic, 0, 3)]
    admin.alter_consumer_group_offsets([GroupPartitions(group_id, wanted)])[group_id].result(DEADLINE_S)
    read = admin.list_consumer_group_offsets([GroupPartitions(group_id)])[group_id].result(DEADLINE_S)
    offsets = {p.partition: p.offset for p in read.topic_partitions}
    assert offsets == {0: 3, **dict.fromkeys(range(1, 6), 10)}
    admin.delete_consumer_groups([group_id])[group_id].result(DEADLINE_S)
    gone = admin.list_consumer_groups().result(DEADLINE_S)
    assert group_id not in {group.group_id for group in gone.valid}


def test_regex_subscription_of_the_consumer_protocol(tier: Tier, topic: str, group_id: str) -> None:
    """A17, M25: a pattern is resolved by the server."""
    produce(tier.bootstrap, topic, 6)
    reader = Reader(tier.bootstrap, f"^{topic}$", group_id, **{"group.protocol": "consumer"})
    reader.start()
    until(lambda: len(reader.seen) == 6, "records of the topic that matches")
    reader.stop()


def test_commit_of_a_fenced_member_is_refused(tier: Tier, topic: str, group_id: str) -> None:
    """E5, C17: of two with one instance id the older is fenced, fatally."""
    fatal: list[str] = []
    settings = {
        "bootstrap.servers": tier.bootstrap,
        "group.id": group_id,
        "group.instance.id": "only-one",
        "error_cb": lambda error: fatal.append(error.name()),
        "heartbeat.interval.ms": 500,
    }
    older = Consumer(settings)
    older.subscribe([topic])
    until(lambda: older.poll(0.05) is None and older.assignment(), "the older one is assigned")
    newer = Consumer({**settings, "error_cb": lambda _: None})
    newer.subscribe([topic])
    until(lambda: newer.poll(0.05) is None and newer.assignment(), "the newer one is assigned")
    until(lambda: older.poll(0.05) or "_FATAL" in fatal or "FENCED_INSTANCE_ID" in fatal, "fenced")
    newer.close()
    older.close()
