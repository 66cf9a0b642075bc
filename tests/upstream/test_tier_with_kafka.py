"""A real tier in front of a real Kafka: its nodes are brokers there, for clients and for Kafka's tools."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from typer.testing import CliRunner

from actors.upstream.controllers import words
from actors.upstream.image import GROUP_RESOURCE
from bench.ground.throwaway import Tier
from bench.peers.kafka_nodes import CLUSTER_ID, HOST, KafkaNodes
from cluster import child_process
from cluster.cli import app
from cluster.tier_file import read
from storage.history.segments.folder import Folder
from tests.history.read_back import read_all
from tests.kafka import jvm
from tests.kafka.tools import CONFIGS, FEATURES, LOG_DIRS, VERSIONS, Tools
from tests.polling import until
from tests.tier.consumers import Reader, produce
from tests.upstream.conftest import started
from tests.upstream.kafka import set_configs, wired
from tests.upstream.offsets_log.cast import until as poll

pytestmark = [pytest.mark.kafka, pytest.mark.clients, pytest.mark.timeout(600)]

ANSWER_S = 30.0
ATTACHED_S = 120.0
SHUT_DOWN_MAX_S = 15.0
"""Kafka waits for 40 s and more if somebody has not read the metadata."""
QUICK_SAMPLES = ("--set=history.lag.interval.ms=300", "--set=history.segment.ms=200")


class InFront(NamedTuple):
    """A tier that is attached, and how it was before."""

    kafka: KafkaNodes
    tier: Tier
    before: dict[str, Any]
    brokers_before: set[int]
    admin: AdminClient
    """A client that was told of the tier's first node alone."""

    def upstream(self) -> list[dict[str, Any]]:
        """What each node is to the cluster."""
        return [node["upstream"] or {} for node in self.tier.status()["nodes"]]


def in_front_of(kafka: KafkaNodes, nodes: int) -> Iterator[InFront]:
    brokers, controllers = (
        ",".join(words(address(number)) for number in kafka.numbers)
        for address in (kafka.address, kafka.controller)
    )
    size = ("--nodes", str(nodes), "--replicas", str(nodes))
    cluster = ("--upstream", brokers, "--controllers", controllers)
    with Tier(*size, *cluster, *QUICK_SAMPLES, nodes=nodes) as tier:
        before, brokers_before = tier.status(), told_brokers(address_of(kafka, 1))
        tier.run("attach")
        found = InFront(kafka, tier, before, brokers_before, admin_of(tier.bootstrap))
        until(lambda: all(each.get("state") == "running" for each in found.upstream()), "all are brokers")
        yield found


@pytest.fixture(scope="module")
def one(kafka: KafkaNodes) -> Iterator[InFront]:
    """A tier of one node in front of one broker."""
    yield from in_front_of(kafka, 1)


@pytest.fixture(scope="module")
def many(version: str) -> Iterator[InFront]:
    """A tier of three nodes in front of three brokers."""
    for kafka in started(version, 3, {"offsets.topic.num.partitions": "2"}):
        yield from in_front_of(kafka, 3)


def address_of(kafka: KafkaNodes, number: int) -> str:
    return words(kafka.address(number))


