"""kafka-topics, kafka-configs, kafka-get-offsets and the console clients: what a developer types first."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from tests.kafka.tools import CONFIGS, CONSUMER, OFFSETS, PRODUCER, TOPICS, VERSIONS, Tools
from tests.polling import until
from tests.tier.consumers import produce

pytestmark = [pytest.mark.kafka, pytest.mark.clients, pytest.mark.timeout(400)]


def test_topic_is_created_described_grown_and_deleted(tools: Tools, group_id: str) -> None:
    topic = f"of-{group_id}"
    created = tools.run(
        TOPICS, "--create", "--topic", topic, "--partitions", "3", "--config", "retention.ms=60000"
    )
    assert f"Created topic {topic}." in created
    again = tools.attempt(TOPICS, "--create", "--topic", topic)
    assert again.exit_code == 1
    assert "TopicExistsException" in again.said
    assert topic in tools.run(TOPICS, "--list").split()

    described = tools.run(TOPICS, "--describe", "--topic", topic)
    assert "PartitionCount: 3" in described
    assert "retention.ms=60000" in described
    assert described.count("Leader: ") == 3
    tools.run(TOPICS, "--alter", "--topic", topic, "--partitions", "5")
    assert "PartitionCount: 5" in tools.run(TOPICS, "--describe", "--topic", topic)

    tools.run(TOPICS, "--delete", "--topic", topic)
    assert topic not in tools.run(TOPICS, "--list").split()


def test_topic_config_is_set_shown_and_taken_back(tools: Tools, topic: str) -> None:
    entity = ("--entity-type", "topics", "--entity-name", topic)
    tools.run(CONFIGS, *entity, "--alter", "--add-config", "retention.ms=7200000,max.message.bytes=2000000")
    shown = tools.run(CONFIGS, *entity, "--describe")
    assert "retention.ms=7200000" in shown
    assert "max.message.bytes=2000000" in shown
    everything = tools.run(CONFIGS, *entity, "--describe", "--all")
    assert "cleanup.policy=delete" in everything
    assert "DYNAMIC_TOPIC_CONFIG:retention.ms=7200000" in everything
    tools.run(CONFIGS, *entity, "--alter", "--delete-config", "retention.ms")
    shown = tools.run(CONFIGS, *entity, "--describe")
    assert "retention.ms" not in shown
    assert "max.message.bytes=2000000" in shown
    refused = tools.attempt(CONFIGS, *entity, "--alter", "--add-config", "retention.ms=soon")
    assert refused.exit_code == 1
    assert "InvalidConfigurationException" in refused.said


def test_console_consumer_reads_what_the_console_producer_sent(
    tools: Tools, topic: str, group_id: str
) -> None:
    """W15: the console consumer commits when it ends; the group's offsets are what it read."""
    tools.run(PRODUCER, "--topic", topic, lines_in="first\nsecond\nthird\n")
    bounds = ("--from-beginning", "--max-messages", "3", "--timeout-ms", "30000")
    read = tools.run(CONSUMER, "--topic", topic, "--group", group_id, *bounds)
    assert sorted(read.split()) == ["first", "second", "third"]


def test_log_end_offsets_are_listed(tools: Tools, topic: str, bootstrap: str) -> None:
    """ListOffsets for latest and earliest, of every partition, from whichever node leads it."""
    produce(bootstrap, topic, 60)
    assert set(tools.run(OFFSETS, "--topic", topic).split()) == {f"{topic}:{n}:10" for n in range(6)}
    earliest = tools.run(OFFSETS, "--topic", topic, "--time", "earliest")
    assert set(earliest.split()) == {f"{topic}:{n}:0" for n in range(6)}


def test_nodes_are_listed_with_their_versions(tools: Tools, admin: AdminClient) -> None:
    """W16: every node tells the APIs a KIP-848 client needs."""
    nodes = until(lambda: admin.list_topics(timeout=10).brokers, "the nodes are known")
    said = tools.run(VERSIONS)
    assert said.count("(id: ") == len(nodes)
    assert said.count("ConsumerGroupHeartbeat(68): 0 to 1") == len(nodes)
