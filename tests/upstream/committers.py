"""Clients that commit as fast as they are answered, and remember what was acknowledged."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaException, TopicPartition

STOP_S: Final = 5.0


class Commit(NamedTuple):
    """What one client has committed of one partition."""

    group_id: str
    acknowledged: int = -1
    tried: int = -1
    errors: int = 0
    longest_gap_s: float = 0.0
    """The longest time between two acknowledged commits."""


class Committers:
    """Clients, each with a group of its own, that commit offsets of partition 0 of a topic, one after the
    other."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._commits: dict[str, Commit] = {}
        self._last: dict[str, float] = {}

    @property
    def commits(self) -> Mapping[str, Commit]:
        """What each group has committed by now."""
        return dict(self._commits)

    def in_librdkafka(self, group_id: str, **settings: Any) -> None:
        """Have a consumer of librdkafka commit. With a `group_protocol` it is a member of its group."""
        given = {name.replace("_", "."): value for name, value in settings.items()}
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": group_id,
                "enable.auto.commit": False,
                "socket.timeout.ms": 5_000,
                "log_level": 0,
                **given,
            }
        )
        if given:
            consumer.subscribe([self._topic])
        self._commits[group_id] = Commit(group_id)
        # A commit may take as long as a session if nobody coordinates: no test waits for that.
        arguments = (group_id, consumer, bool(given))
        work = threading.Thread(target=self._by_librdkafka, args=arguments, daemon=True)
        self._threads.append(work)
        work.start()

    async def in_aiokafka(self, group_id: str) -> None:
        """Have a consumer of aiokafka commit, which is no member of its group."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=group_id,
            enable_auto_commit=False,
            request_timeout_ms=5_000,
        )
        await consumer.start()
        consumer.assign([AioPartition(self._topic, 0)])
        self._commits[group_id] = Commit(group_id)
        self._tasks.append(asyncio.create_task(self._by_aiokafka(group_id, consumer)))

    async def stop(self) -> None:
        """Commit no more."""
        self._stopped.set()
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError, TimeoutError):
                await asyncio.wait_for(task, STOP_S)
        for thread in self._threads:
            await asyncio.to_thread(thread.join, STOP_S / len(self._threads))

    def _by_librdkafka(self, group_id: str, consumer: Consumer, is_member: bool) -> None:
        def commit(offset: int) -> None:
            if is_member:
                consumer.poll(0)
            answer = consumer.commit(offsets=[TopicPartition(self._topic, 0, offset)], asynchronous=False)
            for each in answer:
                if each.error is not None:
                    raise KafkaException(each.error)

        while not self._stopped.is_set():
            self._try(group_id, commit)

    def _try(self, group_id: str, commit: Callable[[int], None]) -> None:
        offset = self._commits[group_id].tried + 1
        self._commits[group_id] = self._commits[group_id]._replace(tried=offset)
        try:
            commit(offset)
        except KafkaException:
            self._failed(group_id)
            self._stopped.wait(0.02)
        else:
            self._succeeded(group_id, offset)

    async def _by_aiokafka(self, group_id: str, consumer: AIOKafkaConsumer) -> None:
        try:
            while True:
                offset = self._commits[group_id].tried + 1
                self._commits[group_id] = self._commits[group_id]._replace(tried=offset)
                try:
                    await consumer.commit({AioPartition(self._topic, 0): offset})
                except KafkaError:
                    self._failed(group_id)
                    await asyncio.sleep(0.02)
                else:
                    self._succeeded(group_id, offset)
        finally:
            await consumer.stop()

    def _failed(self, group_id: str) -> None:
        was = self._commits[group_id]
        self._commits[group_id] = was._replace(errors=was.errors + 1)

    def _succeeded(self, group_id: str, offset: int) -> None:
        now, was = time.monotonic(), self._commits[group_id]
        gap_s = now - self._last.get(group_id, now)
        self._last[group_id] = now
        self._commits[group_id] = was._replace(
            acknowledged=offset, longest_gap_s=max(was.longest_gap_s, gap_s)
        )
