"""Fetches ahead for one consumer, as clients' background threads do: a poll only takes what is there."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import gevent
from gevent.event import Event

from bench.swarm.planning.clients import Client
from bench.swarm.records import requests
from bench.swarm.records.leader import LOST, Leaders
from bench.swarm.records.requests import MOVED, OUT_OF_RANGE, Fetched, Partition
from bench.swarm.rows.shared import Shared
from bench.swarm.wire.connection import Address
from storage.history.calls import Call, Offset

MAX_WAIT_MS: Final = 500
"""fetch.max.wait.ms of Kafka's clients."""
IDLE_S: Final = 0.2
Spans = dict[Partition, tuple[int, int]]
"""Ranges of offsets by partition: the first offset, and the one behind the last."""


class Fetcher:
    """Fetches records of the partitions that its consumer owns, ahead of the consumer's polls."""

    def __init__(self, who: str, client: Client, shared: Shared, has_come: Callable[[], None]) -> None:
        self._leaders = Leaders(shared, who, client)
        self._has_come = has_come
        self._ahead: Spans = {}
        """What is fetched and not polled yet; a partition whose span is empty is to be fetched."""
        self._turn = 0
        self._wake = Event()
        self._greenlet = gevent.spawn(self._run)

    def own(self, positions: Mapping[Partition, int]) -> None:
        """Fetch these partitions from now on. Those that the consumer did not own before begin at their
        positions."""
        known = self._ahead
        self._ahead = {key: known.get(key, (at, at)) for key, at in positions.items()}
        if self._ahead.keys() - known.keys():
            self._wake.set()

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Forget partitions that another member owns now: if they come back, they begin anew."""
        for partition in partitions:
            self._ahead.pop(partition, None)

    @property
    def has_records(self) -> bool:
        return any(end > start for start, end in self._ahead.values())

    def poll(self, records_max: int) -> Spans:
        """Take so many records at most; partitions have their turn one after the other."""
        taken: Spans = {}
        partitions = list(self._ahead)
        self._turn += 1
        first = self._turn % max(1, len(partitions))
        for partition in itertools.chain(partitions[first:], partitions[:first]):
            start, end = self._ahead[partition]
            stop = min(end, start + records_max)
            if stop > start:
                taken[partition] = start, stop
                self._ahead[partition] = stop, end
                records_max -= stop - start
        self._wake.set()
        return taken

    def close(self) -> None:
        self._greenlet.kill(block=True)
        self._leaders.close()

    def _run(self) -> None:
        while True:
            empty = [partition for partition, (start, end) in self._ahead.items() if end == start]
            by_leader = self._leaders.by_leader(empty)
            if not by_leader:
                self._wake.wait(IDLE_S)
                self._wake.clear()
                continue
            for leader, partitions in by_leader.items():
                self._fetch(leader, partitions, MAX_WAIT_MS // len(by_leader))

    def _fetch(self, leader: Address, partitions: list[Partition], max_wait_ms: int) -> None:
        asked = {key: self._ahead[key][1] for key in partitions if key in self._ahead}

        def read(answer: bytes, call: Call) -> tuple[Call, dict[Partition, Fetched]]:
            told = requests.fetched(answer)
            offsets = tuple(
                Offset(*partition, row.next_offset or asked.get(partition, 0), row.error_code)
                for partition, row in told.items()
                if row.error_code or row.next_offset
            )
            first = next((row.error_code for row in told.values() if row.error_code), 0)
            return call._replace(offsets=offsets, error_code=first), told

        try:
            told = self._leaders.ask(leader, requests.fetch(asked, max_wait_ms), self._leaders.call(), read)
            for partition, row in told.items():
                if row.error_code == OUT_OF_RANGE:
                    self._begin_anew(leader, partition)
        except LOST:
            self._leaders.look_again({topic for topic, _ in asked})
            return
        for partition, row in told.items():
            self._take(partition, asked[partition], row)
        if any(row.error_code in MOVED for row in told.values()):
            self._leaders.look_again({topic for topic, _ in asked})

    def _take(self, partition: Partition, asked: int, row: Fetched) -> None:
        start, end = self._ahead.get(partition, (-1, -1))
        if row.next_offset is not None and end == asked < row.next_offset:  # else it began anew meanwhile
            self._ahead[partition] = start, row.next_offset
            self._has_come()

    def _begin_anew(self, leader: Address, partition: Partition) -> None:
        """Go on at the partition's first offset: the one to go on with is deleted (auto.offset.reset =
        earliest)."""

        def read(answer: bytes, call: Call) -> tuple[Call, int]:
            error_code, offset = requests.listed(answer)
            return call._replace(error_code=error_code), -1 if error_code else offset

        offset = self._leaders.ask(leader, requests.earliest(partition), self._leaders.call(), read)
        if offset >= 0 and partition in self._ahead:
            self._ahead[partition] = offset, offset
