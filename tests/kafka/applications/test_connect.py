"""Kafka Connect's distributed workers move files through a tier whose leaders are killed."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from bench.clients.member import Member
from cluster.ports import free_ports
from tests.kafka.applications.conftest import Cluster, Run
from tests.kafka.applications.kills import LeaderKills
from tests.kafka.applications.programs import WORKER, story, wait, work
from tests.kafka.applications.rest import Workers
from tests.kafka.conftest import DEADLINE_S

pytestmark = [pytest.mark.kafka, pytest.mark.clients]

FILES = 3
"""Each is the source of a topic of its own, which fills a file of its own: twelve connectors and tasks."""
PARTS = FILES * 4
PARTITIONS = 2
PAUSE_S = 0.05
START_DEADLINE_S = 300.0
"""A worker's REST server takes a minute to start on busy cores."""
REBALANCED_DEADLINE_S = 120.0
STRING = "org.apache.kafka.connect.storage.StringConverter"


class Typist:
    """Writes numbered lines into all files, the same into each, until the context ends."""

    def __init__(self, files: list[Path]) -> None:
        self.lines: list[str] = []
        self._files = files
        self._halt = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Typist:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._halt.set()
        self._thread.join(DEADLINE_S)

    def _run(self) -> None:
        while not self._halt.wait(PAUSE_S):
            line = f"line {len(self.lines)}"
            self.lines.append(line)
            for file in self._files:
                with file.open("a") as writing:
                    writing.write(f"{line}\n")


def test_files_arrive_whole_while_leaders_and_a_worker_are_killed(
    run: Run, cluster: Cluster, group_id: str, tmp_path: Path, seconds: int
) -> None:
    """The lines of each source are in its topic once each (KIP-618), and in its sink at least once; the tasks
    of the worker that is killed go on at the others, and a new worker is given its share."""
    sources = [tmp_path / f"source-{number}" for number in range(FILES)]
    sinks = [tmp_path / f"sink-{number}" for number in range(FILES)]
    topics = [f"{group_id}-{number}" for number in range(FILES)]
    cluster.create_topics(topics, PARTITIONS)
    for source in sources:
        source.touch()
    first_port = free_ports(FILES + 1)
    ports = list(range(first_port, first_port + FILES))
    processes = [start(run, cluster, group_id, port) for port in ports]
    workers = Workers(ports)
    started(processes)
    for name, config in connectors(topics, sources, sinks).items():
        wait(processes, lambda n=name, c=config: workers.put(n, c), f"{name} is taken", DEADLINE_S * 4)
    settled(processes, workers)
    with Typist(sources) as typed, LeaderKills(cluster.tier) as kills:
        work(processes, seconds / 3)
        processes.pop(0).kill()
        workers.ports.pop(0)
        settled(processes, workers)
        work(processes, seconds / 3)
        workers.ports.append(first_port + FILES)
        processes.append(start(run, cluster, group_id, first_port + FILES))
        started(processes)
        settled(processes, workers)
        work(processes, seconds / 3)
    wait(
        processes,
        lambda: all(set(typed.lines) <= set(sink.read_text().splitlines()) for sink in sinks),
        "every line is in its sink",
        REBALANCED_DEADLINE_S,
    )
    for topic in topics:
        assert Counter(committed_lines(cluster.bootstrap, topic)) == Counter(typed.lines), story(processes)
    assert cluster.tier is None or kills.count >= seconds / 60
    for process in processes:
        process.close()


def start(run: Run, cluster: Cluster, group_id: str, port: int) -> Member:
    """Start a worker whose REST server listens at this port."""
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": group_id,
        "exactly.once.source.support": "enabled",
        "key.converter": STRING,
        "value.converter": STRING,
        "offset.flush.interval.ms": 1_000,
        "scheduled.rebalance.max.delay.ms": 3_000,
        "session.timeout.ms": 10_000,
        "heartbeat.interval.ms": 1_000,
        "offset.storage.partitions": 4,
        "status.storage.partitions": 2,
    }
    for kind in ("config", "offset", "status"):
        settings[f"{kind}.storage.topic"] = f"{group_id}-{kind}"
        settings[f"{kind}.storage.replication.factor"] = 1
    return run(WORKER, f"http://127.0.0.1:{port}", settings)


def connectors(topics: list[str], sources: list[Path], sinks: list[Path]) -> dict[str, dict[str, str]]:
    configs: dict[str, dict[str, str]] = {}
    for topic, source, sink in zip(topics, sources, sinks, strict=True):
        configs[source.name] = {
            "connector.class": "FileStreamSource",
            "tasks.max": "1",
            "file": str(source),
            "topic": topic,
        }
        configs[sink.name] = {
            "connector.class": "FileStreamSink",
            "tasks.max": "1",
            "file": str(sink),
            "topics": topic,
        }
    return configs


def started(processes: list[Member]) -> None:
    """Wait until every worker has started."""
    wait(processes, lambda: all(each.told("started") for each in processes), "started", START_DEADLINE_S)


def settled(processes: list[Member], workers: Workers) -> None:
    """Wait until all connectors and tasks run, shared evenly among the workers that live."""

    def even() -> bool:
        running = workers.running()
        shares = [running[port] for port in workers.ports]
        return sum(shares) == running.total() == PARTS and max(shares) - min(shares) <= 2

    wait(processes, even, "connectors and tasks run, shared evenly", REBALANCED_DEADLINE_S)


def committed_lines(bootstrap: str, topic: str) -> list[str]:
    """Every line of the topic that was committed, up to its end as it is now."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": f"{topic}-reader",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    lines: list[str] = []
    ended: set[int] = set()
    end = time.monotonic() + REBALANCED_DEADLINE_S
    while len(ended) < PARTITIONS:
        assert time.monotonic() < end, f"{topic} was not read to its end, {len(lines)} lines"
        for message in consumer.consume(1_000, 0.5):
            if message.error() is None:
                lines.append(message.value().decode())
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ended.add(message.partition())
    consumer.close()
    return lines
