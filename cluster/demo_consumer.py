"""One real consumer of the demo, in a thread: it reads, commits, and remembers what it was promised."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaException

COMMIT_EVERY = 250
POLL_S = 0.2
PAUSE_EVERY = 50
PAUSE_S = 0.004
"""How long, in seconds, the consumer pauses after each record: reading is slowed a little, so that the kill
falls into the middle of it."""


class Reading(NamedTuple):
    """What a consumer of the demo reads, and as a member of which group."""

    topic: str
    group_id: str
    protocol: str
    """The group's protocol as `group.protocol` has it: "classic" or "consumer"."""


class DemoConsumer(threading.Thread):
    """A consumer of the demo. `seen` holds (partition, offset); `acknowledged` the highest acknowledged
    commit of each partition."""

    def __init__(self, bootstrap: str, reading: Reading, number: int, stop: threading.Event) -> None:
        super().__init__(name=f"{reading.group_id}-{number}", daemon=True)
        self.seen: set[tuple[int, int]] = set()
        self.received = 0
        self.acknowledged: dict[int, int] = {}
        self.commits = 0
        self.refused_commits = 0
        self.failure: str | None = None
        self._halt = stop
        self._topic = reading.topic
        self._settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": reading.group_id,
            "group.protocol": reading.protocol,
            "client.id": f"demo-{number}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
        if reading.protocol == "classic":
            self._settings["partition.assignment.strategy"] = "cooperative-sticky"

    def run(self) -> None:
        try:
            consumer = Consumer(self._settings)
            consumer.subscribe([self._topic])
            try:
                self._read(consumer)
            finally:
                consumer.close()
        except Exception as error:
            self.failure = f"{self.name}: {error}"

    def _read(self, consumer: Consumer) -> None:
        uncommitted = 0
        while not self._halt.is_set():
            message = consumer.poll(POLL_S)
            if message is None or message.error() is not None:
                if uncommitted:
                    uncommitted = self._commit(consumer, uncommitted)
                continue
            self.received += 1
            self.seen.add((message.partition(), message.offset()))
            uncommitted += 1
            if uncommitted >= COMMIT_EVERY:
                uncommitted = self._commit(consumer, uncommitted)
            if self.received % PAUSE_EVERY == 0:
                self._halt.wait(PAUSE_S)
        if uncommitted:
            self._commit(consumer, uncommitted)

    def _commit(self, consumer: Consumer, uncommitted: int) -> int:
        """Commit what was read. Return how many records are still uncommitted."""
        try:
            committed = consumer.commit(asynchronous=False)
        except KafkaException:
            # In a rebalance or without a coordinator nothing is promised, so there is nothing to hold anybody
            # to.
            self.refused_commits += 1
            return uncommitted
        for each in committed or ():
            if each.error is None and each.offset >= 0:
                self.commits += 1
                self.acknowledged[each.partition] = max(
                    each.offset, self.acknowledged.get(each.partition, -1)
                )
        return 0
