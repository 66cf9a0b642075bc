"""Makes the topics of a plan before the swarm starts, and grows them while it runs (`clean_up` deletes
them)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import gevent

from actors.network.wire import parse_answer
from bench.member.requests import by_schema
from bench.swarm.planning.plan import TopicPlan
from bench.swarm.wire.clock import now_us
from bench.swarm.wire.coordinators import Bootstrap, Catalogue
from bench.swarm.wire.errors import error_name
from storage.history.call_files import SUFFIX, CallWriter
from storage.history.calls import NEVER, Topic

CREATE_VERSION: Final = 7
GROW_VERSION: Final = 3
PARTITIONS_AT_ONCE: Final = 5_000
"""How many partitions one request makes: Kafka's controller takes 10,000 records in one request."""
READY_TIMEOUT_S: Final = 60.0
POLL_S: Final = 0.2
ALREADY_EXISTS: Final = 36
DEFAULT_COPIES: Final = -1


class TopicsNotReady(Exception):
    """A topic cannot be made, or is not there in time; the text names it."""


class Topics:
    """The topics of a run. They are written down with their partition counts, and since when they have
    them."""

    def __init__(self, bootstrap: Bootstrap, directory: Path, run_id: str) -> None:
        self._bootstrap = bootstrap
        self._catalogue = Catalogue(bootstrap.connection)
        self._writer = CallWriter(directory / f"topics{SUFFIX}", run_id)

    def make(self, topics: Sequence[TopicPlan]) -> None:
        """Make the topics that are not there, and wait until all have leaders. Raises TopicsNotReady, Closed,
        TimedOut, TierError."""
        wanted = {topic.name: topic.partitions for topic in topics}
        self._catalogue.look(wanted)
        known = dict(self._catalogue.partitions)
        missing = {name: count for name, count in wanted.items() if name not in known}
        for batch in _batches(missing):
            self._ask(
                "create_topics", CREATE_VERSION, [_created(name, count) for name, count in batch.items()]
            )
        for name, count in wanted.items():
            if known.get(name, count) < count:
                self._grow(name, count)
        self._wait_for(wanted)
        for name in wanted:
            self._writer.write(Topic(name, self._catalogue.partitions[name], now_us()))
        self._writer.flush()

    def grow(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions. Raises TopicsNotReady, Closed, TimedOut, TierError."""
        self._grow(topic, partitions)
        self._writer.write(Topic(topic, partitions, now_us()))
        self._writer.flush()

    @property
    def ids(self) -> Mapping[str, bytes]:
        """The topics' ids when they were made."""
        return self._catalogue.ids

    def end(self) -> None:
        self._writer.end(NEVER)

    def _grow(self, topic: str, partitions: int) -> None:
        self._ask(
            "create_partitions", GROW_VERSION, [{"name": topic, "count": partitions, "assignments": None}]
        )

    def _ask(self, api: str, version: int, topics: list[dict[str, Any]]) -> None:
        timeout_ms = int(READY_TIMEOUT_S * 1000 / 2)
        fields = {"topics": topics, "timeout": timeout_ms, "validate_only": False}
        raw = self._bootstrap.connection().call(by_schema(api, version, fields), READY_TIMEOUT_S)
        _, answer = parse_answer(api, version, raw)
        for row in answer["topics" if "topics" in answer else "results"]:
            if row["error_code"] not in (0, ALREADY_EXISTS):
                words = row["error_message"] or error_name(row["error_code"])
                raise TopicsNotReady(f"topic {row['name']}: {words}")

    def _wait_for(self, wanted: Mapping[str, int]) -> None:
        with gevent.Timeout(READY_TIMEOUT_S, TopicsNotReady(f"not there in {READY_TIMEOUT_S:.0f} s")):
            missing = dict(wanted)
            while missing:
                self._catalogue.look(missing)
                missing = {
                    name: count for name, count in missing.items() if self._catalogue.led.get(name, 0) < count
                }
                if missing:
                    gevent.sleep(POLL_S)


def _created(name: str, partitions: int) -> dict[str, Any]:
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": DEFAULT_COPIES,
        "assignments": [],
        "configs": [],
    }


def _batches(topics: Mapping[str, int]) -> list[dict[str, int]]:
    batches: list[dict[str, int]] = []
    room = 0
    for name, count in topics.items():
        if not batches or count > room:
            batches.append({})
            room = PARTITIONS_AT_ONCE
        batches[-1][name] = count
        room -= count
    return batches
