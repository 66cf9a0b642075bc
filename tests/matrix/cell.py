"""One cell of the matrix: a client, a story, a group and topics of its own, and what is judged in the end."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from confluent_kafka import ConsumerGroupTopicPartitions as GroupPartitions
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from actors.protocol.java_hash import partition_for
from bench.clients.member import Broken, Event, Member, until
from tests.matrix.clients import Client
from tests.matrix.ownership import shared_at_once

PARTITIONS = 6
OFFSETS_PARTITIONS = 4
"""One for each cell at a time: its group has an offsets partition for itself alone, so that its failover
disturbs no other's."""
ROUND = 60
"""Records of one round, spread evenly over the partitions."""
SESSION_TIMEOUT_MS = 10_000
ADMIN_TIMEOUT_S = 30.0
TIER_FLAGS = (
    *("--partitions", str(OFFSETS_PARTITIONS)),
    *("--set", "group.initial.rebalance.delay.ms=200"),
    *("--set", "group.consumer.min.heartbeat.interval.ms=500"),
    *("--set", "group.consumer.heartbeat.interval.ms=1000"),
)
_numbers = itertools.count(1)


class Servers(Protocol):
    """What a cell's members and their killer have to know of a tier, or of what stands in its place."""

    @property
    def bootstrap(self) -> str:
        """The address that clients begin with."""

    def replicas(self) -> list[dict[str, Any]]:
        """The replicas of the offsets partitions, as `bench.ground.throwaway.Tier.replicas`."""


class Elsewhere(NamedTuple):
    """Servers that are not ours, in a tier's place: their leaders are nobody's to kill."""

    bootstrap: str

    def replicas(self) -> list[dict[str, Any]]:
        return []


