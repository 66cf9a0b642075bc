"""Kafka Streams counts words exactly once (KIP-447) on a tier whose leaders are killed."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from bench.clients.member import Member
from tests.kafka.applications.conftest import Cluster, Run
from tests.kafka.applications.kills import LeaderKills
from tests.kafka.applications.programs import story, wait, word_count, work
from tests.kafka.conftest import DEADLINE_S

pytestmark = [pytest.mark.kafka, pytest.mark.clients]

PARTITIONS = 4
WORDS = tuple(f"word{number}" for number in range(60))
WORDS_A_LINE = 5
PAUSE_S = 0.02
"""Between two lines: the words of ten minutes then fit the memory of a topic many times over."""
START_DEADLINE_S = 300.0
"""Two JVMs, and topics that the application makes for itself, on busy cores."""
SETTLED_DEADLINE_S = 120.0


class Lines:
    """Lines of random words, produced one after the other until the context ends, and how often each word was
    among them."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.words: Counter[str] = Counter()
        self._topic = topic
        self._chance = random.Random(447)
        self._halt = threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
        )
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Lines:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._halt.set()
        self._thread.join(DEADLINE_S)
        assert self._producer.flush(DEADLINE_S) == 0

    def _run(self) -> None:
        number = 0
        while not self._halt.wait(PAUSE_S):
            line = self._chance.choices(WORDS, k=WORDS_A_LINE)
            self._producer.produce(self._topic, " ".join(line).encode(), partition=number % PARTITIONS)
            self._producer.poll(0)
            self.words.update(line)
            number += 1


def test_words_are_counted_exactly_once_while_leaders_are_killed(
    run: Run, cluster: Cluster, group_id: str, tmp_path: Path, seconds: int
) -> None:
    """O7: each word's counts are 1, 2, 3 ... without a gap and without a repetition, through killed leaders
    and an instance that is killed and whose state another restores."""
    lines, counts = f"{group_id}-lines", f"{group_id}-counts"
    cluster.create_topics([lines, counts], PARTITIONS)
    instances: list[Member] = []

    def start() -> None:
        settings = {
            "bootstrap.servers": cluster.bootstrap,
            "application.id": group_id,
            "group.protocol": "classic",
            "processing.guarantee": "exactly_once_v2",
            "statestore.cache.max.bytes": 0,  # otherwise only the last of several counts is told
            "state.dir": tempfile.mkdtemp(dir=tmp_path),
            "replication.factor": 1,
            "consumer.session.timeout.ms": 10_000,
            "consumer.auto.offset.reset": "earliest",
        }
        instances.append(run(word_count(lines), counts, settings))

    for _ in range(2):
        start()
    wait(instances, lambda: all(runs(each) for each in instances), "both run", START_DEADLINE_S)
    with Lines(cluster.bootstrap, lines) as produced, LeaderKills(cluster.tier) as kills:
        work(instances, seconds / 2)
        instances.pop(0).kill()
        start()
        work(instances, seconds / 2)
    told = counts_in(cluster.bootstrap, counts, lambda seen: seen == produced.words)
    wrong = {word: told[word] for word, count in produced.words.items() if told[word] != upto(count)}
    assert not wrong, f"after {kills.count} kills: {str(wrong)[:2_000]}\n{story(instances)}"
    assert cluster.tier is None or kills.count >= seconds / 60
    for instance in instances:
        assert not instance.told("died"), story(instances)
        instance.close()


def runs(instance: Member) -> bool:
    states = instance.told("state")
    return bool(states) and states[-1]["to"] == "RUNNING"


def upto(count: int) -> list[int]:
    return list(range(1, count + 1))


def counts_in(
    bootstrap: str, topic: str, whole: Callable[[dict[str, int]], bool]
) -> defaultdict[str, list[int]]:
    """Every count of each word that was committed, in order. Reads until `whole` of how many each word has,
    or until a deadline."""
    told: defaultdict[str, list[int]] = defaultdict(list)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    end = time.monotonic() + SETTLED_DEADLINE_S
    while time.monotonic() < end and not whole({word: len(found) for word, found in told.items()}):
        for message in consumer.consume(1_000, 0.5):
            assert message.error() is None, message.error()
            told[message.key().decode()].append(int(message.value()))
    consumer.close()
    return told
