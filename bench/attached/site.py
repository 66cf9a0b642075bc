"""Kafka with controllers of its own and the tier in front of it: how they are started, hit and looked at."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from actors.upstream.connecting import connector
from actors.upstream.controllers import CannotFollow, Connect, Elsewhere, find_active, listed
from bench.attached.judge import Standing
from bench.chaos.targets.target import until
from bench.ground.interrupts import deaf
from bench.ground.throwaway import Tier
from bench.peers.kafka_nodes import KafkaNodes, missing

BROKERS: Final = 3
CONTROLLERS: Final = 3
HEAP: Final = "384m"
ASK_TIMEOUT_S: Final = 30.0
WAIT_S: Final = 180.0
READ_TIMEOUT_S: Final = 60.0
SETTINGS: Final = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "auto.create.topics.enable": "false",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
}


class CannotRun(Exception):
    """Kafka cannot run here; the text says why."""


class Nodes(KafkaNodes):
    """Brokers, and controllers of their own."""

    controllers_apart = CONTROLLERS


class Ground:
    """A Kafka for a story, and how everybody gets in there: here nobody has to log in."""

    def __init__(self) -> None:
        self.connect: Connect = connector("story")
        """How controllers are connected to."""

    def nodes(self, home: Path | None) -> KafkaNodes:
        """Return the processes of Kafka's, not started yet."""
        return Nodes(BROKERS, SETTINGS, home, heap=HEAP)

    def open(self, nodes: KafkaNodes) -> None:
        """Make what everybody needs, at a Kafka that has just started."""

    def tier_flags(self) -> Sequence[str]:
        """Return further flags of `groupd up`."""
        return ()

    def login(self, program: str) -> Mapping[str, str]:
        """Return the settings with which a program of `bench.clients` gets in; "confluent" are those of any
        client of librdkafka's."""
        return {}


@contextmanager
def kafka(home: Path | None, ground: Ground) -> Iterator[KafkaNodes]:
    """Start brokers and controllers. Raises CannotRun, and RuntimeError with Kafka's words."""
    if why := missing(home):
        raise CannotRun(why)
    nodes = ground.nodes(home)
    try:
        nodes.prepare()
        nodes.start()
        ground.open(nodes)
        yield nodes
    finally:
        with deaf():
            nodes.stop()


