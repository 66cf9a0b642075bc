"""Real consumers in threads, with what they saw on record."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.polling import DEADLINE_S, until


def produce(bootstrap: str, topic: str, count: int, partitions: int = 6) -> None:
    """`count` records, spread evenly; returns when all are acknowledged."""
    produce_values(bootstrap, topic, [b"%d" % number for number in range(count)], partitions)


def produce_values(bootstrap: str, topic: str, values: Sequence[bytes], partitions: int = 6) -> None:
    """Records with these values, spread evenly; returns when all are acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap})
    failed: list[KafkaError] = []
    for number, value in enumerate(values):
        producer.produce(
            topic,
            value,
            partition=number % partitions,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(DEADLINE_S) == 0
    assert failed == []


class Reader(threading.Thread):
    """A confluent-kafka consumer polled in a thread until `stop()`; start it with `start()`."""

    def __init__(self, bootstrap: str, topic: str, group_id: str, **settings: Any) -> None:
        super().__init__(daemon=True)
        self.topic = topic
        self.seen: set[tuple[int, int]] = set()
        self.owned: set[int] = set()
        self.lost = 0
        self.failure: BaseException | None = None
        self.commit_requests: list[threading.Event] = []
        self._halt = threading.Event()
        self._settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }

    def run(self) -> None:
        try:
            self._poll()
        except BaseException as error:
            self.failure = error
            raise

    def stop(self) -> None:
        """Close the consumer (it leaves its group) and wait."""
        self._halt.set()
        self.join(DEADLINE_S)
        assert not self.is_alive()
        assert self.failure is None

    def _poll(self) -> None:
        consumer = Consumer(self._settings)
        consumer.subscribe(
            [self.topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._on_lost
        )
        while not self._halt.is_set():
            message = consumer.poll(0.05)
            if message is not None and message.error() is None:
                self.seen.add((message.partition(), message.offset()))
        if self.seen and not self._settings["enable.auto.commit"]:
            consumer.commit(asynchronous=False)
        consumer.close()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.owned |= {p.partition for p in partitions}

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.owned -= {p.partition for p in partitions}

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.lost += 1
        self._revoked(consumer, partitions)


def shared_out(readers: list[Reader], partitions: int = 6, deadline_s: float = DEADLINE_S) -> None:
    """Wait until every partition has exactly one owner and every reader has its fair share."""

    def settled() -> bool:
        owned = [p for reader in readers for p in sorted(reader.owned)]
        sizes = [len(reader.owned) for reader in readers]
        return sorted(owned) == list(range(partitions)) and max(sizes) - min(sizes) <= 1

    until(settled, "each partition has one owner, evenly", deadline_s)
