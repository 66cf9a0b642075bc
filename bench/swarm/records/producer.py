"""A producer: writes records to all partitions of its topics in turn, as many a second as it is told."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from typing import Any, Final

import gevent

from bench.swarm.planning.clients import CLIENTS, JAVA
from bench.swarm.planning.plan import ProducerPlan
from bench.swarm.records import requests
from bench.swarm.records.batches import batch
from bench.swarm.records.leader import LOST, Leaders
from bench.swarm.records.requests import Partition
from bench.swarm.rows.shared import Shared
from storage.history.calls import NEVER, Call, Offset

LINGER_S: Final = 0.1
"""A batch holds the records of so long a time, for one partition; the next batch is for the next
partition."""
BATCH_BYTES_MAX: Final = 900_000
TIMEOUT_MS: Final = 30_000


class Producer:
    """One producer of the plan. Spawn `run`, which goes on until it is killed."""

    def __init__(self, plan: ProducerPlan, shared: Shared) -> None:
        self._plan = plan
        self._shared = shared
        self._leaders = Leaders(shared, plan.name, CLIENTS[JAVA])
        self._written = 0
        """Records that were acknowledged."""

    def run(self) -> None:
        """Write records. What is not acknowledged is written again after the leaders were looked up."""
        try:
            self._run()
        finally:
            self._leaders.close()

    def _run(self) -> None:
        partitions = itertools.cycle(
            [
                (topic, number)
                for topic in self._plan.topics
                for number in range(self._shared.catalogue.partitions.get(topic, 0))
            ]
        )
        began_at = time.monotonic()
        at_once = BATCH_BYTES_MAX // max(1, self._plan.record_bytes)
        for partition in partitions:
            due = int((time.monotonic() - began_at) * self._plan.records_s) - self._written
            if due > 0 and not self._write(partition, min(due, at_once)):
                self._leaders.look_again(self._plan.topics)
            elif due <= at_once:
                gevent.sleep(LINGER_S)

    def _write(self, partition: Partition, count: int) -> bool:
        """Write so many records to a partition. Returns whether they were acknowledged."""
        batches = {partition: batch(count, self._plan.record_bytes, int(time.time() * 1000))}
        asked = self._leaders.call()._replace(offsets=(Offset(*partition, NEVER),))

        def read(answer: bytes, call: Call) -> tuple[Call, Mapping[Partition, tuple[int, int]]]:
            told = requests.produced(answer)
            error_code, base_offset = told.get(partition, (NEVER, NEVER))
            end = base_offset + count if not error_code else NEVER
            offsets = (Offset(*partition, end, error_code),)
            return call._replace(error_code=error_code, offsets=offsets), told

        leaders: dict[Any, list[Partition]] = self._leaders.by_leader([partition])
        for leader in leaders:
            try:
                told = self._leaders.ask(leader, requests.produce(batches, TIMEOUT_MS), asked, read)
            except LOST:
                return False
            if not told.get(partition, (NEVER, NEVER))[0]:
                self._written += count
                return True
        return False
