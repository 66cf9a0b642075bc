"""Groups of a real Kafka go to a real tier and back to the brokers: they are what they were, and nobody in
them has noticed."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kio.schema.errors import ErrorCode

from actors.coordinator.kafka_records.codec import kind_of
from actors.coordinator.take_over.fold import foreign_types
from actors.ground import records as ours
from actors.ground.topic_names import OFFSETS_TOPIC
from actors.ground.upstream_goal import ATTACHED
from actors.network.wire import Wire
from bench.ground.throwaway import Tier
from bench.peers.kafka_nodes import HOST, KafkaNodes
from cluster.cli.attach import take_over_of
from tests.coordinator.take_over.taker import Taker
from tests.kafka import jvm
from tests.kafka.tools import GROUPS, LOG_DIRS, Tools
from tests.polling import until as eventually
from tests.upstream.conftest import started
from tests.upstream.offsets_log.cast import ORDERS, Cast, create_topics, until
from tests.upstream.offsets_log.real_log import connected, fetched, image_of

pytestmark = [pytest.mark.kafka, pytest.mark.clients, pytest.mark.timeout(900)]

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.segment.bytes": "104857600",
    "group.initial.rebalance.delay.ms": "0",
    "group.share.max.session.timeout.ms": "600000",
    "group.share.session.timeout.ms": "600000",
    "transaction.max.timeout.ms": "900000",
}
CLASSIC, CONSUMER = "classic-confluent", ("consumer-confluent", "consumer-regex")
ALL = (CLASSIC, *CONSUMER, "simple", "second-generation", "deleted")
NAMED = tuple(word for name in (CLASSIC, *CONSUMER, "simple") for word in ("--group", name))
EPOCHS = frozenset({"group_epoch", "assignment_epoch", "member_epoch"})
SHARE_PROGRESS = 15
"""The type of a record that says which partitions of a share group have a state."""
WAIT_S = 120.0


class Member:
    """A consumer that is in its group from the beginning to the end, and what it is told meanwhile."""

    def __init__(self, bootstrap: str, protocol: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "group.id": f"lives-{protocol}"}
        more = {"group.protocol": protocol, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        self.told: list[str] = []
        self._consumer = Consumer(settings | more)
        self._consumer.subscribe(
            [ORDERS],
            on_assign=lambda *_: self.told.append("assigned"),
            on_revoke=lambda *_: self.told.append("revoked"),
            on_lost=lambda *_: self.told.append("lost"),
        )
        self.values: list[bytes] = []

    def read(self, count: int) -> None:
        """Read and commit until so many records were seen."""

        def has_all() -> bool:
            message = self._consumer.poll(0.2)
            if message is not None and message.error() is None:
                self.values.append(message.value() or b"")
                self._consumer.commit(message, asynchronous=False)
            return len(self.values) >= count

        eventually(has_all, f"{count} records are read", WAIT_S)

    def committed(self) -> int:
        """Return how many records are committed, by the committed offsets of all partitions."""
        partitions = [TopicPartition(ORDERS, number) for number in range(6)]
        found = self._consumer.committed(partitions, timeout=WAIT_S)
        return sum(max(each.offset, 0) for each in found)

    def close(self) -> None:
        self._consumer.close()


class Story(NamedTuple):
    """What there was before, and what there is when the groups are back."""

    before: dict[str, Any]
    after: dict[str, Any]
    taken_before: Taker
    """Kafka's own log, read before the tier came, and the log that it has afterwards."""
    taken_after: Taker
    members: list[Member]
    read: int
    told_before: list[list[str]]
    tables: dict[str, str]
    dumped: str
    ended: dict[str, Any]
    """What groups have committed when the transactions that were open have ended on the broker."""


def plain(value: Any) -> Any:
    """Return an answer without epochs, in which the order of lists says nothing."""
    if isinstance(value, dict):
        return {
            name: plain(each)
            for name, each in value.items()
            if name != "throttle_time" and name not in EPOCHS
        }
    if isinstance(value, list | tuple):
        return sorted(map(plain, value), key=repr)
    return value


async def told(wire: Wire) -> dict[str, Any]:
    """Ask what groups are, and what they have committed."""
    asked = {
        "classic": await wire.call(
            "describe_groups", 6, groups=[CLASSIC], include_authorized_operations=False
        ),
        "consumer": await wire.call(
            "consumer_group_describe", 1, group_ids=list(CONSUMER), include_authorized_operations=False
        ),
    }
    for is_stable in (False, True):
        for group_id in ALL:
            asked[f"{group_id}, stable: {is_stable}"] = await offsets(wire, group_id, is_stable=is_stable)
    return asked


async def offsets(wire: Wire, group_id: str, *, is_stable: bool) -> dict[str, Any]:
    group = {"group_id": group_id, "member_id": None, "member_epoch": -1, "topics": None}
    return await wire.call("offset_fetch", 9, groups=[group], require_stable=is_stable)


async def taken(wire: Wire, begin: int) -> Taker:
    """Take over what the broker has in its log."""
    taker, at = Taker(await image_of(wire)), begin
    while fetch := await fetched(wire, at):
        taker.take(fetch)
        at = taker.next_offset
    return taker


async def first_offset(wire: Wire) -> int:
    partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -2}
    topics = [{"name": OFFSETS_TOPIC, "partitions": [partition]}]
    answer = await wire.call("list_offsets", 7, replica_id=-1, isolation_level=0, topics=topics)
    [found] = answer["topics"][0]["partitions"]
    assert found["error_code"] == 0, found
    return int(found["offset"])