class Cell:
    """Use as a context manager: every process it has started ends with it. `partition`: its group's, of the
    offsets topic. `fails_over`: that partition's leader is killed in the middle of the story."""

    def __init__(
        self,
        tier: Servers,
        client: Client,
        *,
        partition: int,
        fails_over: bool,
        settings: Mapping[str, Any],
    ) -> None:
        number = next(_numbers)
        self.client = client
        self.tier = tier
        self.topic = f"matrix-{os.getpid()}-{number}"
        self.group_id = group_id_in(partition, self.topic)
        self.members: list[Member] = []
        self.fails_over = fails_over
        self._partition = partition
        self._settings = settings
        self._admin = AdminClient({"bootstrap.servers": tier.bootstrap, "log_level": 0})
        self._writers: list[Member] = []
        self._produced: dict[str, int] = {}
        self._digests: dict[tuple[str, int], str] = {}
        """The SHA-256 of each value that the client's own writer has written."""
        self._victim: int | None = None
        self.create_topic(self.topic)

    def __enter__(self) -> Cell:
        return self

    def __exit__(self, *exc: object) -> None:
        for member in (*self.members, *self._writers):
            member.kill()

    # What stories do.

    def create_topic(self, name: str) -> None:
        self._admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(ADMIN_TIMEOUT_S)
        self._produced |= {f"{name}-{number}": 0 for number in range(PARTITIONS)}

    def start(self, topics: str = "", **settings: Any) -> Member:
        """Start a member. `settings`: the Java consumer's, with _ for the dots."""
        named = self._common() | {
            name.replace("_", "."): value for name, value in {**self._settings, **settings}.items()
        }
        if self.client.protocol == "consumer":
            for name in ("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"):
                named.pop(name, None)
        else:
            strategy = named["partition.assignment.strategy"]
            named["partition.assignment.strategy"] = self.client.assignors[strategy]
        name = f"m{len(self.members) + 1}"
        member = Member(name, self.client.command(), topics or self.topic, named)
        self.members.append(member)
        return member

    def produce(self, rounds: int = 1) -> None:
        """Write so many records to every partition of every topic; returns when all are acknowledged."""
        producer = Producer({"bootstrap.servers": self.tier.bootstrap, "log_level": 0, "linger.ms": 1})
        failed: list[Any] = []
        for partition in sorted(self._produced):
            topic, _, number = partition.rpartition("-")
            for _ in range(rounds * ROUND // PARTITIONS):
                producer.produce(
                    topic,
                    b"x",
                    partition=int(number),
                    on_delivery=lambda error, _: failed.append(error) if error else None,
                )
            self._produced[partition] += rounds * ROUND // PARTITIONS
        if producer.flush(ADMIN_TIMEOUT_S) or failed:
            raise Broken(f"records could not be produced: {failed[:1]}")

    def start_writer(self) -> Member:
        """Start the client's own producer, for `write`."""
        settings = {"bootstrap.servers": self.tier.bootstrap}
        writer = Member(f"w{len(self._writers) + 1}", self.client.writer(), self.topic, settings)
        self._writers.append(writer)
        return writer

    def write(self, writer: Member, codec: str, size: int) -> None:
        """Write a record of so many bytes into the next partition; returns when it is acknowledged."""
        answer = self._answer(writer, codec, size)
        partition = answer.get("partition")
        if answer["event"] != "written" or answer["offset"] != self._produced[str(partition)]:
            raise Broken(f"{size} bytes, {codec}: {answer}, {self._produced} before\n{writer.story()}")
        self._digests[str(partition), answer["offset"]] = answer["sha256"]
        self._produced[str(partition)] += 1

    def write_in_vain(self, writer: Member, codec: str, size: int, code: int) -> None:
        """Write a record that has to be refused with this code of an error."""
        answer = self._answer(writer, codec, size)
        if answer["event"] != "refused" or answer["code"] != code:
            raise Broken(f"{size} bytes, {codec}: {answer}, where {code} was due\n{writer.story()}")

    def _answer(self, writer: Member, codec: str, size: int) -> Event:
        def answers() -> list[Event]:
            return [event for event in list(writer.events) if event["event"] in ("written", "refused")]

        number = len(answers())
        writer.tell(f"write {codec} {size} {number % PARTITIONS}")
        self.wait(lambda: len(answers()) > number, f"an answer to {size} bytes, {codec}")
        return answers()[number]

    @property
    def partitions(self) -> list[str]:
        """The partitions of all its topics."""
        return sorted(self._produced)

    def shared_out(self) -> None:
        """Wait until each partition has one owner and every living member its fair share."""
        self.wait(lambda: self._is_shared_out(), "each partition has one owner, evenly")

    def all_seen(self) -> None:
        """Wait until every record was seen by some member."""
        self.wait(lambda: not self._unseen(), "every record is seen")

    def wait(self, holds: Callable[[], Any], what: str) -> None:
        """Poll until it holds; fails at once when a member's process fails."""

        def checked() -> Any:
            for member in (*self.members, *self._writers):
                member.check()
            return holds()

        try:
            until(checked, what)
        except Broken as broken:
            raise Broken(f"{broken}\n{self.story()}") from None

    def aim(self) -> None:
        """Find out who leads the group's partition, so that `strike` takes no time."""
        if not self.fails_over:
            return
        leaders = [
            replica["pid"]
            for replica in self.tier.replicas()
            if replica["partition"] == self._partition and replica["role"] == "leader"
        ]
        self._victim = leaders[0] if leaders else None

    def strike(self) -> None:
        """SIGKILL the leader of the group's partition, if the story is one of failover."""
        if not self.fails_over:
            return
        if self._victim is None:
            raise Broken("nobody led the group's partition")
        os.kill(self._victim, signal.SIGKILL)

    # Judging what members saw.

    def finish(self) -> None:
        """A last round with everybody at rest; then the members leave, and everything must be right."""
        self.shared_out()
        self.produce()
        self.all_seen()
        self.wait(lambda: not self._uncommitted(), "everything is committed and acknowledged")
        for member in (*self.members, *self._writers):
            if member.lives:
                member.close()
        self.judge()

    def judge(self) -> None:
        """Judge the story. Raises Broken if a partition was owned twice, a value is another or a commit is
        gone."""
        wrong = shared_at_once(self.members)
        wrong += [
            f"{where}: {member.name} read another value"
            for where, digest in self._digests.items()
            for member in self.members
            if where in member.seen and member.digests.get(where) != digest
        ]
        committed = self._committed()
        wrong += [
            f"{partition}: {count} records, {committed.get(partition)} committed"
            for partition, count in self._produced.items()
            if count and committed.get(partition) != count
        ]
        if wrong:
            raise Broken("\n".join([*wrong[:8], self.story()]))

    def story(self) -> str:
        return "\n".join(member.story() for member in (*self.members, *self._writers))

    def _common(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.tier.bootstrap,
            "group.id": self.group_id,
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": 500,
            "max.poll.interval.ms": 30_000,
            "metadata.max.age.ms": 1_000,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
            "partition.assignment.strategy": "range",
            "commit.each.poll": "true",
            "group.protocol": self.client.protocol,
        }

    def _is_shared_out(self) -> bool:
        living = [member for member in self.members if member.lives]
        owned = sorted(partition for member in living for partition in list(member.owned))
        sizes = [len(member.owned) for member in living]
        topics = len(self._produced) // PARTITIONS
        return owned == sorted(self._produced) and max(sizes) - min(sizes) <= topics

    def _unseen(self) -> bool:
        seen: set[tuple[str, int]] = set()
        for member in self.members:
            seen |= set(member.seen)
        wanted = {(p, offset) for p, count in self._produced.items() for offset in range(count)}
        return not wanted <= seen

    def _uncommitted(self) -> list[str]:
        acknowledged: dict[str, int] = {}
        for member in self.members:
            for partition, offset in list(member.acknowledged.items()):
                acknowledged[partition] = max(offset, acknowledged.get(partition, 0))
        return [p for p, count in self._produced.items() if acknowledged.get(p, 0) < count]

    def _committed(self) -> dict[str, int]:
        asked = [TopicPartition(*_split(partition)) for partition in self._produced]
        future = self._admin.list_consumer_group_offsets([GroupPartitions(self.group_id, asked)])[
            self.group_id
        ]
        found = future.result(ADMIN_TIMEOUT_S).topic_partitions
        return {f"{each.topic}-{each.partition}": each.offset for each in found}


def group_id_in(partition: int, stem: str) -> str:
    """Return the id of a group of this offsets partition."""
    names = (f"{stem}-group-{number}" for number in itertools.count())
    return next(name for name in names if partition_for(name, OFFSETS_PARTITIONS) == partition)


def _split(partition: str) -> tuple[str, int]:
    topic, _, number = partition.rpartition("-")
    return topic, int(number)