def admin_of(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def told_brokers(bootstrap: str) -> set[int]:
    return set(admin_of(bootstrap).list_topics(timeout=ANSWER_S).brokers)


def told_soon(bootstrap: str, expected: set[int]) -> None:
    until(lambda: told_brokers(bootstrap) == expected, f"{bootstrap} tells of {sorted(expected)}")


def test_a_node_is_a_broker_from_the_attach_on(one: InFront) -> None:
    (before,) = [node["upstream"] for node in one.before["nodes"]]
    assert (before["state"], before["goal"], one.brokers_before) == ("not registered", 0, {1})
    assert told_brokers(address_of(one.kafka, 1)) == told_brokers(one.tier.bootstrap) == {1, 1001}
    assert f"In front of {CLUSTER_ID}: attached; node 1 as broker 1001 (running)" in one.tier.run("status")


def test_what_is_sent_to_a_node_is_carried_out_by_the_cluster(one: InFront) -> None:
    one.admin.create_topics([NewTopic("carried-out", 5, 1)])["carried-out"].result(ANSWER_S)
    for bootstrap in (one.tier.bootstrap, address_of(one.kafka, 1)):
        topics = admin_of(bootstrap).list_topics(timeout=ANSWER_S).topics
        assert [each.leader for each in topics["carried-out"].partitions.values()] == [1] * 5
    cluster = one.admin.describe_cluster().result(ANSWER_S)
    assert (cluster.cluster_id, {node.id for node in cluster.nodes}) == (CLUSTER_ID, {1, 1001})
    one.admin.delete_topics(["carried-out"])["carried-out"].result(ANSWER_S)


def test_every_broker_tells_its_own_configs(one: InFront) -> None:
    for broker_id in ("1", "1001"):
        asked = ConfigResource(ResourceType.BROKER, broker_id)
        told = one.admin.describe_configs([asked])[asked].result(ANSWER_S)
        assert told["node.id"].value == broker_id


def test_kafkas_tools_take_a_node_for_a_broker(one: InFront) -> None:
    with Tools(jvm.build_tools(), one.tier.bootstrap) as tools:
        versions = tools.run(VERSIONS)
        for address in (address_of(one.kafka, 1), one.tier.bootstrap):
            assert f"{address} (id: " in versions
        assert "(id: 1001 " in versions
        assert '"broker":1001' in tools.run(LOG_DIRS, "--describe", "--broker-list", "1001")
        assert "node.id=1001" in tools.run(
            CONFIGS, "--entity-type", "brokers", "--entity-name", "1001", "--describe", "--all"
        )
        assert "metadata.version" in tools.run(FEATURES, "describe")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_are_coordinated_by_the_node_and_read_from_the_broker(one: InFront, protocol: str) -> None:
    topic = f"read-{protocol}"
    one.admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(ANSWER_S)
    produce(one.tier.bootstrap, topic, 30, partitions=3)
    reader = Reader(one.tier.bootstrap, topic, f"group-{protocol}", **{"group.protocol": protocol})
    reader.start()
    until(lambda: len(reader.seen) == 30, "all records are read")
    reader.stop()
    (group,) = one.admin.describe_consumer_groups([f"group-{protocol}"]).values()
    assert group.result(ANSWER_S).coordinator.id == 1001


@pytest.mark.parametrize("commits", [True, False])
def test_offsets_in_transactions_are_those_of_transactions_that_commit(one: InFront, commits: bool) -> None:
    """A client of librdkafka's tells the coordinator of its transaction first: the node has it verified."""
    topic, admin = f"transacted-{commits}".lower(), one.admin
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(ANSWER_S)
    bootstrap = {"bootstrap.servers": one.tier.bootstrap}
    consumer = Consumer(bootstrap | {"group.id": topic, "isolation.level": "read_committed"})
    producer = Producer(bootstrap | {"transactional.id": topic})
    producer.init_transactions(ANSWER_S)
    producer.begin_transaction()
    at = TopicPartition(topic, 0, 17)
    producer.send_offsets_to_transaction([at], consumer.consumer_group_metadata(), ANSWER_S)
    (producer.commit_transaction if commits else producer.abort_transaction)(ANSWER_S)
    expected = 17 if commits else OFFSET_INVALID
    until(lambda: _committed(consumer, topic) == expected, "the marker has come")
    consumer.close()


def _committed(consumer: Consumer, topic: str) -> int:
    (found,) = consumer.committed([TopicPartition(topic, 0)], ANSWER_S)
    return int(found.offset)


@pytest.mark.parametrize("commits", [True, False])
def test_a_node_adds_its_partition_to_a_transaction_itself(one: InFront, commits: bool) -> None:
    """Transactions of the second generation (KIP-890): the client tells nobody but the group's
    coordinator."""
    topic, admin = f"added-{commits}".lower(), one.admin
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(ANSWER_S)

    async def story() -> None:
        async with wired(HOST, one.kafka.address(1)[1]) as broker, wired(HOST, one.tier.port) as node:
            made = await poll(
                lambda: broker.call(
                    "init_producer_id",
                    5,
                    transactional_id=topic,
                    transaction_timeout=60_000,
                    producer_id=-1,
                    producer_epoch=-1,
                ),
                lambda answer: not answer["error_code"],
            )
            who = {"transactional_id": topic}
            who |= {name: made[name] for name in ("producer_id", "producer_epoch")}
            offset = {"partition_index": 0, "committed_offset": 17}
            offset |= {"committed_leader_epoch": -1, "committed_metadata": ""}
            await poll(
                lambda: node.call(
                    "txn_offset_commit",
                    5,
                    group_id=topic,
                    **who,
                    generation_id=-1,
                    member_id="",
                    group_instance_id=None,
                    topics=[{"name": topic, "partitions": [offset]}],
                ),
                lambda answer: not answer["topics"][0]["partitions"][0]["error_code"],
            )
            ended = await broker.call("end_txn", 5, **who, committed=commits)
            assert not ended["error_code"], ended
            group = {"group_id": topic, "member_id": None, "member_epoch": -1, "topics": None}
            told = await poll(
                lambda: node.call("offset_fetch", 9, groups=[group], require_stable=True),
                lambda answer: not answer["groups"][0]["error_code"] and _is_stable(answer),
            )
            offsets = [
                row["committed_offset"]
                for each in told["groups"][0]["topics"]
                for row in each["partitions"]
                if row["committed_offset"] >= 0
            ]
            assert offsets == ([17] if commits else [])

    asyncio.run(story())


def _is_stable(answer: dict[str, Any]) -> bool:
    return not any(
        row["error_code"] for topic in answer["groups"][0]["topics"] for row in topic["partitions"]
    )


def test_a_groups_configs_reach_its_coordinator(one: InFront) -> None:
    """KIP-848: a group's own heartbeat interval, set at the cluster, is what the node tells a member."""

    async def story() -> None:
        async with wired(HOST, one.kafka.address(1)[1]) as broker, wired(HOST, one.tier.port) as node:
            await set_configs(broker, GROUP_RESOURCE, "configured", consumer_heartbeat_interval_ms="7000")
            end = time.monotonic() + ANSWER_S
            while (told := await _joined(node)) != 7_000:
                assert time.monotonic() < end, told

    asyncio.run(story())


async def _joined(node: Any) -> int:
    answer = await node.call(
        "consumer_group_heartbeat",
        1,
        group_id="configured",
        member_id="qTw0Ls1uTDmIvLb_3xvGHw",
        member_epoch=0,
        instance_id=None,
        rack_id=None,
        rebalance_timeout=60_000,
        subscribed_topic_names=["nothing"],
        subscribed_topic_regex=None,
        server_assignor=None,
        topic_partitions=[],
    )
    assert not answer["error_code"], answer
    return int(answer["heartbeat_interval"])


def test_lag_is_that_of_the_brokers_logs(one: InFront) -> None:
    """Ten records in each partition, of which the group has committed as many as the partition's number."""
    one.admin.create_topics([NewTopic("lagging", 3, 1)])["lagging"].result(ANSWER_S)
    produce(one.tier.bootstrap, "lagging", 30, partitions=3)
    committed = [TopicPartition("lagging", number, number) for number in range(3)]
    wanted = [ConsumerGroupTopicPartitions("late", committed)]
    one.admin.alter_consumer_group_offsets(wanted)["late"].result(ANSWER_S)
    until(lambda: sampled_lag(one.tier, "late") == {0: 10, 1: 9, 2: 8}, "the lag is told")


def test_a_swarm_keeps_its_promises_and_its_groups_explain_themselves(one: InFront, tmp_path: Path) -> None:
    scenario = ("swarm", "run", "steady", "--members", "12", "--seconds", "15", "--seed", "1")
    where = ("--bootstrap", address_of(one.kafka, 1), "--out", str(tmp_path / "swarm"))
    command = child_process.python("cluster.cli", *scenario, *where)
    swarm = subprocess.run(
        command, env=child_process.environment(), capture_output=True, text=True, timeout=ANSWER_S * 4
    )
    assert swarm.returncode == 0, swarm.stdout + swarm.stderr
    told = json.loads(one.tier.run("top", "--once", "--json", "--by", "commits"))
    group = next(each["group_id"] for each in told if each["group_id"].startswith("swarm-"))
    assert "Coordinator: node 1, offsets partition" in one.tier.run("explain", group)
    happened = {"member_joined", "rebalance_ended", "commits"}
    until(lambda: happened <= kinds_told(one.tier, group), "history has what happened")


def kinds_told(tier: Tier, group: str) -> set[str]:
    """The kinds of events that history has of a group."""
    table, _ = read_all(Folder(str(tier.data_dir / "history")), columns=["kind", "group_id"])
    return {row["kind"] for row in table.to_pylist() if row["group_id"] == group}


def sampled_lag(tier: Tier, group: str) -> dict[int, int]:
    """Partition -> the lag that was told of it."""
    columns = ["kind", "group_id", "partition", "lag"]
    table, _ = read_all(Folder(str(tier.data_dir / "history")), columns=columns)
    rows = (row for row in table.to_pylist() if (row["kind"], row["group_id"]) == ("lag", group))
    return {row["partition"]: row["lag"] for row in rows}


def test_what_is_placed_on_a_node_by_mistake_is_moved_to_the_brokers(one: InFront, version: str) -> None:
    """Later releases than 4.3 refuse such assignments, because the node's directory is cordoned."""
    new = NewTopic("misplaced", 1, replica_assignment=[[1001, 1]])
    created = one.admin.create_topics([new])["misplaced"]
    if version != "4.3.1":
        with pytest.raises(KafkaException, match="cordoned"):
            created.result(ANSWER_S)
        return
    created.result(ANSWER_S)

    def replicas() -> list[int]:
        (partition,) = one.admin.list_topics("misplaced", ANSWER_S).topics["misplaced"].partitions.values()
        found: list[int] = partition.replicas
        return found

    until(lambda: replicas() == [1], "the broker alone has it")
    produce(one.tier.bootstrap, "misplaced", 5, partitions=1)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--set=upstream.first.broker.id=1",), "id-taken: Id 1 belongs to"),
        (("--set=upstream.first.broker.id=2001",), "second-tier: Broker 1001 is of a tier"),
        (("--set=upstream.listener.name=OTHER",), "listener-missing: The brokers have a listener PLAINTEXT"),
    ],
    ids=["id", "second tier", "listener"],
)
def test_a_cluster_that_is_not_to_be_stood_in_front_of_is_refused_by_name(
    one: InFront, tmp_path: Path, flags: tuple[str, ...], said: str
) -> None:
    cluster = ("--upstream", address_of(one.kafka, 1), "--controllers", words(one.kafka.controller(1)))
    refused = CliRunner().invoke(app, ["up", *cluster, *flags, "--data-dir", str(tmp_path)])
    assert refused.exit_code == 1, refused.output
    assert said in refused.stderr
    assert read(tmp_path) is None
    assert told_brokers(address_of(one.kafka, 1)) == {1, 1001}


