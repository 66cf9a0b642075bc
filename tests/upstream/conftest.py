"""Real Kafka clusters of both releases that the tier stands in front of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import pytest

from bench.ground.reference import KAFKA_VERSION
from bench.peers.kafka_nodes import KafkaNodes
from tests.kafka import jvm

VERSIONS = (KAFKA_VERSION, "4.3.1")
"""Kafka 4.3 takes assignments by hand to cordoned brokers, later ones refuse them."""
SESSION_MS = 3_000
SETTINGS = {
    "broker.session.timeout.ms": str(SESSION_MS),
    "broker.heartbeat.interval.ms": "500",
    "offsets.topic.num.partitions": "4",
    "auto.leader.rebalance.enable": "true",
    "leader.imbalance.check.interval.seconds": "1",
    "num.partitions": "3",
}


@pytest.fixture(scope="session", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    """A release of Kafka."""
    reason = jvm.missing()
    if reason is not None:
        pytest.skip(reason)
    return str(request.param)


def started(
    version: str,
    brokers: int,
    more: Mapping[str, str] = MappingProxyType({}),
    formatting: Sequence[str] = (),
) -> Iterator[KafkaNodes]:
    """Nodes that are brokers and controllers, stopped afterwards."""
    nodes = KafkaNodes(brokers, {**SETTINGS, **more}, jvm.build(kafka_version=version), heap="512m")
    nodes.formatting = tuple(formatting)
    try:
        nodes.prepare()
        nodes.start()
        yield nodes
    finally:
        nodes.stop()


@pytest.fixture(scope="module")
def kafka(version: str) -> Iterator[KafkaNodes]:
    """A cluster of one node."""
    yield from started(version, 1)


@pytest.fixture(scope="module")
def three(version: str) -> Iterator[KafkaNodes]:
    """A cluster of three nodes."""
    yield from started(version, 3)
