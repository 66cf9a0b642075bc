"""The followed image beside the answers of a real Kafka, whatever happens to its topics, users and
controllers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from actors.network.wire import Wire
from actors.security.scram import MECHANISM_NUMBERS
from actors.upstream.controllers import CannotFollow, Elsewhere, NotAllowed, find_active
from actors.upstream.following import Follower
from actors.upstream.image import BROKER_RESOURCE, EVERY_BROKER, GROUP_RESOURCE, TOPIC_RESOURCE, ClusterImage
from bench.peers.kafka_nodes import KafkaNodes
from cluster.groups.properties import ClientProperties
from cluster.ports import free_ports
from tests.kafka import jvm
from tests.oracle.broker import KafkaBroker
from tests.polling import DEADLINE_S, reached
from tests.upstream.apart import BROKER_ID, CONTROLLER_ID, KafkaApart
from tests.upstream.kafka import (
    ACLS,
    SMALL,
    acls,
    asked,
    connector,
    create_topic,
    own_configs,
    quotas,
    run,
    scram_users,
    set_configs,
    topics,
    wired,
)

pytestmark = pytest.mark.kafka
SNAPSHOT_BYTES = 8_000
"""After how many bytes of records the controller writes a snapshot: after a few dozen topics."""


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    """One node, broker and controller, that writes snapshots often."""
    if (reason := jvm.missing()) is not None:
        pytest.skip(reason)
    often = {"metadata.log.max.record.bytes.between.snapshots": str(SNAPSHOT_BYTES)}
    with KafkaBroker({**SMALL, **ACLS, **often}) as running:
        yield running


def controller(broker: KafkaBroker) -> tuple[str, int]:
    return ("127.0.0.1", broker.port + 1)


@asynccontextmanager
async def following(*controllers: tuple[str, int]) -> AsyncIterator[Follower]:
    """A follower that runs, and has read the log once."""
    follower = Follower(connector(), controllers)
    task = asyncio.create_task(follower.run())
    try:
        await reached(lambda: follower.image is not None, "the first image")
        yield follower
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def a_story(wire: Wire) -> None:
    """Create, alter and delete something of each kind that the image has."""
    for number in range(6):
        await create_topic(wire, f"story-{number}", 1 + number, retention_ms="60000")
    await set_configs(wire, TOPIC_RESOURCE, "story-1", cleanup_policy="compact", retention_ms=None)
    await set_configs(wire, BROKER_RESOURCE, "1", log_retention_ms="1234567")
    await set_configs(wire, BROKER_RESOURCE, EVERY_BROKER, message_max_bytes="2000000")
    await set_configs(wire, GROUP_RESOURCE, "story", consumer_session_timeout_ms="50000")
    more = [{"name": "story-2", "count": 9, "assignments": None}]
    await wire.call("create_partitions", 3, topics=more, timeout=10_000, validate_only=False)
    gone = [{"name": f"story-{number}", "topic_id": None} for number in (4, 5)]
    await wire.call("delete_topics", 6, topics=gone, timeout=10_000)

    rules = [_rule("alice", 3), _rule("alice", 4), _rule("bob", 3)]
    await wire.call("create_acls", 3, creations=rules)
    await wire.call("delete_acls", 3, filters=[_filter(rules[1])])
    await _quota(wire, ("user", "alice"), ("client-id", None), producer_byte_rate=1_000.0)
    await _quota(wire, ("user", None), request_percentage=50.0, consumer_byte_rate=5_000.0)
    await _quota(wire, ("user", None), consumer_byte_rate=None)
    users = [_user("alice", "SCRAM-SHA-256"), _user("alice", "SCRAM-SHA-512"), _user("bob", "SCRAM-SHA-512")]
    alter = ("alter_user_scram_credentials", 0)
    await wire.call(*alter, deletions=[], upsertions=users)
    await wire.call(*alter, deletions=[{"name": "alice", "mechanism": 1}], upsertions=[])


def _rule(user: str, operation: int) -> dict[str, Any]:
    return {
        "resource_type": 2,
        "resource_name": "story",
        "resource_pattern_type": 4,
        "principal": f"User:{user}",
        "host": "*",
        "operation": operation,
        "permission_type": 3,
    }


def _filter(rule: dict[str, Any]) -> dict[str, Any]:
    named = {"resource_name": "resource_name_filter", "principal": "principal_filter", "host": "host_filter"}
    named |= {"resource_type": "resource_type_filter", "resource_pattern_type": "pattern_type_filter"}
    return {named.get(name, name): value for name, value in rule.items()}


def _user(name: str, mechanism: str) -> dict[str, Any]:
    salted = name.encode() * 8
    return {
        "name": name,
        "mechanism": MECHANISM_NUMBERS[mechanism],
        "iterations": 4096,
        "salt": salted,
        "salted_password": salted,
    }


async def _quota(wire: Wire, *entity: tuple[str, str | None], **values: float | None) -> None:
    entry = {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
        "ops": [
            {"key": key, "value": value or 0.0, "remove": value is None} for key, value in values.items()
        ],
    }
    answer = await wire.call("alter_client_quotas", 1, entries=[entry], validate_only=False)
    assert not answer["entries"][0]["error_code"], answer


async def assert_same(wire: Wire, image: ClusterImage) -> None:
    """Hold the image against what the broker says, once the broker is as far as the image."""
    ours = {
        topic.name: (
            UUID(bytes=topic.topic_id),
            {
                number: (each.leader, each.leader_epoch, each.replicas, each.isr)
                for number, each in topic.partitions.items()
            },
        )
        for topic in image.topics.values()
    }
    async with asyncio.timeout(DEADLINE_S):
        while (theirs := await topics(wire)).keys() != ours.keys():
            await asyncio.sleep(0.005)
    assert ours == theirs
    for name in image.topic_ids:
        assert image.topic_configs(name) == await own_configs(wire, TOPIC_RESOURCE, name)
    assert image.broker_configs(1) == await own_configs(wire, BROKER_RESOURCE, "1")
    assert image.broker_configs() == await own_configs(wire, BROKER_RESOURCE, EVERY_BROKER)
    assert image.group_configs("story") == await own_configs(wire, GROUP_RESOURCE, "story")
    assert set(image.acls.values()) == await acls(wire)
    assert image.quotas == await quotas(wire)
    assert {
        (each.user, MECHANISM_NUMBERS[each.mechanism], each.iterations) for each in image.credentials.values()
    } == await scram_users(wire)
    answer = await asked(wire, "api_versions", 3, client_software_name="groupd", client_software_version="1")
    assert image.features == {row["name"]: row["max_version_level"] for row in answer["finalized_features"]}
    assert dict(image.unknown) == {}


def snapshots(broker: KafkaBroker) -> list[Path]:
    """The snapshots that the controller has written, without the one that it was formatted with."""
    found = broker.data.glob("__cluster_metadata-0/*.checkpoint")
    return [path for path in found if not path.name.startswith("0" * 20)]


def test_the_image_is_what_the_broker_answers_live_and_from_a_snapshot(broker: KafkaBroker) -> None:
    async def story() -> None:
        async with wired("127.0.0.1", broker.port) as wire, following(controller(broker)) as live:
            await a_story(wire)
            for number in range(60):
                await create_topic(wire, f"filler-{number}", 3)
            await reached(lambda: snapshots(broker), "a snapshot")
            await create_topic(wire, "last", 1)
            assert live.image is not None
            image = live.image
            await reached(lambda: image.topic("last"), "the last topic")
            await assert_same(wire, image)
            (registered,) = image.brokers.values()
            assert (registered.broker_id, registered.fenced, registered.is_cordoned) == (1, False, False)

            late = Follower(connector(), [controller(broker)])
            await late.read_once(DEADLINE_S)
            assert late.snapshots == 1
            assert live.snapshots == 0
            assert late.image is not None
            await reached(lambda: image.offset >= late_offset(late), "the same offset")
            await assert_same(wire, late.image)
            assert late.image.brokers == image.brokers
            assert late.image.controllers == image.controllers
            assert late.image.credentials == image.credentials
            assert {topic.name: topic for topic in late.image.topics.values()} == {
                topic.name: topic for topic in image.topics.values()
            }

    run(story())


def late_offset(late: Follower) -> int:
    assert late.image is not None
    return late.image.offset


def test_a_broker_is_no_controller(broker: KafkaBroker) -> None:
    async def story() -> None:
        with pytest.raises(Elsewhere, match="no KRaft controller"):
            await find_active(connector(), [("127.0.0.1", broker.port)])
        both = [("127.0.0.1", broker.port), controller(broker)]
        active = await find_active(connector(), both)
        assert (active.address, active.controller_id, active.voters) == (both[1], 1, (1,))
        await active.wire.close()

    run(story())


def test_nobody_answers() -> None:
    async def story() -> None:
        follower = Follower(connector(), [("127.0.0.1", free_ports(1))])
        with pytest.raises(CannotFollow, match=r"Connect call failed|refused"):
            await follower.read_once(0.5)

    run(story())


def test_a_killed_controller_is_followed_by_another() -> None:
    """The image goes on where it stood, and misses nothing."""
    if (reason := jvm.missing()) is not None:
        pytest.skip(reason)
    nodes = KafkaNodes(3, SMALL, heap="384m")

    async def story() -> None:
        async with following(*(nodes.controller(number) for number in nodes.numbers)) as follower:
            assert follower.active is not None
            assert follower.image is not None
            image, dead = follower.image, follower.active.controller_id
            before = image.offset
            nodes.process(dead).kill()
            nodes.process(dead).wait()
            await reached(lambda: follower.active and follower.active.controller_id != dead, "a successor")
            host, port = nodes.address(next(number for number in nodes.numbers if number != dead))
            async with wired(host, port) as wire:
                await create_topic(wire, "after", 3)
            await reached(lambda: image.topic("after"), "a topic that the new controller made")
            await reached(lambda: image.brokers[dead].fenced, "the dead node is fenced")
            assert follower.image is image
            assert follower.problem is None
            assert image.offset > before
            assert image.epoch > 1
            assert image.features.keys() >= {"metadata.version", "group.version"}

    try:
        nodes.prepare()
        nodes.start()
        run(story())
    finally:
        nodes.stop()


def test_a_quorum_that_can_change_is_in_the_image_and_in_its_snapshots() -> None:
    """The controller is a process of its own. Who votes stands in control records, in snapshots, too."""
    if (reason := jvm.missing()) is not None:
        pytest.skip(reason)

    async def story(kafka: KafkaApart) -> None:
        async with following(kafka.controller) as live, wired(*kafka.broker) as wire:
            image = live.image
            assert image is not None
            late = Follower(connector(), [kafka.controller])
            async with asyncio.timeout(DEADLINE_S):
                while late.snapshots == 0:
                    await create_topic(wire, f"filler-{image.offset}", 20)
                    await late.read_once(DEADLINE_S)
                    late = late if late.snapshots else Follower(connector(), [kafka.controller])
            for each in (image, late.image):
                assert each is not None
                assert each.features["kraft.version"] == 1
                (voter,) = each.voters.values()
                assert voter.controller_id == CONTROLLER_ID
                assert voter.endpoints == (("CONTROLLER", *kafka.controller),)
                assert (set(each.controllers), set(each.brokers)) == ({CONTROLLER_ID}, {BROKER_ID})
                names = [endpoint.name for endpoint in each.brokers[BROKER_ID].endpoints]
                assert (names, dict(each.unknown)) == (["INTERNAL", "PLAINTEXT"], {})

    with KafkaApart({"metadata.log.max.record.bytes.between.snapshots": str(SNAPSHOT_BYTES)}) as kafka:
        run(story(kafka))


_JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="admin-secret" user_admin="admin-secret" user_alice="alice-secret";'
)
SECURED = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
    "advertised.listeners": "SASL_PLAINTEXT://127.0.0.1:{port}",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": _JAAS,
    "listener.name.controller.plain.sasl.jaas.config": _JAAS,
}
"""Settings with which everybody authenticates, and only the administrator may do anything."""


def login(user: str) -> ClientProperties:
    return ClientProperties.model_validate(
        {
            "bootstrap.servers": "named:1",
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": f"{user}-secret",
        }
    )


def test_rights_are_asked_for_by_name() -> None:
    if (reason := jvm.missing()) is not None:
        pytest.skip(reason)

    async def story(broker: KafkaBroker) -> None:
        place = [controller(broker)]
        with pytest.raises(NotAllowed, match="DescribeQuorum is refused: the user needs DESCRIBE"):
            await Follower(connector(login("alice")), place).read_once(DEADLINE_S)
        image = await Follower(connector(login("admin")), place).read_once(DEADLINE_S)
        assert list(image.brokers) == [1]

        wire, _ = await connector(login("admin"))(("127.0.0.1", broker.port))
        rule = {**_rule("alice", 8), "resource_type": 4, "resource_name": "kafka-cluster"}
        await wire.call("create_acls", 3, creations=[{**rule, "resource_pattern_type": 3}])
        await wire.close()
        late = Follower(connector(login("alice")), place)
        with pytest.raises(
            NotAllowed, match=r"Fetch of __cluster_metadata is refused: the user needs CLUSTER_ACTION"
        ):
            await late.read_once(DEADLINE_S)

    with KafkaBroker({**SMALL, **ACLS, **SECURED, "super.users": "User:admin"}) as broker:
        run(story(broker))