def test_a_node_that_dies_is_the_same_broker_again(one: InFront) -> None:
    (before,) = one.upstream()
    (broker,) = one.tier.brokers()
    os.kill(broker["pid"], signal.SIGKILL)

    def is_back() -> bool:
        brokers = one.tier.brokers()
        return [each.get("state") for each in one.upstream()] == ["running"] and bool(
            brokers and brokers[0]["pid"] != broker["pid"]
        )

    until(is_back, "the node is a broker again")
    assert one.upstream()[0]["broker_epoch"] == before["broker_epoch"]
    assert told_brokers(one.tier.bootstrap) == {1, 1001}


def test_a_tier_that_starts_again_knows_its_cluster(one: InFront) -> None:
    (before,) = one.upstream()
    with pytest.raises(RuntimeError, match=r"have no coordinator while it is down: .*groupd detach"):
        one.tier.run("down")
    one.tier.run("down", "--force")
    kept = read(one.tier.data_dir)
    assert kept is not None
    assert kept.upstream is not None
    assert (kept.upstream.cluster_id, kept.upstream.broker_id(1)) == (CLUSTER_ID, 1001)
    with pytest.raises(RuntimeError, match="cannot change to 2001"):
        one.tier.run("up", "--set", "upstream.first.broker.id=2001")
    one.tier.run("up", "--detach", "--port", str(one.tier.port))
    until(lambda: [each.get("state") for each in one.upstream()] == ["running"], "it is a broker again")
    assert one.upstream()[0]["broker_epoch"] > before["broker_epoch"]

    def leaders() -> set[int]:
        told = json.loads(one.tier.run("attach", "status", "--json"))
        return {row["leader"] for row in told["partitions"]}

    until(lambda: leaders() == {1001}, "it leads again what it led")


def test_three_nodes_are_brokers_and_one_of_the_clusters_own_may_go(many: InFront) -> None:
    """Nodes read the metadata in time, so that no broker's shutdown waits for them; and they ask another
    broker when the one that they ask has gone."""
    nodes = {1001, 1002, 1003}
    assert told_brokers(address_of(many.kafka, 1)) == {1, 2, 3} | nodes
    bootstraps = [f"{HOST}:{many.tier.port + number}" for number in range(3)]
    for number in many.kafka.numbers:
        process, began = many.kafka.process(number), time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.wait(SHUT_DOWN_MAX_S)
        assert time.monotonic() - began < SHUT_DOWN_MAX_S
        for bootstrap in bootstraps:
            told_soon(bootstrap, {1, 2, 3} - {number} | nodes)
        many.kafka.launch(number)
        many.kafka.wait_until_it_listens(number)
        told_soon(bootstraps[0], {1, 2, 3} | nodes)
    assert [each["state"] for each in many.upstream()] == ["running"] * 3