class Site:
    """A running Kafka, and the tier that stands in front of it."""

    def __init__(self, nodes: KafkaNodes, tier: Tier, ground: Ground | None = None) -> None:
        self.nodes = nodes
        self.tier = tier
        self.ground = ground or Ground()
        self.bootstrap = bootstrap_of(nodes)
        self.client = {"bootstrap.servers": self.bootstrap, "log_level": 0, **self.ground.login("confluent")}
        """The settings of a client of librdkafka's."""
        self._admin = self._asking()

    def _asking(self) -> AdminClient:
        """Return somebody who asks about groups. librdkafka's client goes on asking the coordinator that it
        knew, even when that says NOT_COORDINATOR, so that whoever asks after a move has to be new."""
        return AdminClient(self.client)

    def active_controller(self) -> int | None:
        """Return the number of the process whose controller is active; None while they elect one."""
        addresses = [self.nodes.controller(number) for number in self.nodes.controller_numbers]

        async def found() -> int:
            active = await find_active(self.ground.connect, addresses)
            await active.wire.close()
            return active.controller_id

        try:
            return asyncio.run(found())
        except (CannotFollow, Elsewhere):
            return None

    def create(self, topics: Mapping[str, int]) -> None:
        """Create topics with so many partitions."""
        new = [NewTopic(name, partitions, BROKERS) for name, partitions in topics.items()]
        for future in self._admin.create_topics(new).values():
            future.result(ASK_TIMEOUT_S)

    def wait_until_whole(self) -> None:
        """Wait until every broker runs, and every partition has a leader and all its replicas in sync. Raises
        TimeoutError."""
        until(self._is_whole, "every partition has all its replicas in sync", WAIT_S)

    def _is_whole(self) -> bool:
        if not all(map(self.nodes.runs, self.nodes.all_numbers)) or self.active_controller() is None:
            return False
        try:
            told = self._admin.list_topics(timeout=ASK_TIMEOUT_S)
        except KafkaException:
            return False
        partitions = [each for topic in told.topics.values() for each in topic.partitions.values()]
        return set(self.nodes.numbers) <= set(told.brokers) and all(
            each.leader >= 0 and len(each.isrs) == len(each.replicas) for each in partitions
        )

    def kill_tier_leader(self, number: int) -> str:
        """SIGKILL a leader of an offsets partition; returns whom."""
        leaders = [each for each in self.tier.replicas() if each.get("serving")]
        leader = leaders[number % len(leaders)]
        os.kill(leader["pid"], signal.SIGKILL)
        until(lambda: self._leaders() >= len(leaders), "every partition is served again", WAIT_S)
        return f"partition {leader['partition']}"

    def kill_tier_node(self, number: int) -> str:
        """SIGKILL all processes of a node of the tier; returns which node."""
        status = self.tier.status()
        node = status["nodes"][number % len(status["nodes"])]["node_id"]
        leaders = self._leaders()
        rows = (*self.tier.replicas(), *self.tier.controllers(), *self.tier.brokers())
        for row in rows:
            if row["node_id"] == node:
                os.kill(row["pid"], signal.SIGKILL)
        until(lambda: self._leaders() >= leaders, "every partition is served again", WAIT_S)
        return f"node {node}"

    def _leaders(self) -> int:
        return sum(bool(each.get("serving")) for each in self.tier.replicas())

    def kill_broker(self, number: int) -> str:
        """SIGKILL a broker, and start it again; returns whom."""
        broker = self.nodes.numbers[number % BROKERS]
        self._kill(broker)
        return f"broker {broker}"

    def kill_controller(self) -> str:
        """SIGKILL the active controller, and start it again; returns whom."""
        until(lambda: self.active_controller() is not None, "a controller is active", WAIT_S)
        active = self.active_controller()
        if active is None:
            raise TimeoutError("no controller stays active")
        self._kill(active)
        return f"controller {active}"

    def _kill(self, number: int) -> None:
        process = self.nodes.process(number)
        process.kill()
        process.wait()
        self.nodes.launch(number)
        self.nodes.wait_until_it_listens(number)
        self.wait_until_whole()

    def restart_each(self, say: Callable[[str], None]) -> str:
        """End every process of Kafka's and start it again, one after the other, as for an upgrade:
        controllers first, the active one last. Returns how long the slowest took to end. Raises
        TimeoutError."""
        active = self.active_controller()
        controllers = sorted(self.nodes.controller_numbers, key=lambda number: number == active)
        slowest = 0.0
        for number in (*controllers, *self.nodes.numbers):
            process, began = self.nodes.process(number), time.monotonic()
            process.send_signal(signal.SIGTERM)
            if not _ended(process):
                raise TimeoutError(f"{number} did not end within {WAIT_S:.0f} s")
            took_s = time.monotonic() - began
            slowest = max(slowest, took_s)
            self.nodes.launch(number)
            self.nodes.wait_until_it_listens(number)
            self.wait_until_whole()
            say(f"{number} ended within {took_s:.1f} s, and is back")
        return f"slowest end {slowest:.1f} s"

    def standing(self, groups: list[str]) -> dict[str, Standing]:
        """Ask what the groups' state is, and what they have committed."""
        asking = self._asking()
        described = asking.describe_consumer_groups(groups)
        states = {group: future.result(ASK_TIMEOUT_S).state.name for group, future in described.items()}
        return {group: Standing(states[group], _committed(asking, group)) for group in groups}

    def coordinators(self, groups: list[str]) -> dict[str, int]:
        """Ask which broker coordinates each group."""
        asking = self._asking()
        described = asking.describe_consumer_groups(groups)
        return {group: future.result(ASK_TIMEOUT_S).coordinator.id for group, future in described.items()}

    def check_taken_over(self, groups: list[str]) -> None:
        """Check that no broker coordinates one of these groups. Raises RuntimeError."""
        coordinators = set(self.coordinators(groups).values())
        if not coordinators.isdisjoint(self.nodes.numbers):
            raise RuntimeError(f"brokers coordinate after the attach: {sorted(coordinators)}")

    def copies(self, topic: str) -> dict[str, int]:
        """Read all of a topic that committed transactions wrote: value -> how often it is there."""
        settings = {"group.id": "judge", "enable.auto.commit": False, "isolation.level": "read_committed"}
        more = {"enable.partition.eof": True, "auto.offset.reset": "earliest"}
        reader = Consumer(self.client | settings | more)
        partitions = reader.list_topics(topic, ASK_TIMEOUT_S).topics[topic].partitions
        reader.assign([TopicPartition(topic, number, 0) for number in partitions])
        found: dict[str, int] = {}
        open_ends, end = set(partitions), time.monotonic() + READ_TIMEOUT_S
        while open_ends and time.monotonic() < end:
            for message in reader.consume(1_000, 1.0):
                if message.error() is not None:
                    open_ends.discard(message.partition())
                else:
                    value = (message.value() or b"").decode()
                    found[value] = found.get(value, 0) + 1
        reader.close()
        if open_ends:
            raise TimeoutError(f"the end of {topic} was not read")
        return found


def _committed(asking: AdminClient, group: str) -> dict[str, int]:
    asked = asking.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    found = asked[group].result(ASK_TIMEOUT_S).topic_partitions
    return {f"{each.topic}-{each.partition}": each.offset for each in found}


def in_front_of(nodes: KafkaNodes, *flags: str) -> Tier:
    """Return a tier of three nodes that stands in front of the cluster, not started yet. `flags` are further
    flags of `groupd up`."""
    controllers = listed(map(nodes.controller, nodes.controller_numbers))
    return Tier("--upstream", bootstrap_of(nodes), "--controllers", controllers, *flags)


def software_of(nodes: KafkaNodes) -> str:
    """Return the name and version of Kafka, and how many controllers it has."""
    return f"{nodes.software()}, {len(nodes.controller_numbers)} controllers"


def bootstrap_of(nodes: KafkaNodes) -> str:
    """Return the brokers' addresses."""
    return listed(map(nodes.address, nodes.numbers))


def _ended(process: subprocess.Popen[bytes]) -> bool:
    """Wait until a process has ended; returns whether it has."""
    try:
        process.wait(WAIT_S)
    except subprocess.TimeoutExpired:
        return False
    return True
