"""librdkafka members move from the classic protocol to the consumer protocol and back, one restart at a time,
while records keep coming: none is missed, and no partition ever has two owners (G1 to G7, M12, O6)."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from actors.protocol.java_hash import partition_for
from bench.ground.throwaway import Tier
from tests.polling import DEADLINE_S, until
from tests.tier.conftest import kill
from tests.tier.consumers import Reader, shared_out
from tests.tier.test_failover import leader_of

pytestmark = pytest.mark.clients

PARTITIONS = 6
MEMBERS = 3
CLASSIC: dict[str, Any] = {"group.protocol": "classic", "heartbeat.interval.ms": 300}
COOPERATIVE = {**CLASSIC, "partition.assignment.strategy": "cooperative-sticky"}
CONSUMER = {"group.protocol": "consumer"}
SESSION_ENDED_S = 60.0
"""The leave of a member may go to the leader that was just killed; then its session of 45 s has to end."""
COMMITS = {"enable.auto.commit": True, "auto.commit.interval.ms": 200}


class Owners:
    """The owners of partitions, as the clients themselves see them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner_of: dict[int, Reader] = {}
        self.doubles: list[str] = []

    def took(self, reader: Reader, numbers: set[int]) -> None:
        with self._lock:
            for number in numbers:
                other = self._owner_of.get(number)
                if other is not None and other is not reader:
                    self.doubles.append(f"{number}: {other.name} had not let go of it for {reader.name}")
                self._owner_of[number] = reader

    def let_go(self, reader: Reader, numbers: set[int]) -> None:
        with self._lock:
            for number in numbers:
                if self._owner_of.get(number) is reader:
                    del self._owner_of[number]


class OwningReader(Reader):
    """A reader that commits as it goes, and says what it owns."""

    def __init__(self, owners: Owners, bootstrap: str, topic: str, group_id: str, **settings: Any) -> None:
        super().__init__(bootstrap, topic, group_id, **COMMITS, **settings)
        self._owners = owners

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._owners.took(self, {p.partition for p in partitions})
        super()._assigned(consumer, partitions)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        super()._revoked(consumer, partitions)
        self._owners.let_go(self, {p.partition for p in partitions})


class Feed(threading.Thread):
    """Records without end, until `stop()`, which gives what was acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        self._topic = topic
        self._halt = threading.Event()
        self.written: set[tuple[int, int]] = set()

    def run(self) -> None:
        number = 0
        while not self._halt.wait(0.005):
            for _ in range(PARTITIONS):
                self._producer.produce(
                    self._topic, b"%d" % number, partition=number % PARTITIONS, on_delivery=self._noted
                )
                number += 1
            self._producer.poll(0)

    def _noted(self, error: Any, message: Any) -> None:
        if error is None:
            self.written.add((message.partition(), message.offset()))

    def stop(self) -> set[tuple[int, int]]:
        self._halt.set()
        self.join(DEADLINE_S)
        assert self._producer.flush(DEADLINE_S) == 0
        return self.written


class Fleet:
    """The group's processes; `roll` restarts them one by one with other settings."""

    def __init__(self, tier: Tier, topic: str, group_id: str) -> None:
        self._place = (tier.bootstrap, topic, group_id)
        self.owners = Owners()
        self.running: list[OwningReader] = []
        self.all: list[OwningReader] = []

    def start(self, **settings: Any) -> None:
        reader = OwningReader(self.owners, *self._place, **settings)
        self.running.append(reader)
        self.all.append(reader)
        reader.start()

    def roll(self, **settings: Any) -> None:
        for _ in range(MEMBERS):
            self.running.pop(0).stop()
            self.start(**settings)
            shared_out(list(self.running), PARTITIONS)

    @property
    def seen(self) -> set[tuple[int, int]]:
        return set().union(*(reader.seen for reader in self.all))


def kind_of(admin: AdminClient, group_id: str) -> str:
    group = admin.describe_consumer_groups([group_id])[group_id].result(DEADLINE_S)
    return str(group.type.name)


@pytest.mark.parametrize("classic", [CLASSIC, COOPERATIVE], ids=["range", "cooperative-sticky"])
def test_group_moves_to_the_consumer_protocol_and_back_under_load(
    tier: Tier, admin: AdminClient, topic: str, group_id: str, classic: dict[str, Any]
) -> None:
    """G2 to G7: by rolling restarts, while records are written and read."""
    fleet, feed = Fleet(tier, topic, group_id), Feed(tier.bootstrap, topic)
    feed.start()
    for _ in range(MEMBERS):
        fleet.start(**classic)
    shared_out(list(fleet.running), PARTITIONS)
    fleet.roll(**CONSUMER)
    assert kind_of(admin, group_id) == "CONSUMER"
    fleet.roll(**classic)
    assert kind_of(admin, group_id) == "CLASSIC"
    written = feed.stop()
    until(lambda: written <= fleet.seen, "every record is read")
    for reader in fleet.running:
        reader.stop()
    assert fleet.owners.doubles == []


@pytest.mark.timeout(240)
def test_coordinator_fails_over_in_the_middle_of_a_migration(tier: Tier, topic: str, group_id: str) -> None:
    """M26, C26, G3: members of both protocols stay in the group, which goes on from where it was."""
    fleet, feed = Fleet(tier, topic, group_id), Feed(tier.bootstrap, topic)
    feed.start()
    for _ in range(MEMBERS - 1):
        fleet.start(**CLASSIC)
    fleet.start(**CONSUMER)
    shared_out(list(fleet.running), PARTITIONS)
    for moves in (CONSUMER, CLASSIC):
        leader = leader_of(tier, partition_for(group_id, 4))
        kill(leader["pid"])
        fleet.running.pop(0).stop()
        fleet.start(**moves)
        shared_out(list(fleet.running), PARTITIONS, SESSION_ENDED_S)
    written = feed.stop()
    until(lambda: written <= fleet.seen, "every record is read")
    for reader in fleet.running:
        reader.stop()
    assert fleet.owners.doubles == []
