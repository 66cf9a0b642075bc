"""confluent-kafka's AdminClient changes settings of a running tier, which every node heeds (W43)."""

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
from tests.polling import DEADLINE_S, until

pytestmark = pytest.mark.clients
MESSAGE = "message.max.bytes"


def change(admin: AdminClient, name: str, setting: str, value: str | None) -> None:
    """Set a setting, or take it back; under "" for all nodes. Raises KafkaException."""
    operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    entry = ConfigEntry(setting, value or "", incremental_operation=operation)
    resource = ConfigResource(ResourceType.BROKER, name, incremental_configs=[entry])
    (future,) = admin.incremental_alter_configs([resource]).values()
    future.result(DEADLINE_S)


def described(admin: AdminClient, node_id: int, setting: str) -> tuple[str, int]:
    resource = ConfigResource(ResourceType.BROKER, str(node_id))
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


def test_w43_all_nodes_heed_a_change_and_take_it_back(tier: Tier, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": tier.bootstrap})
    nodes = sorted(admin.list_topics(timeout=DEADLINE_S).brokers)
    assert produced(tier.bootstrap, topic, 200_000) == 0
    change(admin, "", MESSAGE, "100000")
    try:
        dynamic = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value
        for node_id in nodes:
            until(lambda: described(admin, node_id, MESSAGE) == ("100000", dynamic), f"node {node_id} knows")  # noqa: B023
        assert produced(tier.bootstrap, topic, 200_000) == KafkaError.MSG_SIZE_TOO_LARGE
    finally:
        change(admin, "", MESSAGE, None)
    until(lambda: produced(tier.bootstrap, topic, 200_000) == 0, "the node takes it as before")


def test_w43_what_cannot_change_is_refused_in_words(tier: Tier) -> None:
    admin = AdminClient({"bootstrap.servers": tier.bootstrap})
    with pytest.raises(KafkaException) as refused:
        change(admin, "", "node.id", "7")
    assert refused.value.args[0].code() == KafkaError.INVALID_REQUEST
    assert "node.id" in refused.value.args[0].str()
