"""Releases of Kafka in front of which no tier may stand are refused by name, before anything is changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from bench.peers.jars import fetch
from bench.peers.kafka_nodes import HOST, KafkaNodes
from cluster.cli import app
from cluster.groups.connection import run as with_kafka
from cluster.groups.properties import properties
from cluster.groups.requests import Committed, TopicPartition, commit
from cluster.tier_file import read
from tests.cluster.attaching.zookeeper import in_zookeeper
from tests.kafka import jvm
from tests.polling import until
from tests.upstream.kafka import create_topic, run, topics, wired

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

WAIT_S = 60.0
SETTINGS = {"offsets.topic.num.partitions": "4", "group.initial.rebalance.delay.ms": "0"}


@pytest.fixture(autouse=True)
def jars() -> None:
    if (reason := jvm.missing()) is not None:
        pytest.skip(reason)


def refused(directory: Path, broker: int, controller: int) -> tuple[Result, Result]:
    """What `groupd attach --plan` and `groupd up` say."""
    addresses = f"{HOST}:{broker}", f"{HOST}:{controller}"
    plan = ["attach", "--plan", "--bootstrap", addresses[0], "--controllers", addresses[1], "--json"]
    up = ["up", "--upstream", addresses[0], "--controllers", addresses[1], "--data-dir", str(directory)]
    return CliRunner().invoke(app, plan), CliRunner().invoke(app, up)


def brokers(port: int) -> list[int]:
    """The brokers that clients are told of."""
    found: list[int] = []

    async def looked() -> None:
        async with wired(HOST, port) as wire:
            answer = await wire.call("metadata", 4, topics=[], allow_auto_topic_creation=False)
            found.extend(row["node_id"] for row in answer["brokers"])

    run(looked())
    return found


def has_groups(port: int) -> None:
    """Have a group commit something."""
    until(lambda: brokers(port) == [1], "the broker is there", WAIT_S)

    async def made() -> None:
        async with wired(HOST, port) as wire:
            await create_topic(wire, "orders", 3)

    run(made())
    offsets = {TopicPartition("orders", number): Committed(number) for number in range(3)}
    with_kafka(properties(f"{HOST}:{port}", None), lambda kafka: commit(kafka, "billing", offsets))


def untouched(port: int) -> None:
    """Check that no broker and no topic has come."""

    async def looked() -> None:
        async with wired(HOST, port) as wire:
            assert set(await topics(wire)) == {"orders", "__consumer_offsets"}

    run(looked())
    assert brokers(port) == [1]


@pytest.mark.parametrize(("version", "name"), [("4.1.1", "4.1-IV1"), ("3.9.1", "3.9-IV0")])
def test_a_release_whose_brokers_cannot_cordon_is_refused(version: str, name: str, tmp_path: Path) -> None:
    nodes = KafkaNodes(1, SETTINGS, fetch(version), heap="512m")
    try:
        nodes.prepare()
        nodes.start()
        port = nodes.address(1)[1]
        has_groups(port)
        plan, up = refused(tmp_path, port, nodes.controller(1)[1])
        told = json.loads(plan.stdout)
        assert [(each["severity"], each["name"]) for each in told["obstacles"]] == [
            ("blocks", "metadata-version")
        ]
        assert plan.exit_code == 1
        assert f"metadata.version is {name}." in told["obstacles"][0]["what"]
        assert told["committed_offsets"] == {"offsets": 3, "groups": 1, "problem": None}
        assert f"metadata-version: metadata.version is {name}." in up.stderr
        assert (up.exit_code, read(tmp_path)) == (1, None)
        untouched(port)
    finally:
        nodes.stop()


def test_a_cluster_with_zookeeper_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kafka").mkdir()
    with in_zookeeper(fetch("3.9.1"), tmp_path / "kafka") as port:
        has_groups(port)
        plan, up = refused(tmp_path / "tier", port, port)
        told = json.loads(plan.stdout)
        assert [(each["severity"], each["name"]) for each in told["obstacles"]] == [("blocks", "not-kraft")]
        assert plan.exit_code == 1
        assert "not-kraft: The brokers know of no quorum of controllers" in up.stderr
        assert (up.exit_code, read(tmp_path / "tier")) == (1, None)
        untouched(port)
