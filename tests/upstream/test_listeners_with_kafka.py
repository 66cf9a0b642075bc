"""A real tier in front of a real Kafka whose brokers reach each other by another listener than clients reach
them, in another protocol."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewTopic
from typer.testing import CliRunner

from actors.upstream.controllers import words
from bench.ground.reference import KAFKA_VERSION
from bench.ground.throwaway import Tier
from bench.peers.kafka_nodes import HOST
from cluster.cli import app
from cluster.ports import free_ports
from tests.authority import Authority
from tests.kafka import jvm
from tests.polling import until
from tests.upstream.conftest import SETTINGS
from tests.upstream.secured import ADMIN, EVERY_RIGHT, INTERNAL, LISTENER, Administrator, SecuredNodes

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

TOPIC, GROUP = "orders", "team"
WAIT_S: Final = 30.0
FIRST: Final = 1001


class Site(NamedTuple):
    """Brokers with two listeners, and a node with two ports."""

    kafka: SecuredNodes
    tier: Tier

    def ports(self, *, is_internal: bool) -> dict[int, int]:
        """Where broker and node listen, by their ids."""
        if is_internal:
            return {1: self.kafka.address(1)[1], FIRST: self.tier.port + 1}
        return {1: self.kafka.at(1)[1], FIRST: self.tier.port}


@pytest.fixture(scope="module")
def kafka(authority: Authority) -> Iterator[SecuredNodes]:
    """A broker at which clients speak TLS, and brokers do not."""
    if (reason := jvm.missing()) is not None:
        pytest.skip(reason)
    home = jvm.build(kafka_version=KAFKA_VERSION)
    settings = {**SETTINGS, "offsets.topic.num.partitions": "2"}
    nodes = SecuredNodes(1, settings, home, heap="512m", authority=authority, has_internal=True)
    try:
        nodes.prepare()
        nodes.start()
        admin = Administrator(nodes)
        until(admin.is_let_in, "the cluster lets its administrator in")
        admin.give_rights(EVERY_RIGHT)
        admin.client.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(WAIT_S)
        yield nodes
    finally:
        nodes.stop()


@pytest.fixture(scope="module")
def site(kafka: SecuredNodes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A tier that is attached, with a second port for the brokers' listener."""
    port = free_ports(2)
    flags = (
        *("--nodes", "1", "--replicas", "1"),
        *("--upstream", words(kafka.at(1)), "--controllers", words(kafka.controller(1))),
        *kafka.tier_flags(tmp_path_factory.mktemp("logins")),
        *("--set", f"upstream.other.listener.names={INTERNAL}", "--set", f"upstream.other.port={port + 1}"),
    )
    with Tier(*flags, port=port) as tier:
        tier.run("attach")
        yield Site(kafka, tier)


def named(kafka: SecuredNodes, directory: Path, listeners: str) -> set[str]:
    """What `groupd attach --plan` says that blocks."""
    brokers, controllers = kafka.write_logins(directory)
    asked = ("--bootstrap", words(kafka.at(1)), "--controllers", words(kafka.controller(1)))
    logins = ("--command-config", str(brokers), "--controllers-config", str(controllers))
    told = CliRunner().invoke(app, ["attach", "--plan", *asked, *logins, "--listeners", listeners, "--json"])
    return {each["name"] for each in json.loads(told.stdout)["obstacles"] if each["severity"] == "blocks"}


def test_the_plan_names_listeners_that_one_port_cannot_have(kafka: SecuredNodes, tmp_path: Path) -> None:
    one, other = f"{LISTENER}://{HOST}:9092", f"{INTERNAL}://{HOST}"
    assert named(kafka, tmp_path, one) == {"listener-missing"}
    assert named(kafka, tmp_path, f"{one},{other}:9092") == {"listener-protocol"}
    assert named(kafka, tmp_path, f"{one},{other}:9093") == set()


@pytest.mark.parametrize("is_internal", [False, True], ids=["clients", "brokers"])
def test_each_listener_leads_to_its_own_ports(site: Site, is_internal: bool) -> None:
    """Broker and node tell the same, of brokers and of coordinators."""
    ports = site.ports(is_internal=is_internal)

    async def told(port: int) -> tuple[Any, ...]:
        async with site.kafka.wired_as(ADMIN, (HOST, port), is_internal=is_internal) as wire:
            metadata = await wire.call(
                "metadata",
                12,
                topics=[],
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=False,
            )
            cluster = await wire.call(
                "describe_cluster", 1, include_cluster_authorized_operations=False, endpoint_type=1
            )
            new = await wire.call("find_coordinator", 4, key_type=0, coordinator_keys=[GROUP])
            old = await wire.call("find_coordinator", 3, key=GROUP, key_type=0)
        return (
            {row["node_id"]: row["port"] for row in metadata["brokers"]},
            {row["broker_id"]: row["port"] for row in cluster["brokers"]},
            *((row["node_id"], row["port"]) for row in (new["coordinators"][0], old)),
        )

    coordinator = (FIRST, ports[FIRST])
    for port in ports.values():
        assert asyncio.run(told(port)) == (ports, ports, coordinator, coordinator)


def committed(site: Site, offset: int, *, is_internal: bool) -> int:
    """What is read by a listener after it was committed there."""
    client = site.kafka.client_of(f"{HOST}:{site.ports(is_internal=is_internal)[1]}", ADMIN)
    if is_internal:
        client["security.protocol"] = "SASL_PLAINTEXT"
    consumer = Consumer({**client, "group.id": GROUP, "enable.auto.commit": False})
    try:
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
        return int(consumer.committed([TopicPartition(TOPIC, 0)], WAIT_S)[0].offset)
    finally:
        consumer.close()


def test_groups_are_served_by_both_and_go_back_by_that_of_brokers(site: Site) -> None:
    """A broker follows the node by its own listener, where it speaks no TLS."""
    assert committed(site, 3, is_internal=False) == 3
    assert committed(site, 4, is_internal=True) == 4
    site.tier.run("detach")
    consumer = Consumer({**site.kafka.client_of(words(site.kafka.at(1)), ADMIN), "group.id": GROUP})
    assert consumer.committed([TopicPartition(TOPIC, 0)], WAIT_S)[0].offset == 4
    consumer.close()
