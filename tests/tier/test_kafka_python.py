"""kafka-python 3 against the real tier: the classic protocol, the admin calls, the idempotent producer.

It sends ApiVersions 4 and the newest versions it knows, so flexible headers and SubscriptionV3 are proved
here by a second implementation (W15, W16).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import kafka
import pytest
from kafka.admin import ConfigResource, ConfigResourceType, MemberToRemove
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import NoError
from kafka.structs import OffsetAndMetadata

from bench.ground.throwaway import Tier
from tests.polling import DEADLINE_S, until
from tests.tier.consumers import produce
from tests.tier.python_readers import KafkaPythonReader, are_shared_out

pytestmark = pytest.mark.clients

PARTITIONS = 6
ASSIGNORS = pytest.mark.parametrize(
    "assignor", [RangePartitionAssignor, CooperativeStickyAssignor], ids=["range", "cooperative-sticky"]
)


@pytest.fixture(scope="module")
def python_admin(tier: Tier) -> Iterator[kafka.KafkaAdminClient]:
    client = kafka.KafkaAdminClient(bootstrap_servers=tier.bootstrap)
    yield client
    client.close()


def shared_out(*readers: KafkaPythonReader) -> None:
    until(lambda: are_shared_out(readers, PARTITIONS), "each partition has one owner, evenly")


def state_of(admin: kafka.KafkaAdminClient, group_id: str) -> str:
    return str(admin.describe_groups([group_id])[group_id]["group_state"])


@ASSIGNORS
def test_group_shares_partitions_and_resumes_where_it_committed(
    tier: Tier, topic: str, group_id: str, assignor: type
) -> None:
    """C1, C8, C15, C23, O9, B7: a join and a leave move partitions; the next member reads on."""
    settings = {"partition_assignment_strategy": [assignor]}
    produce(tier.bootstrap, topic, 60)
    first = KafkaPythonReader(tier.bootstrap, topic, group_id, **settings)
    until(lambda: len(first.seen) == 60, "all records are read")
    shared_out(first)
    second = KafkaPythonReader(tier.bootstrap, topic, group_id, **settings)
    shared_out(first, second)
    second.stop()
    shared_out(first)
    assert (first.lost, second.lost) == (0, 0)
    first.stop()

    produce(tier.bootstrap, topic, 12)
    third = KafkaPythonReader(tier.bootstrap, topic, group_id, **settings)
    until(lambda: len(third.seen) >= 12, "the new records are read")
    third.stop()
    assert not first.seen & third.seen


def test_static_member_restarts_without_a_rebalance(
    tier: Tier, topic: str, group_id: str, python_admin: kafka.KafkaAdminClient
) -> None:
    """C21, E3, E8: the instance is back with its partitions and its neighbour was not asked to join."""
    neighbour = KafkaPythonReader(tier.bootstrap, topic, group_id, group_instance_id="a")
    shared_out(neighbour)
    restarted = KafkaPythonReader(tier.bootstrap, topic, group_id, group_instance_id="b")
    shared_out(neighbour, restarted)
    joined = neighbour.assignments
    restarted.stop()
    assert state_of(python_admin, group_id) == "Stable"
    again = KafkaPythonReader(tier.bootstrap, topic, group_id, group_instance_id="b")
    shared_out(neighbour, again)
    assert neighbour.assignments == joined
    again.stop()
    removed = python_admin.remove_group_members(group_id, [MemberToRemove(group_instance_id="b")])
    assert set(removed.values()) == {NoError}
    shared_out(neighbour)
    neighbour.stop()


def test_admin_sees_a_group_its_members_and_its_offsets(
    tier: Tier, topic: str, group_id: str, python_admin: kafka.KafkaAdminClient
) -> None:
    """C25, W9, O9, O12, O13: list, describe, read, alter and delete."""
    produce(tier.bootstrap, topic, 60)
    reader = KafkaPythonReader(tier.bootstrap, topic, group_id, client_id="the-reader")
    until(lambda: len(reader.seen) == 60, "all records are read")
    described = python_admin.describe_groups([group_id])[group_id]
    (member,) = described["members"]
    assert (described["group_state"], described["protocol_type"]) == ("Stable", "consumer")
    assert (member["client_id"], member["client_host"]) == ("the-reader", "/127.0.0.1")
    listed = python_admin.list_groups(states_filter=["Stable"], types_filter=["classic"])
    assert group_id in {group["group_id"] for group in listed}
    reader.stop()
    until(lambda: state_of(python_admin, group_id) == "Empty", "the group is empty")

    first, second = kafka.TopicPartition(topic, 0), kafka.TopicPartition(topic, 1)
    wanted = {first: OffsetAndMetadata(3, "by hand", None)}
    assert python_admin.alter_group_offsets(group_id, wanted) == {first: NoError}
    assert python_admin.delete_group_offsets(group_id, [second]) == {second: NoError}
    offsets = python_admin.list_group_offsets(group_id)[group_id]
    assert {tp.partition: at.offset for tp, at in offsets.items()} == {0: 3, 2: 10, 3: 10, 4: 10, 5: 10}
    assert offsets[first].metadata == "by hand"
    assert python_admin.delete_groups([group_id]) == {group_id: "OK"}
    assert group_id not in {group["group_id"] for group in python_admin.list_groups()}


def test_admin_makes_describes_grows_and_deletes_topics(
    tier: Tier, group_id: str, python_admin: kafka.KafkaAdminClient
) -> None:
    """W16, A19: topic administration, records deleted up to an offset, and offsets by question."""
    name = f"made-by-{group_id}"
    first = kafka.TopicPartition(name, 0)
    configs = {"retention.ms": "3600000"}
    python_admin.create_topics(
        {name: {"num_partitions": 2, "replication_factor": 1, "configs": configs}}, wait_for_metadata=True
    )
    resource = ConfigResource(ConfigResourceType.TOPIC, name)
    until(lambda: _retention_ms(python_admin, resource) == "3600000", "what was asked for is described")
    change = ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": "7200000"})
    python_admin.alter_configs([change])
    until(lambda: _retention_ms(python_admin, resource) == "7200000", "the change is described")

    python_admin.create_partitions({name: 3})
    until(lambda: _partitions(python_admin, name) == {0, 1, 2}, "three partitions are listed")
    produce(tier.bootstrap, name, 30, partitions=3)
    deleted = python_admin.delete_records({first: 4})
    assert deleted[first]["low_watermark"] == 4
    assert [_offset(python_admin, first, question) for question in (-2, -1)] == [4, 10]
    python_admin.delete_topics([name])
    until(lambda: name not in python_admin.list_topics(), "the topic is gone")


def _retention_ms(admin: kafka.KafkaAdminClient, topic: ConfigResource) -> str | None:
    """The retention that one broker has heard of, None if of no such topic: brokers follow the controller."""
    described = admin.describe_configs([topic])["topic"][topic.name]
    return described["retention.ms"]["value"] if "retention.ms" in described else None


def test_admin_sees_the_cluster(tier: Tier, python_admin: kafka.KafkaAdminClient) -> None:
    cluster = python_admin.describe_cluster()
    assert tier.port in {broker["port"] for broker in cluster["brokers"]}
    assert cluster["controller_id"] in {broker["broker_id"] for broker in cluster["brokers"]}


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_idempotent_producer_keeps_order_on_a_topic_made_on_first_use(
    tier: Tier, group_id: str, compression: str | None
) -> None:
    """InitProducerId and sequence numbers; Metadata creates the topic (auto.create.topics.enable)."""
    name = f"first-used-by-{group_id}"
    producer = kafka.KafkaProducer(
        bootstrap_servers=tier.bootstrap, enable_idempotence=True, compression_type=compression, linger_ms=5
    )
    sent = [producer.send(name, b"%d" % number, partition=0) for number in range(200)]
    producer.flush(DEADLINE_S)
    producer.close()
    assert [future.get(DEADLINE_S).offset for future in sent] == list(range(200))

    consumer = kafka.KafkaConsumer(
        name, bootstrap_servers=tier.bootstrap, auto_offset_reset="earliest", fetch_max_wait_ms=200
    )
    values: list[bytes] = []

    def all_read() -> bool:
        for records in consumer.poll(200).values():
            values.extend(record.value for record in records if record.partition == 0)
        return len(values) >= 200

    until(all_read, "all records are read")
    consumer.close()
    assert values == [b"%d" % number for number in range(200)]


def _partitions(admin: kafka.KafkaAdminClient, topic: str) -> set[int]:
    (described,) = admin.describe_topics([topic])
    return {partition["partition_index"] for partition in described["partitions"]}


def _offset(admin: kafka.KafkaAdminClient, partition: kafka.TopicPartition, question: int) -> int:
    found: dict[Any, Any] = admin.list_partition_offsets({partition: question})
    return int(found[partition].offset)
