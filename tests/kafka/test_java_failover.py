"""Java consumers whose group's leader is killed: they go on, no commit is lost (C26, M26, A21)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from actors.protocol.java_hash import partition_for
from bench.ground.throwaway import Tier
from tests.kafka.conftest import Start
from tests.kafka.members import JavaMember, partitions_of, shared_out
from tests.polling import DEADLINE_S
from tests.tier.conftest import kill
from tests.tier.test_failover import leader_of

pytestmark = [pytest.mark.kafka, pytest.mark.clients, pytest.mark.timeout(400)]

PARTITIONS = 4
PROGRESS = 40
"""How many commits show that a member has gone on."""


@pytest.fixture
def stream(bootstrap: str, topic: str) -> Iterator[None]:
    """Records arrive at every partition, steadily, as long as the test runs."""
    halt = threading.Event()
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})

    def feed() -> None:
        number = 0
        while not halt.wait(0.01):
            producer.produce(topic, b"%d" % number, partition=number % 6)
            producer.poll(0)
            number += 1

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    yield
    halt.set()
    feeder.join(DEADLINE_S)
    assert producer.flush(DEADLINE_S) == 0


def commits(member: JavaMember) -> int:
    return len(member.told("committed"))


def rebalances(member: JavaMember) -> int:
    return sum(len(member.told(event)) for event in ("assigned", "revoked", "lost"))


@pytest.mark.usefixtures("stream")
@pytest.mark.parametrize("group_protocol", ["classic", "consumer"])
def test_two_killed_leaders_cost_a_java_group_nothing(
    tier: Tier, start: Start, topic: str, group_id: str, group_protocol: str
) -> None:
    """Two members consume and commit through two kills: no rebalance, no record twice, no commit lost."""
    settings: dict[str, Any] = {"group_protocol": group_protocol, "commit_each_poll": "true"}
    members = [start(topic, group_id, **settings) for _ in range(2)]
    shared_out(members, partitions_of(topic))
    quiet = [rebalances(member) for member in members]
    for _ in range(2):
        leader = leader_of(tier, partition_for(group_id, PARTITIONS))
        before = [commits(member) for member in members]
        kill(leader["pid"])
        for member, done in zip(members, before, strict=True):
            member.until(lambda m=member, n=done: commits(m) > n + PROGRESS, "it commits again")
    assert [rebalances(member) for member in members] == quiet
    for member in members:
        member.close()
        assert len(set(member.seen)) == len(member.seen), "a record was read twice"
    check_nothing_lost(start, topic, group_id, group_protocol, members)


def check_nothing_lost(
    start: Start, topic: str, group_id: str, group_protocol: str, members: list[JavaMember]
) -> None:
    """The next member finds what was acknowledged last, neither less nor more."""
    acknowledged: dict[str, int] = {}
    for member in members:
        for partition, offset in member.acknowledged.items():
            acknowledged[partition] = max(offset, acknowledged.get(partition, 0))
    after = start(topic, group_id, group_protocol=group_protocol)
    shared_out([after], partitions_of(topic))
    assert after.ask("committed", "stored")["offsets"] == acknowledged
