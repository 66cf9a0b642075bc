"""Makes topics on a peer once, and waits for them."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from bench.peers.options import Failed
from bench.peers.peer import POLL_S, Peer

CREATE_TOPICS: Final = 19
TIMEOUT_S: Final = 120.0
TOPICS_AT_ONCE: Final = 10
"""How many topics one request makes: Kafka's controller takes 10,000 records in one request."""


def create(peer: Peer, partitions: Mapping[str, int]) -> Mapping[str, int]:
    """Create topics by name, each with so many partitions and one replica. Returns the names. Raises Refused,
    Failed."""
    peer.version(CREATE_TOPICS, 7)
    admin = _admin(peer)
    names = list(partitions)
    try:
        for first in range(0, len(names), TOPICS_AT_ONCE):
            some = [NewTopic(name, partitions[name], 1) for name in names[first : first + TOPICS_AT_ONCE]]
            for made in admin.create_topics(some, operation_timeout=TIMEOUT_S).values():
                made.result(TIMEOUT_S)
        _wait_for(admin, partitions)
    except KafkaException as error:
        raise Failed(f"topics: {error.args[0].str()}") from None
    return partitions


def grow(peer: Peer, topic: str, partitions: int) -> None:
    """Give a topic more partitions. Returns when the request is answered."""
    admin = _admin(peer)
    try:
        admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(TIMEOUT_S)
    except KafkaException as error:
        raise Failed(f"{topic}: {error.args[0].str()}") from None


def _admin(peer: Peer) -> AdminClient:
    quiet = logging.getLogger("groupd.bench.librdkafka")
    quiet.addHandler(logging.NullHandler())
    quiet.propagate = False
    host, port = peer.bootstrap[0]
    return AdminClient({"bootstrap.servers": f"{host}:{port}"}, logger=quiet)


def _wait_for(admin: AdminClient, partitions: Mapping[str, int]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        topics = admin.list_topics(timeout=30).topics
        if all(
            name in topics and len(topics[name].partitions) == count and _has_leaders(topics[name].partitions)
            for name, count in partitions.items()
        ):
            return
        time.sleep(POLL_S)
    raise Failed(f"{len(partitions)} topics are not there after {TIMEOUT_S:.0f} s")


def _has_leaders(partitions: Mapping[int, object]) -> bool:
    return all(getattr(partition, "leader", -1) >= 0 for partition in partitions.values())
