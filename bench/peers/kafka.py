"""Apache Kafka in KRaft mode as a peer: one broker, or three with three copies of the offsets topic."""

from __future__ import annotations

import asyncio
import re
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, Final

from bench.peers import kafka_nodes
from bench.peers.kafka_nodes import WORDS_MAX, KafkaNodes
from bench.peers.lines import Address, coordinators
from bench.peers.options import Options, Refused
from bench.peers.peer import READY_TIMEOUT_S, Peer

HISTOGRAM_TOTAL: Final = re.compile(r"^Total\s+\d+\s+(\d+)\s*$", re.MULTILINE)


class _Kafka(Peer):
    brokers: ClassVar[int]
    warm_up_s = 20.0

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._nodes = KafkaNodes(self.brokers, self.settings, options.kafka_home)

    def missing(self) -> str:
        return kafka_nodes.missing(self.options.kafka_home)

    def start(self) -> None:
        self._nodes.prepare()
        self.launched_at = time.monotonic()
        self._nodes.start()

    def _end(self) -> None:
        self._nodes.stop()

    @property
    def bootstrap(self) -> list[Address]:
        return [self._nodes.address(number) for number in self._nodes.numbers]

    def pids(self) -> list[int]:
        return self._nodes.pids()

    def software(self) -> str:
        return self._nodes.software()

    def live_bytes(self) -> int:
        """The bytes of the heaps' live objects, after a garbage collection: the resident size of a JVM says
        little."""
        total = 0
        for pid in self.pids():
            command = ["jcmd", str(pid), "GC.class_histogram"]
            done = subprocess.run(
                command, capture_output=True, text=True, check=True, timeout=READY_TIMEOUT_S
            )
            found = HISTOGRAM_TOTAL.search(done.stdout)
            assert found is not None, done.stdout[-WORDS_MAX:]
            total += int(found[1])
        return total

    def kill_leader(self, groups: Sequence[str]) -> tuple[float, list[str]]:
        if self.brokers == 1:
            raise Refused("nobody takes over from a single broker")
        return kill_coordinator(self._nodes, groups)

    def mend(self) -> None:
        start_the_dead(self._nodes)
        self.wait_until_ready()


class KafkaOne(_Kafka):
    """Kafka with one broker."""

    name = "kafka-1"
    brokers = 1


class KafkaThree(_Kafka):
    """Kafka with three brokers, and three replicas of each group's state."""

    name = "kafka-3"
    brokers = 3
    copies = 3


def kill_coordinator(nodes: KafkaNodes, groups: Sequence[str]) -> tuple[float, list[str]]:
    """Kill the broker that coordinates most of these groups, as `Peer.kill_leader` does."""
    number, hit = busiest(nodes, groups)
    process = nodes.process(number)
    process.kill()
    killed_at = time.monotonic()
    process.wait()
    return killed_at, hit


def busiest(nodes: KafkaNodes, groups: Sequence[str]) -> tuple[int, list[str]]:
    """Return the broker that coordinates most of these groups, and which."""
    addresses = [nodes.address(number) for number in nodes.numbers]
    found = asyncio.run(coordinators(addresses[0], groups))
    ((address, _),) = Counter(found.values()).most_common(1)
    return nodes.numbers[addresses.index(address)], [group for group, at in found.items() if at == address]


def start_the_dead(nodes: KafkaNodes) -> None:
    """Start the brokers whose processes have ended, and wait until they listen."""
    for number in nodes.numbers:
        if not nodes.runs(number):
            nodes.launch(number)
            nodes.wait_until_it_listens(number)
