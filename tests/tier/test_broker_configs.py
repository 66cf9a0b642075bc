"""confluent-kafka's AdminClient changes settings of a running node, which that node heeds (W43)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)

from actors.network.wire import Wire
from bench.ground.throwaway import Tier
from cluster.ports import free_ports
from tests.polling import DEADLINE_S, until
from tests.tier.conftest import kill

pytestmark = pytest.mark.clients
MESSAGE = "message.max.bytes"
BROKER_RESOURCE = 4
ANY_PARTITION = -1
RECOVERY_S = 150
"""Deadline for a tier or a broker to serve again: one look may take as long as a node is away."""
OWN = "2"
"""The node that has a value of its own in the story of a tier that is stopped."""


def change(admin: AdminClient, node: str, setting: str, value: str | None) -> None:
    """Set a setting, or take it back. Raises KafkaException."""
    operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    entry = ConfigEntry(setting, value or "", incremental_operation=operation)
    resource = ConfigResource(ResourceType.BROKER, node, incremental_configs=[entry])
    (future,) = admin.incremental_alter_configs([resource]).values()
    future.result(DEADLINE_S)


async def change_for_all(tier: Tier, setting: str, value: str) -> None:
    """Set a setting for all nodes. librdkafka has no way to name them, so the request is made by hand."""
    wire = await Wire.connect("127.0.0.1", tier.port)
    config = {"name": setting, "config_operation": 0, "value": value}
    resource = {"resource_type": BROKER_RESOURCE, "resource_name": "", "configs": [config]}
    answer = await wire.call("incremental_alter_configs", 1, resources=[resource], validate_only=False)
    await wire.close()
    assert [each["error_code"] for each in answer["responses"]] == [0], answer


def described(admin: AdminClient, node: str, setting: str) -> tuple[str, int]:
    resource = ConfigResource(ResourceType.BROKER, node)
    (future,) = admin.describe_configs([resource]).values()
    entry: Any = future.result(DEADLINE_S)[setting]
    return entry.value, entry.source


def produced(bootstrap: str, topic: str, size: int, partition: int = ANY_PARTITION) -> int:
    """Produce one record of a size, and return the error's number; 0 without one."""
    codes: list[int] = []
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 5_000_000, "retries": 0})
    producer.produce(
        topic,
        b"x" * size,
        partition=partition,
        on_delivery=lambda error, _: codes.append(error.code() if error else 0),
    )
    producer.flush(DEADLINE_S)
    return codes[0]


def test_w43_a_node_heeds_a_change_and_takes_it_back(tier: Tier, topic: str) -> None:
    """The topic's partitions lie on all nodes, so each of them is told."""
    admin = AdminClient({"bootstrap.servers": tier.bootstrap})
    nodes = [str(node_id) for node_id in admin.list_topics(timeout=DEADLINE_S).brokers]
    assert produced(tier.bootstrap, topic, 200_000) == 0
    for node in nodes:
        change(admin, node, MESSAGE, "100000")
    try:
        shown = [described(admin, node, MESSAGE) for node in nodes]
        assert shown == [("100000", ConfigSource.DYNAMIC_BROKER_CONFIG.value)] * len(nodes)
        assert produced(tier.bootstrap, topic, 200_000) == KafkaError.MSG_SIZE_TOO_LARGE
    finally:
        for node in nodes:
            change(admin, node, MESSAGE, None)
    assert described(admin, nodes[0], MESSAGE) == ("1048588", ConfigSource.DEFAULT_CONFIG.value)
    assert produced(tier.bootstrap, topic, 200_000) == 0


def heeded(tier: Tier, topic: str) -> dict[str, tuple[Any, ...]]:
    """Return what each node shows of the setting, and what became of a record of 200,000 bytes for it;
    nothing while a node is away."""
    admin = AdminClient({"bootstrap.servers": tier.bootstrap})
    try:
        partitions = admin.list_topics(topic, timeout=DEADLINE_S).topics[topic].partitions.values()
        return {
            str(each.leader): (
                *described(admin, str(each.leader), MESSAGE),
                produced(tier.bootstrap, topic, 200_000, each.id),
            )
            for each in partitions
        }
    except KafkaException:
        return {}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_w43_changes_outlive_the_whole_tier_and_the_death_of_a_broker() -> None:
    """One holds for all nodes and one for node 2 alone, which takes larger records than the others."""
    for_all = ("100000", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value, KafkaError.MSG_SIZE_TOO_LARGE)
    its_own = ("300000", ConfigSource.DYNAMIC_BROKER_CONFIG.value, 0)
    expected = {"1": for_all, OWN: its_own, "3": for_all}
    with Tier(port=free_ports(3)) as tier:
        admin = AdminClient({"bootstrap.servers": tier.bootstrap})
        admin.create_topics([NewTopic("wide", 3, 1)])["wide"].result(DEADLINE_S)
        asyncio.run(change_for_all(tier, MESSAGE, "100000"))
        change(admin, OWN, MESSAGE, "300000")
        until(lambda: heeded(tier, "wide") == expected, "all nodes heed the changes")
        tier.restart()
        until(lambda: heeded(tier, "wide") == expected, "they hold after a restart", RECOVERY_S)
        (pid,) = [broker["pid"] for broker in tier.brokers() if str(broker["node_id"]) == OWN]
        kill(pid)
        until(
            lambda: pid not in [broker["pid"] for broker in tier.brokers()], "the broker is gone", RECOVERY_S
        )
        until(lambda: heeded(tier, "wide") == expected, "they hold on the new broker too", RECOVERY_S)


def test_w43_what_cannot_change_is_refused_in_words(tier: Tier) -> None:
    admin = AdminClient({"bootstrap.servers": tier.bootstrap})
    with pytest.raises(KafkaException) as refused:
        change(admin, "1", "node.id", "7")
    assert refused.value.args[0].code() == KafkaError.INVALID_REQUEST
    assert "node.id" in refused.value.args[0].str()
