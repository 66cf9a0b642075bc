"""Consumers of kafka-python (in threads) and aiokafka (in tasks), with what they saw on record."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from typing import Any, Protocol

import aiokafka
import kafka

from tests.polling import DEADLINE_S, until

POLL_MS = 50
SETTINGS: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "heartbeat_interval_ms": 300,  # the members learn of a rebalance by heartbeat
    "session_timeout_ms": 10_000,
    "fetch_max_wait_ms": 200,
    "metadata_max_age_ms": 1_000,
}
"""The settings that the readers of both clients have."""


class Runs(Protocol):
    """A consumer that is one task."""

    async def run(self) -> None: ...


@asynccontextmanager
async def living(consumers: Iterable[Runs]) -> AsyncIterator[None]:
    """Let consumers run for as long as the context lasts."""
    running = [asyncio.create_task(each.run()) for each in consumers]
    try:
        yield
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


class Owner(Protocol):
    """The part of a reader that `shared_out` needs."""

    owned: frozenset[int]


def are_shared_out(readers: Collection[Owner], partitions: int) -> bool:
    """Whether every partition has exactly one owner and every reader has its fair share."""
    owned = sorted(p for reader in readers for p in reader.owned)
    sizes = [len(reader.owned) for reader in readers]
    return owned == list(range(partitions)) and max(sizes) - min(sizes) <= 1


class _Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
    """Keeps the record of what is owned. Nothing may block here: it runs in the client's network thread."""

    def __init__(self, reader: KafkaPythonReader) -> None:
        self._reader = reader

    def on_partitions_revoked(self, revoked: Collection[kafka.TopicPartition]) -> None:
        self._reader.owned -= {p.partition for p in revoked}

    def on_partitions_assigned(self, assigned: Collection[kafka.TopicPartition]) -> None:
        self._reader.owned |= {p.partition for p in assigned}
        self._reader.assignments += 1

    def on_partitions_lost(self, lost: Collection[kafka.TopicPartition]) -> None:
        self._reader.lost += 1
        self._reader.owned -= {p.partition for p in lost}


class KafkaPythonReader(threading.Thread):
    """A KafkaConsumer polled in a thread of its own until `stop()`."""

    def __init__(self, bootstrap: str, topic: str, group_id: str, **settings: Any) -> None:
        super().__init__(daemon=True)
        self.seen: set[tuple[int, int]] = set()
        self.owned: frozenset[int] = frozenset()
        self.assignments = 0
        self.lost = 0
        self.failure: BaseException | None = None
        self._topic = topic
        self._halt = threading.Event()
        self._settings = {"bootstrap_servers": bootstrap, "group_id": group_id, **SETTINGS, **settings}
        # It then commits, before a rebalance too, what `poll` has returned.
        self._settings["enable_auto_commit"] = True
        self.start()

    def run(self) -> None:
        try:
            self._poll()
        except BaseException as error:
            self.failure = error
            raise

    def stop(self) -> None:
        """Close, which commits and lets a dynamic member leave its group, and wait."""
        self._halt.set()
        self.join(DEADLINE_S)
        assert not self.is_alive()
        assert self.failure is None

    def _poll(self) -> None:
        consumer = kafka.KafkaConsumer(**self._settings)
        try:
            consumer.subscribe([self._topic], listener=_Listener(self))
            while not self._halt.is_set():
                for records in consumer.poll(POLL_MS).values():
                    self.seen |= {(record.partition, record.offset) for record in records}
        finally:
            consumer.close()


class _AioListener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
    """Commits what was read before others may own it; aiokafka revokes everything in every rebalance."""

    def __init__(self, reader: AiokafkaReader, consumer: aiokafka.AIOKafkaConsumer) -> None:
        self._reader = reader
        self._consumer = consumer

    async def on_partitions_revoked(self, revoked: Collection[aiokafka.TopicPartition]) -> None:
        self._reader.owned = frozenset()
        if revoked:
            await self._consumer.commit()

    async def on_partitions_assigned(self, assigned: Collection[aiokafka.TopicPartition]) -> None:
        self._reader.owned = frozenset(p.partition for p in assigned)
        self._reader.assignments += 1


class AiokafkaReader:
    """An AIOKafkaConsumer read by a task until `stop()`."""

    def __init__(self, bootstrap: str, topic: str, group_id: str, **settings: Any) -> None:
        self.seen: set[tuple[int, int]] = set()
        self.owned: frozenset[int] = frozenset()
        self.assignments = 0
        self._topic = topic
        self._halt = asyncio.Event()
        self._settings = {"bootstrap_servers": bootstrap, "group_id": group_id, **SETTINGS, **settings}
        self._settings["enable_auto_commit"] = False
        self._task = asyncio.create_task(self._poll())

    async def stop(self) -> None:
        """Commit, close (a dynamic member leaves its group) and wait."""
        self._halt.set()
        await asyncio.wait_for(self._task, DEADLINE_S)

    async def _poll(self) -> None:
        consumer = aiokafka.AIOKafkaConsumer(**self._settings)
        consumer.subscribe([self._topic], listener=_AioListener(self, consumer))
        await consumer.start()
        try:
            while not self._halt.is_set():
                for records in (await consumer.getmany(timeout_ms=POLL_MS)).values():
                    self.seen |= {(record.partition, record.offset) for record in records}
            if self.seen:
                await consumer.commit()
        finally:
            await consumer.stop()


async def wait_until(holds: Callable[[], Any], what: str) -> Any:
    """Wait as `until` does, while the tasks of this loop go on."""
    return await asyncio.to_thread(until, holds, what)
