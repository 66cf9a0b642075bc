"""`groupd attach --plan` in front of a real Kafka: what it says, how it ends, and that it touches nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from click.testing import Result
from typer.testing import CliRunner

from actors.network.wire import Wire
from bench.peers.kafka_nodes import KafkaNodes
from cluster.cli import app
from cluster.groups.connection import run as with_kafka
from cluster.groups.properties import properties
from cluster.groups.requests import Committed, TopicPartition, commit
from cluster.tier_file import read
from tests.kafka import jvm
from tests.oracle.broker import KafkaBroker
from tests.polling import until
from tests.upstream.kafka import ACLS, SMALL, connector, create_topic, run, topics
from tests.upstream.test_following_kafka import SECURED, login

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    if (reason := jvm.missing()) is not None:
        pytest.skip(reason)
    with KafkaBroker(SMALL) as running:
        yield running


@pytest.fixture
def fresh() -> Iterator[KafkaBroker]:
    """A broker that has never had a group."""
    if (reason := jvm.missing()) is not None:
        pytest.skip(reason)
    with KafkaBroker(SMALL) as running:
        yield running


def attach(broker: KafkaBroker, *further: str) -> Result:
    arguments = ("--bootstrap", broker.bootstrap, "--controllers", f"127.0.0.1:{broker.port + 1}", *further)
    return CliRunner().invoke(app, ["attach", "--plan", *arguments])


def names(result: Result) -> set[tuple[str, str]]:
    return {(each["severity"], each["name"]) for each in json.loads(result.stdout)["obstacles"]}


def all_topics(broker: KafkaBroker) -> set[str]:
    found: set[str] = set()

    async def story() -> None:
        wire = await Wire.connect("127.0.0.1", broker.port)
        found.update(await topics(wire))
        await wire.close()

    run(story())
    return found


def test_a_fresh_cluster_is_not_touched(fresh: KafkaBroker) -> None:
    planned = attach(fresh)
    assert planned.exit_code == 0, planned.output
    assert "none yet: the tier will make __consumer_offsets with 4" in planned.stdout
    assert planned.stdout.splitlines()[-1] == "Nothing blocks."
    assert all_topics(fresh) == set()


def commit_offsets(broker: KafkaBroker, group: str, count: int) -> None:
    offsets = {TopicPartition("orders", number): Committed(number) for number in range(count)}
    with_kafka(properties(broker.bootstrap, None), lambda kafka: commit(kafka, group, offsets))


def with_wire(broker: KafkaBroker, story: Any) -> None:
    async def connected() -> None:
        wire = await Wire.connect("127.0.0.1", broker.port)
        await story(wire)
        await wire.close()

    run(connected())


def test_groups_and_their_offsets_are_counted(broker: KafkaBroker) -> None:
    with_wire(broker, lambda wire: create_topic(wire, "orders", 12))
    commit_offsets(broker, "billing", 12)
    commit_offsets(broker, "shipping", 3)
    planned = attach(broker)
    assert planned.exit_code == 0, planned.output
    assert "15 of 2 groups" in planned.stdout
    assert "2 classic (2 Empty)" in planned.stdout
    shown = json.loads(attach(broker, "--json").stdout)
    assert (shown["blocked"], shown["offsets_partitions"], shown["brokers"]) == (False, 4, [1])
    assert shown["committed_offsets"] == {"offsets": 15, "groups": 2, "problem": None}
    assert shown["features"]["metadata.version"] == 33


def test_the_id_of_the_broker_is_taken(broker: KafkaBroker) -> None:
    planned = attach(broker, "--first-id", "1", "--json")
    assert (planned.exit_code, names(planned)) == (1, {("blocks", "id-taken")})


def test_listeners_of_other_names(broker: KafkaBroker) -> None:
    planned = attach(broker, "--listeners", "CLIENTS://groups:9092", "--json")
    expected = {("blocks", "listener-missing"), ("blocks", "listener-unknown")}
    assert (planned.exit_code, names(planned)) == (1, expected)


def test_a_share_group_is_in_the_way(broker: KafkaBroker) -> None:
    async def join(wire: Wire) -> None:
        answer = await wire.call(
            "share_group_heartbeat",
            1,
            group_id="sharing",
            member_id="qTw0Ls1uTDmIvLb_3xvGHw",
            member_epoch=0,
            rack_id=None,
            subscribed_topic_names=["orders"],
        )
        assert not answer["error_code"], answer

    commit_offsets(broker, "billing", 1)  # the offsets topic has to be there
    with_wire(broker, join)
    planned = until(lambda: (found := attach(broker, "--json")).exit_code == 1 and found, "the share group")
    assert names(planned) == {("blocks", "share-groups")}
    assert "sharing" in planned.stdout


def test_a_second_tier_is_recognized(fresh: KafkaBroker) -> None:
    levels = (
        ("metadata.version", 1, 99),
        ("groupd.version", 0, 2),
        *(
            (f"{name}.version", 0, 9)
            for name in ("group", "transaction", "share", "streams", "eligible.leader.replicas", "kraft")
        ),
    )

    async def register() -> None:
        wire, _ = await connector()(("127.0.0.1", fresh.port + 1))
        described = await wire.call(
            "describe_cluster", 1, include_cluster_authorized_operations=False, endpoint_type=2
        )
        answer = await wire.call(
            "broker_registration",
            4,
            broker_id=1002,
            cluster_id=described["cluster_id"],
            incarnation_id=UUID(int=5),
            listeners=[{"name": "PLAINTEXT", "host": "127.0.0.1", "port": 9, "security_protocol": 0}],
            features=[
                {"name": name, "min_supported_version": least, "max_supported_version": most}
                for name, least, most in levels
            ],
            rack=None,
            is_migrating_zk_broker=False,
            log_dirs=[UUID(int=7 << 64)],
            previous_broker_epoch=-1,
        )
        assert not answer["error_code"], answer
        await wire.close()

    run(register())
    planned = attach(fresh, "--json")
    assert (planned.exit_code, names(planned)) == (1, {("blocks", "id-taken"), ("blocks", "second-tier")})
    assert names(attach(fresh, "--first-id", "2001", "--json")) == {("blocks", "second-tier")}


def test_partitions_that_are_not_as_many_as_the_brokers_config_says(
    fresh: KafkaBroker, tmp_path: Any
) -> None:
    """Somebody has made the topic by hand: the broker would send clients elsewhere after its next start."""
    with_wire(fresh, lambda wire: create_topic(wire, "__consumer_offsets", 3, cleanup_policy="compact"))
    planned = attach(fresh, "--json")
    assert (planned.exit_code, names(planned)) == (1, {("blocks", "offsets-partitions")})
    cluster = ("--upstream", fresh.bootstrap, "--controllers", f"127.0.0.1:{fresh.port + 1}")
    refused = CliRunner().invoke(app, ["up", *cluster, "--data-dir", str(tmp_path)])
    assert refused.exit_code == 1
    assert "offsets-partitions: offsets.topic.num.partitions is 4 on broker 1" in refused.stderr
    assert read(tmp_path) is None


def test_controllers_of_another_cluster(broker: KafkaBroker) -> None:
    other = KafkaNodes(1, SMALL, heap="384m")
    try:
        other.prepare()
        other.start()
        host, port = other.controller(1)
        arguments = ("--bootstrap", broker.bootstrap, "--controllers", f"{host}:{port}", "--json")
        planned = CliRunner().invoke(app, ["attach", "--plan", *arguments])
    finally:
        other.stop()
    assert (planned.exit_code, names(planned)) == (1, {("blocks", "other-cluster")})


def test_a_user_without_rights(tmp_path: Any) -> None:
    if (reason := jvm.missing()) is not None:
        pytest.skip(reason)

    def asked(broker: KafkaBroker, user: str) -> Result:
        file = tmp_path / f"{user}.properties"
        told = login(user).librdkafka()
        told.pop("bootstrap.servers")
        file.write_text("".join(f"{name}={value}\n" for name, value in told.items()))
        listeners = ("--listeners", "SASL_PLAINTEXT://groups:9092")
        return attach(broker, "--command-config", str(file), *listeners, "--json")

    with KafkaBroker({**SMALL, **ACLS, **SECURED, "super.users": "User:admin"}) as broker:
        allowed, refused = asked(broker, "admin"), asked(broker, "alice")
    assert (allowed.exit_code, names(allowed)) == (0, set()), allowed.output
    assert refused.exit_code == 1, refused.output
    assert names(refused) >= {("blocks", "right-missing"), ("blocks", "metadata-log")}
    told = json.loads(refused.stdout)["obstacles"]
    missing = [each["what"].split()[4] for each in told if each["name"] == "right-missing"]
    assert sorted(missing) == ["ALTER", "CLUSTER_ACTION", "DESCRIBE"]
    assert ("warns", "not-seen") in names(refused)


def test_controllers_that_are_brokers_are_no_answer(broker: KafkaBroker) -> None:
    arguments = ("--bootstrap", broker.bootstrap, "--controllers", broker.bootstrap)
    planned = CliRunner().invoke(app, ["attach", "--plan", *arguments])
    assert planned.exit_code == 2
    assert "no KRaft controller: name a listener of controller.listener.names" in planned.stderr
