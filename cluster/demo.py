"""Run real consumers through a real kill, and account for what was lost: nothing, or the demo fails (`groupd
demo`).

Six confluent-kafka consumers in two groups, one of each protocol, read 20,000 records while the actor that
leads one group's offsets partition is killed with SIGKILL. Afterwards every record must have been seen by
both groups and every acknowledged commit must be there to read.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions as GroupPartitions
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from actors.network.wire import Closed, Wire
from actors.protocol.partitioning import Partitioning
from cluster.demo_consumer import DemoConsumer, Reading

RECORDS = 20_000
QUIET: dict[str, Any] = {"log_level": 0}
"""The settings that keep librdkafka from reporting the kill on standard error; the demo tells of it
itself."""
PARTITIONS = 12
CONSUMERS_PER_GROUP = 3
KILL_AFTER_SHARE = 0.3
CONSUME_TIMEOUT_S = 90.0
ADMIN_TIMEOUT_S = 20.0
PROBE_INTERVAL_S = 0.01
PROBE_TIMEOUT_S = 15.0


class DemoFailed(Exception):
    """Raised if what the demo promised did not hold; the message says what."""


@dataclass
class GroupReport:
    """What happened to one group."""

    group_id: str
    protocol: str
    records: int = 0
    duplicates: int = 0
    commits: int = 0
    refused_commits: int = 0
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)
    lost_records: int = 0
    lost_commits: list[str] = field(default_factory=list)


@dataclass
class DemoReport:
    """What the whole demo did."""

    topic: str
    groups: list[GroupReport]
    killed_pid: int = 0
    killed_partition: int = 0
    killed_node: int = 0
    new_leader_node: int = 0
    without_coordinator_ms: float = 0.0

    @property
    def problems(self) -> list[str]:
        """Return why the demo failed; empty if all is well."""
        found = []
        for group in self.groups:
            if group.lost_records:
                found.append(f"{group.group_id}: {group.lost_records} records were never seen")
            found += [f"{group.group_id}: {lost}" for lost in group.lost_commits]
        return found


class Demo:
    """One run against a tier. `statuses()` gives the status of every replica; `describe(group_id)` what its
    leader knows of a group (state, generation or epochs, members). `say` tells the user what happens."""

    def __init__(
        self,
        bootstrap: str,
        spread: Partitioning,
        statuses: Callable[[], list[dict[str, Any]]],
        describe: Callable[[str], dict[str, Any]],
        say: Callable[[str], None],
    ) -> None:
        self._bootstrap = bootstrap
        self._spread = spread
        self._statuses = statuses
        self._describe = describe
        self._say = say
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "socket.timeout.ms": 10_000, **QUIET})
        self._stamp = f"{int(time.time())}-{os.getpid()}"
        self._topic = f"groupd-demo-{self._stamp}"

    def run(self) -> DemoReport:
        """Carry out the whole story, and return what happened. Raises DemoFailed if a step cannot be made at
        all."""
        self._create_topic()
        self._produce()
        report = DemoReport(
            self._topic,
            [GroupReport(f"demo-{protocol}-{self._stamp}", protocol) for protocol in ("classic", "consumer")],
        )
        stop = threading.Event()
        consumers = {
            group.group_id: [
                DemoConsumer(self._bootstrap, Reading(self._topic, group.group_id, group.protocol), n, stop)
                for n in range(CONSUMERS_PER_GROUP)
            ]
            for group in report.groups
        }
        try:
            self._consume_through_a_kill(report, consumers)
        finally:
            stop.set()
            for members in consumers.values():
                for consumer in members:
                    consumer.join(20)
        for group in report.groups:
            self._account(group, consumers[group.group_id])
        self._admin.delete_topics([self._topic])
        return report

    def _create_topic(self) -> None:
        self._say(f"creating topic {self._topic} with {PARTITIONS} partitions")
        created = self._admin.create_topics([NewTopic(self._topic, PARTITIONS, 1)])
        created[self._topic].result(ADMIN_TIMEOUT_S)

    def _produce(self) -> None:
        self._say(f"producing {RECORDS:,} records")
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 20, **QUIET})
        failures: list[str] = []

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                failures.append(str(error))

        for number in range(RECORDS):
            producer.produce(
                self._topic, value=b"%d" % number, partition=number % PARTITIONS, on_delivery=delivered
            )
            producer.poll(0)
        left = producer.flush(ADMIN_TIMEOUT_S)
        if left or failures:
            raise DemoFailed(f"{left + len(failures)} records could not be produced: {failures[:1]}")

    def _consume_through_a_kill(self, report: DemoReport, consumers: dict[str, list[DemoConsumer]]) -> None:
        self._say(f"starting {2 * CONSUMERS_PER_GROUP} consumers in two groups")
        for members in consumers.values():
            for consumer in members:
                consumer.start()
        everyone = [c for members in consumers.values() for c in members]
        self._wait(consumers, KILL_AFTER_SHARE)
        for group in report.groups:
            group.before = self._describe(group.group_id)
        self._kill(report, report.groups[0].group_id)
        self._wait(consumers, 1.0)
        failed = [c.failure for c in everyone if c.failure]
        if failed:
            raise DemoFailed(f"a consumer failed: {failed[0]}")
        for group in report.groups:
            group.after = self._describe(group.group_id)

    def _wait(self, consumers: dict[str, list[DemoConsumer]], share: float) -> None:
        deadline = time.monotonic() + CONSUME_TIMEOUT_S
        while time.monotonic() < deadline:
            seen = [len(set().union(*(c.seen for c in members))) for members in consumers.values()]
            if min(seen) >= RECORDS * share:
                return
            if any(c.failure for members in consumers.values() for c in members):
                return
            time.sleep(0.05)
        if share < 1.0:
            raise DemoFailed(f"the groups saw only {seen} of {RECORDS} records in {CONSUME_TIMEOUT_S:.0f} s")

    def _kill(self, report: DemoReport, group_id: str) -> None:
        partition = self._spread.partition_of(group_id)
        leader = next(
            (s for s in self._statuses() if s.get("partition") == partition and s.get("serving")), None
        )
        if leader is None:
            raise DemoFailed(f"offsets partition {partition} has no leader to kill")
        report.killed_pid, report.killed_partition = leader["pid"], partition
        report.killed_node = leader["node_id"]
        self._say(
            f"SIGKILL to pid {leader['pid']}: leader of offsets partition {partition} "
            f"on node {leader['node_id']}, coordinator of {group_id}"
        )
        os.kill(leader["pid"], signal.SIGKILL)
        killed_at = time.monotonic()
        report.new_leader_node = asyncio.run(self._probe(group_id))
        report.without_coordinator_ms = (time.monotonic() - killed_at) * 1000
        self._say(
            f"coordinator back on node {report.new_leader_node} after {report.without_coordinator_ms:.0f} ms"
        )

    async def _probe(self, group_id: str) -> int:
        """Ask as a client would until a coordinator serves the group. Return its node id."""
        deadline = time.monotonic() + PROBE_TIMEOUT_S
        bootstrap = [address.rsplit(":", 1) for address in self._bootstrap.split(",")]
        while time.monotonic() < deadline:
            for host, port in bootstrap:
                try:
                    return await self._probe_once(host, int(port), group_id)
                except (OSError, Closed, TimeoutError, LookupError):
                    await asyncio.sleep(PROBE_INTERVAL_S)
        raise DemoFailed(f"no coordinator for {group_id} after {PROBE_TIMEOUT_S:.0f} s")

    async def _probe_once(self, host: str, port: int, group_id: str) -> int:
        wire = await Wire.connect(host, port, "demo-probe")
        try:
            found = await wire.call("find_coordinator", 2, timeout_s=1, key=group_id, key_type=0)
        finally:
            await wire.close()
        if found["error_code"] != 0:
            raise LookupError(group_id)
        wire = await Wire.connect(found["host"], found["port"], "demo-probe")
        try:
            request = {"group_id": group_id, "topics": None, "require_stable": True}
            fetched = await wire.call("offset_fetch", 7, timeout_s=1, **request)
        finally:
            await wire.close()
        if fetched["error_code"] != 0:
            raise LookupError(group_id)
        return int(found["node_id"])

    def _account(self, group: GroupReport, members: list[DemoConsumer]) -> None:
        """Compare what the consumers saw and were promised with what is there."""
        seen = set().union(*(consumer.seen for consumer in members))
        group.records = len(seen)
        group.lost_records = RECORDS - len(seen)
        group.duplicates = sum(consumer.received for consumer in members) - len(seen)
        group.commits = sum(consumer.commits for consumer in members)
        group.refused_commits = sum(consumer.refused_commits for consumer in members)
        asked = [TopicPartition(self._topic, partition) for partition in range(PARTITIONS)]
        answer = self._admin.list_consumer_group_offsets([GroupPartitions(group.group_id, asked)])
        committed = {
            each.partition: each.offset
            for each in answer[group.group_id].result(ADMIN_TIMEOUT_S).topic_partitions
        }
        acknowledged: dict[int, int] = {}
        for consumer in members:
            for partition, offset in consumer.acknowledged.items():
                acknowledged[partition] = max(offset, acknowledged.get(partition, -1))
        for partition, offset in sorted(acknowledged.items()):
            if committed.get(partition, -1) < offset:
                group.lost_commits.append(
                    f"partition {partition}: commit of {offset} was acknowledged, "
                    f"{committed.get(partition)} is there"
                )
