"""Features of a real Kafka 4.4 are raised while a tier coordinates its groups: nobody notices, and levels
that the tier does not understand are refused by the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from actors.ground.features import METADATA_VERSION, TRANSACTION_VERSION
from actors.network.wire import Wire
from actors.upstream import registration
from actors.upstream.levels import FEATURES, claims
from actors.upstream.states import State
from bench.ground.reference import KAFKA_VERSION
from bench.ground.throwaway import Tier
from bench.peers.kafka_nodes import KafkaNodes
from tests.kafka import jvm
from tests.polling import reached, until
from tests.tier.consumers import produce
from tests.upstream.conftest import started
from tests.upstream.kafka import wired
from tests.upstream.site import Site
from tests.upstream.test_attach_with_kafka import (
    TOPIC,
    WAIT_S,
    are_read,
    bootstrap_of,
    consumers,
    coordinators,
    described,
    make_topic,
    status,
    tier_before,
)

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

UPGRADE = 1
BEFORE = {METADATA_VERSION: 30, TRANSACTION_VERSION: 1}
AFTER = {METADATA_VERSION: 33, TRANSACTION_VERSION: 2}


@pytest.fixture
def older() -> Iterator[KafkaNodes]:
    """Kafka 4.4 that is still at the levels of 4.3, with the first generation of transactions."""
    if (reason := jvm.missing()) is not None:
        pytest.skip(reason)
    more = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "2"}
    formatting = ("--release-version", "4.3", "--feature", "transaction.version=1")
    yield from started(KAFKA_VERSION, 1, more, formatting)


async def raised(wire: Wire, levels: Mapping[str, int]) -> str | None:
    """Raise features as Kafka's tool does. Return why the cluster refuses it; None if it does not."""
    updates = [
        {"feature": name, "max_version_level": level, "upgrade_type": UPGRADE}
        for name, level in levels.items()
    ]
    answer = await wire.call(
        "update_features", 1, timeout=10_000, feature_updates=updates, validate_only=False
    )
    refused = [row["error_message"] for row in answer["results"] if row["error_code"]]
    return (
        " ".join(map(str, [answer["error_message"], *refused])) if answer["error_code"] or refused else None
    )


def upgrade(port: int, levels: Mapping[str, int]) -> None:
    async def story() -> None:
        async with wired("127.0.0.1", port) as wire:
            assert await raised(wire, levels) is None

    asyncio.run(story())


def levels_of(tier: Tier) -> dict[str, int]:
    """What the tier says of the features that are raised here."""
    return {row["name"]: row["level"] for row in status(tier)["features"] if row["name"] in BEFORE}


class Transacting:
    """A producer that commits offsets of its group in transactions (librdkafka: the first generation)."""

    def __init__(self, bootstrap: str) -> None:
        self.committed = 0
        address = {"bootstrap.servers": bootstrap}
        self._consumer = Consumer(address | {"group.id": "transacted", "isolation.level": "read_committed"})
        self._producer = Producer(address | {"transactional.id": "transacts"})
        self._producer.init_transactions(WAIT_S)

    def begin(self) -> None:
        """Begin a transaction that has the group's next offset in it."""
        self._producer.begin_transaction()
        at = TopicPartition(TOPIC, 0, self.committed + 1)
        metadata = self._consumer.consumer_group_metadata()
        self._producer.send_offsets_to_transaction([at], metadata, WAIT_S)

    def commit(self) -> None:
        self._producer.commit_transaction(WAIT_S)
        self.committed += 1

    def check(self) -> None:
        """Wait until the group's offset is the one that was committed last."""

        def is_there() -> bool:
            try:
                (found,) = self._consumer.committed([TopicPartition(TOPIC, 0)], WAIT_S)
            except KafkaException:  # the coordinator has changed, and librdkafka does not repeat it
                return False
            return bool(found.offset == self.committed)

        until(is_there, f"offset {self.committed} is committed", WAIT_S)

    def close(self) -> None:
        self._consumer.close()


def test_features_are_raised_while_the_tier_is_attached(older: KafkaNodes) -> None:
    """A transaction is open meanwhile, and the request goes to a node of the tier, as to any broker."""
    bootstrap = bootstrap_of(older)
    make_topic(bootstrap)
    produce(bootstrap, TOPIC, 60)
    with consumers(bootstrap) as readers, tier_before(older) as tier:
        transacting = Transacting(bootstrap)
        tier.run("attach")
        assert levels_of(tier) == BEFORE
        offered = {row["name"]: row["offered"] for row in status(tier)["features"]}
        assert min(offered.values()) > 0, "the controller tells of all features that it supports"
        before = described(bootstrap)
        transacting.begin()
        upgrade(tier.port, AFTER)
        until(lambda: levels_of(tier) == AFTER, "the tier knows", WAIT_S)
        transacting.commit()
        transacting.check()
        for _ in range(3):
            transacting.begin()
            transacting.commit()
        transacting.check()
        assert described(bootstrap) == before, "members, generations and assignments are as they were"
        produce(bootstrap, TOPIC, 60)
        until(lambda: are_read(readers, 120), "all records are read", WAIT_S)
        tier.run("detach")
        assert coordinators(bootstrap) == {1}
        transacting.check()
        produce(bootstrap, TOPIC, 60)
        until(lambda: are_read(readers, 180), "all records are read from there", WAIT_S)
        assert [reader.lost for reader in readers] == [0] * len(readers)
        transacting.close()
        for reader in readers:
            reader.stop()


def narrower(name: str, most: int) -> Any:
    """Let nodes understand less of a feature than they do."""
    fewer = tuple(
        each._replace(max_supported_version=most) if each.name == name else each for each in FEATURES
    )
    return patch.object(registration, "FEATURES", fewer)


def test_a_level_that_the_tier_does_not_understand_is_refused_by_the_cluster(
    older: KafkaNodes, tmp_path: Path
) -> None:
    async def story() -> None:
        async with Site(older, tmp_path) as site:
            with narrower(METADATA_VERSION, 31):
                await site.start(1001)
            refusal = await raised(site.broker, AFTER)
            assert refusal is not None
            assert "1001" in refusal, refusal
            assert await raised(site.broker, {METADATA_VERSION: 31}) is None

    asyncio.run(story())


def test_a_node_claims_more_at_a_newer_controller_and_stays_the_broker_it_is(
    older: KafkaNodes, tmp_path: Path
) -> None:
    """It is let know less at first, as if the controllers' software were older."""

    async def story() -> None:
        async with Site(older, tmp_path) as site:
            with patch.object(registration, "claims", lambda supported, before: before):
                (node,) = await site.start(1001)
            was, epoch = _claimed(site), node.broker_epoch
            with patch.object(registration, "claims", lambda *_: claims({"streams.version": 5}, FEATURES)):
                await node._link.close()
                await site.until(lambda _: _claimed(site)["streams.version"] == 5, "it says more")
                await reached(lambda: node.state is State.RUNNING, "it is a broker")
                await site.until(
                    lambda image: bool(image.brokers[1001].cordoned_log_dirs), "it is cordoned again"
                )
            assert was["streams.version"] < 5
            assert node.broker_epoch == epoch
            assert not site.log.image().brokers[1001].fenced

    asyncio.run(story())


def _claimed(site: Site) -> dict[str, int]:
    return {name: most for name, _, most in site.log.image().brokers[1001].features}
