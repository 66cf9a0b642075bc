"""confluent-kafka's AdminClient changes settings of a running node, which that node heeds (W43)."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

from bench.ground.throwaway import Tier
from tests.polling import DEADLINE_S

pytestmark = pytest.mark.clients
MESSAGE = "message.max.bytes"


def change(admin: AdminClient, node: str, setting: str, value: str | None) -> None:
    """Set a setting, or take it back. Raises KafkaException."""
    operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    entry = ConfigEntry(setting, value or "", incremental_operation=operation)
    resource = ConfigResource(ResourceType.BROKER, node, incremental_configs=[entry])
    (future,) = admin.incremental_alter_configs([resource]).values()
    future.result(DEADLINE_S)


def described(admin: AdminClient, node: str, setting: str) -> tuple[str, int]:
    resource = ConfigResource(ResourceType.BROKER, node)
    (future,) = admin.describe_configs([resource]).values()
    entry: Any = future.result(DEADLINE_S)[setting]
    return entry.value, entry.source


def produced(bootstrap: str, topic: str, size: int) -> int:
    """Produce one record of a size, and return the error's number; 0 without one."""
    codes: list[int] = []
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 5_000_000, "retries": 0})
    producer.produce(
        topic, b"x" * size, on_delivery=lambda error, _: codes.append(error.code() if error else 0)
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


def test_w43_what_cannot_change_is_refused_in_words(tier: Tier) -> None:
    admin = AdminClient({"bootstrap.servers": tier.bootstrap})
    with pytest.raises(KafkaException) as refused:
        change(admin, "1", "node.id", "7")
    assert refused.value.args[0].code() == KafkaError.INVALID_REQUEST
    assert "node.id" in refused.value.args[0].str()