def produce(bootstrap: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(ORDERS, str(number).encode(), partition=number % 6)
    assert not producer.flush(WAIT_S)


def in_front(kafka: KafkaNodes) -> Tier:
    brokers, controllers = (f"{host}:{port}" for host, port in (kafka.address(1), kafka.controller(1)))
    return Tier(
        *("--nodes", "1", "--replicas", "1", "--upstream", brokers, "--controllers", controllers), nodes=1
    )


def attach(tier: Tier) -> None:
    """Have the tier take all groups over, though `groupd attach` says that there is a share group."""
    take_over = take_over_of(tier.data_dir)
    take_over.want(ATTACHED)
    take_over.wait_until_over(lambda state: None)


def dumped(tables: Mapping[str, str], offset: int) -> str:
    """Return what kafka-dump-log makes of the broker's log."""
    directory = tables["dirs"].split('"logDir":"')[1].split('"')[0]
    file = f"{directory}/{OFFSETS_TOPIC}-0/{offset:020}.log"
    command = jvm.command(
        jvm.build_tools(), "org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", file
    )
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=WAIT_S).stdout


async def _story(kafka: KafkaNodes) -> Story:
    bootstrap = f"{HOST}:{kafka.address(1)[1]}"
    create_topics(bootstrap)
    wire = await connected(bootstrap)
    cast = Cast(bootstrap, wire)
    members: list[Member] = []
    try:
        await cast.play_living()
        members += [Member(bootstrap, protocol) for protocol in ("classic", "consumer")]
        await asyncio.to_thread(produce, bootstrap, 60)
        for member in members:
            await asyncio.to_thread(member.read, 60)
        told_before = [[*member.told] for member in members]
        before, taken_before = await told(wire), await taken(wire, 0)
        with in_front(kafka) as tier:
            await asyncio.to_thread(attach, tier)
            await asyncio.to_thread(produce, bootstrap, 60)
            for member in members:
                await asyncio.to_thread(member.read, 120)
            await asyncio.to_thread(tier.run, "detach")
        await until(
            lambda: offsets(wire, CLASSIC, is_stable=False),
            lambda answer: not answer["groups"][0]["error_code"],
        )
        await asyncio.to_thread(produce, bootstrap, 60)
        for member in members:
            await asyncio.to_thread(member.read, 180)
        after, begin = await told(wire), await first_offset(wire)
        taken_after = await taken(wire, begin)
        with Tools(jvm.build_tools(), bootstrap) as tools:
            tables = {
                "groups": await asyncio.to_thread(tools.run, GROUPS, "--describe", *NAMED),
                "dirs": await asyncio.to_thread(tools.run, LOG_DIRS, "--describe"),
            }
        text = await asyncio.to_thread(dumped, tables, begin)
        await cast.end_transactions()
        ended = {group_id: await stable(wire, group_id) for group_id in (CLASSIC, "second-generation")}
        return Story(before, after, taken_before, taken_after, members, 180, told_before, tables, text, ended)
    finally:
        await cast.close()
        await wire.close()


async def stable(wire: Wire, group_id: str) -> dict[str, Any]:
    """Return a group's offsets when no transaction has any of them open."""
    return await until(
        lambda: offsets(wire, group_id, is_stable=True),
        lambda answer: all(
            not row["error_code"] for topic in answer["groups"][0]["topics"] for row in topic["partitions"]
        ),
    )


@pytest.fixture(scope="module")
def story(version: str) -> Iterator[Story]:
    for kafka in started(version, 1, SETTINGS):
        found = asyncio.run(_story(kafka))
        yield found
        for member in found.members:
            member.close()


def test_groups_are_what_they_were(story: Story) -> None:
    for asked, answer in story.before.items():
        assert plain(story.after[asked]) == plain(answer), asked


def test_members_have_noticed_nothing(story: Story) -> None:
    for member, before in zip(story.members, story.told_before, strict=True):
        assert member.told == before
        assert len(member.values) == len(set(member.values)) * 3 == member.committed() == story.read


def test_open_transactions_are_open_and_end_on_the_broker(story: Story) -> None:
    for taker in (story.taken_before, story.taken_after):
        pending = [key[1] for key in taker.records() if key[0] == ours.PENDING_TXN_OFFSET]
        assert sorted(pending) == [CLASSIC, "second-generation"]
    is_open = ErrorCode.unstable_offset_commit
    for group_id in (CLASSIC, "second-generation"):
        [group] = story.after[f"{group_id}, stable: True"]["groups"]
        rows = [row for topic in group["topics"] for row in topic["partitions"]]
        assert sum(row["error_code"] == is_open for row in rows) == 1
    [group] = story.ended["second-generation"]["groups"]
    rows = {row["partition_index"]: row["committed_offset"] for row in group["topics"][0]["partitions"]}
    assert rows == {0: 500, 1: 1, 2: 502}


def test_what_the_tier_does_not_know_is_back(story: Story) -> None:
    before, after = (each.state.from_kafka.foreign for each in (story.taken_before, story.taken_after))
    assert foreign_types(after) == foreign_types(before) == dict.fromkeys(range(10, 16), 1)
    for key, value in before.items():
        # Kafka goes on with what it has begun for a share group, on both sides of the way.
        assert after[key] == value or kind_of(key) == SHARE_PROGRESS


def test_the_last_markers_of_producers_are_back(story: Story) -> None:
    before, after = (each.state.producer_markers for each in (story.taken_before, story.taken_after))
    assert {key: value[:2] for key, value in after.items()} == {
        key: value[:2] for key, value in before.items()
    }


def test_kafkas_tools_show_the_groups(story: Story) -> None:
    for group_id in (CLASSIC, *CONSUMER, "simple"):
        assert group_id in story.tables["groups"]
    assert "isTransactional: true" in story.dumped
    assert "endTxnMarker: ABORT" in story.dumped
    assert f'"group":"{CLASSIC}"' in story.dumped
