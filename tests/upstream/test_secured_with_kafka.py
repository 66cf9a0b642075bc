"""A real tier in front of a real Kafka at which everybody logs in and may do what rules say: users, rights
and passwords are the cluster's, at the tier as at the brokers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import NewTopic, ResourceType
from kio.schema.errors import ErrorCode
from typer.testing import CliRunner

from actors.network.sasl_client import LoginRefused
from actors.upstream.controllers import words
from bench.ground.reference import KAFKA_VERSION
from bench.ground.throwaway import Tier
from cluster.attaching.rights import BROKERS, CONTROLLERS
from cluster.cli import app
from tests.kafka import jvm
from tests.kafka.tools import GROUPS, Tools
from tests.polling import until
from tests.upstream.conftest import SETTINGS
from tests.upstream.secured import (
    EVERY_RIGHT,
    LISTENER,
    SUPER_USERS,
    TIER,
    Administrator,
    SecuredNodes,
    client_of,
    secret_of,
    wired_as,
    write_java_login,
    write_logins,
)

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

TOPIC, GROUP = "orders", "team"
WAIT_S: Final = 30.0
PERMITTED: Final = "alice"
UNKNOWN: Final = "bob"
"""A user who may log in, and nothing else."""


@pytest.fixture(scope="module")
def kafka() -> Iterator[SecuredNodes]:
    if (reason := jvm.missing()) is not None:
        pytest.skip(reason)
    more = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "2"}
    nodes = SecuredNodes(1, {**SETTINGS, **more}, jvm.build(kafka_version=KAFKA_VERSION), heap="512m")
    try:
        nodes.prepare()
        nodes.start()
        yield nodes
    finally:
        nodes.stop()


@pytest.fixture(scope="module")
def admin(kafka: SecuredNodes) -> Administrator:
    """Who has made the topic, and the users of these stories."""
    made = Administrator(words(kafka.address(1)))
    until(lambda: _is_up(made), "the cluster lets its administrator in")
    made.client.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(WAIT_S)
    for user in (PERMITTED, UNKNOWN):
        made.add_user(user)
    made.give(
        PERMITTED,
        (ResourceType.TOPIC, TOPIC, "READ"),
        (ResourceType.GROUP, GROUP, "READ"),
        (ResourceType.TOPIC, "hers", "CREATE"),
    )
    return made


def _is_up(admin: Administrator) -> bool:
    try:
        admin.client.list_topics(timeout=1.0)
    except KafkaException:
        return False
    return True


def planned(kafka: SecuredNodes, directory: Path) -> list[str]:
    """What `groupd attach --plan` says of rights, as the tier's user."""
    brokers, controllers = write_logins(directory)
    asked = ("--bootstrap", words(kafka.address(1)), "--controllers", words(kafka.controller(1)))
    logins = ("--command-config", str(brokers), "--controllers-config", str(controllers))
    listener = f"{LISTENER}://127.0.0.1:1"
    done = CliRunner().invoke(app, ["attach", "--plan", *asked, *logins, "--listeners", listener, "--json"])
    assert done.exit_code in (0, 1), done.output
    found = json.loads(done.stdout)["obstacles"]
    return [each["what"] for each in found if each["name"] == "right-missing"]


def test_each_right_that_is_missing_is_named(
    kafka: SecuredNodes, admin: Administrator, tmp_path: Path
) -> None:
    blind = planned(kafka, tmp_path)
    assert any(f"DESCRIBE on the cluster at {BROKERS}" in each for each in blind)
    lacking = {"ALTER", "IDEMPOTENT_WRITE"}
    admin.give_rights(right for right in EVERY_RIGHT if right.operation not in lacking)
    until(lambda: len(planned(kafka, tmp_path)) == len(lacking), "the rules have come", WAIT_S)
    told = "\n".join(planned(kafka, tmp_path))
    assert f"ALTER on the cluster at {CONTROLLERS}" in told
    assert f"IDEMPOTENT_WRITE on the cluster at {BROKERS}" in told
    admin.give_rights(EVERY_RIGHT)
    until(lambda: not planned(kafka, tmp_path), "nothing is missing", WAIT_S)


@pytest.fixture(scope="module")
def tier(kafka: SecuredNodes, admin: Administrator, tmp_path_factory: Any) -> Iterator[Tier]:
    """A tier that is attached, as a user with no more rights than it needs."""
    admin.give_rights(EVERY_RIGHT)
    brokers, controllers = write_logins(tmp_path_factory.mktemp("logins"))
    flags = (
        *("--nodes", "1", "--replicas", "1"),
        *("--upstream", words(kafka.address(1)), "--controllers", words(kafka.controller(1))),
        *("--upstream-config", str(brokers), "--controllers-config", str(controllers)),
        *("--set", f"upstream.listener.name={LISTENER}", "--set", f"super.users={SUPER_USERS}"),
    )
    with Tier(*flags, nodes=1) as tier:
        tier.run("attach")
        yield tier


def address_of(tier: Tier) -> tuple[str, int]:
    return "127.0.0.1", tier.port


def committed_as(user: str, bootstrap: str, offset: int) -> int:
    """What a user reads after having committed it. Raises KafkaException."""
    consumer = Consumer({**client_of(bootstrap, user), "group.id": GROUP, "enable.auto.commit": False})
    try:
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
        (found,) = consumer.committed([TopicPartition(TOPIC, 0)], WAIT_S)
        return int(found.offset)
    finally:
        consumer.close()


def run(story: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(story)


def test_groups_ask_for_the_clusters_rules(kafka: SecuredNodes, tier: Tier) -> None:
    """librdkafka asks again and again for a coordinator that it is refused, so who may not is heard here."""

    async def refused() -> set[ErrorCode]:
        row = {"partition_index": 0, "committed_offset": 9, "committed_leader_epoch": -1}
        asked = {"name": TOPIC, "partitions": [{**row, "committed_metadata": None}]}
        async with wired_as(UNKNOWN, address_of(tier)) as wire:
            found = await wire.call("find_coordinator", 4, key_type=0, coordinator_keys=[GROUP])
            answer = await wire.call(
                "offset_commit",
                8,
                group_id=GROUP,
                generation_id_or_member_epoch=-1,
                member_id="",
                group_instance_id=None,
                topics=[asked],
            )
        codes = found["coordinators"][0], answer["topics"][0]["partitions"][0]
        return {ErrorCode(each["error_code"]) for each in codes}

    bootstrap = words(kafka.address(1))
    assert committed_as(PERMITTED, bootstrap, 7) == 7
    assert run(refused()) == {ErrorCode.group_authorization_failed}
    assert committed_as(PERMITTED, tier.bootstrap, 8) == 8


async def _created(address: tuple[str, int], user: str, topic: str) -> ErrorCode:
    async with wired_as(user, address) as wire:
        asked = {
            "name": topic,
            "num_partitions": 1,
            "replication_factor": 1,
            "assignments": [],
            "configs": [],
        }
        answer = await wire.call("create_topics", 7, topics=[asked], timeout=10_000, validate_only=False)
    return ErrorCode(answer["topics"][0]["error_code"])


def test_requests_are_passed_on_with_the_clients_rights(
    kafka: SecuredNodes, tier: Tier, admin: Administrator
) -> None:
    there = address_of(tier)
    assert run(_created(there, UNKNOWN, "hers")) == ErrorCode.topic_authorization_failed
    assert run(_created(there, PERMITTED, "his")) == ErrorCode.topic_authorization_failed
    assert run(_created(there, PERMITTED, "hers")) == ErrorCode.none
    assert "hers" in admin.client.list_topics(timeout=WAIT_S).topics


@pytest.mark.parametrize("user", [PERMITTED, UNKNOWN])
def test_a_node_tells_a_user_what_a_broker_tells(kafka: SecuredNodes, tier: Tier, user: str) -> None:
    """Topics that may not be seen are not told of, nor rules, users and configs, at either."""

    async def told(address: tuple[str, int]) -> Any:
        async with wired_as(user, address) as wire:
            metadata = await wire.call(
                "metadata",
                12,
                topics=None,
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=True,
            )
            acls = await wire.call(
                "describe_acls",
                3,
                resource_type_filter=1,
                resource_name_filter=None,
                pattern_type_filter=1,
                principal_filter=None,
                host_filter=None,
                operation=1,
                permission_type=1,
            )
            users = await wire.call("describe_user_scram_credentials", 0, users=[{"name": "somebody"}])
            asked = [{"resource_type": 2, "resource_name": TOPIC, "configuration_keys": ["cleanup.policy"]}]
            configs = await wire.call("describe_configs", 4, resources=asked)
            ids = await wire.call(
                "init_producer_id",
                4,
                transactional_id=None,
                transaction_timeout=1_000,
                producer_id=-1,
                producer_epoch=-1,
            )
        return (
            sorted((each["name"], each["topic_authorized_operations"]) for each in metadata["topics"]),
            acls["error_code"],
            users["error_code"],
            [each["error_code"] for each in configs["results"]],
            ids["error_code"],
        )

    assert run(told(address_of(tier))) == run(told(kafka.address(1)))


def test_kafkas_tool_for_groups_logs_in_at_a_node(tier: Tier, tmp_path: Path) -> None:
    committed_as(PERMITTED, tier.bootstrap, 8)
    with Tools(jvm.build_tools(), tier.bootstrap) as tools:
        said = {
            user: tools.attempt(
                GROUPS,
                *("--command-config", str(write_java_login(tmp_path, user))),
                *("--describe", "--group", GROUP, "--offsets"),
            ).said
            for user in (PERMITTED, UNKNOWN)
        }
    assert f"{GROUP} " in said[PERMITTED]
    assert TOPIC in said[PERMITTED]
    assert "GroupAuthorizationException" in said[UNKNOWN]


def test_users_come_and_go_with_the_cluster(tier: Tier, admin: Administrator) -> None:
    async def gets_in() -> bool:
        try:
            async with wired_as("newcomer", address_of(tier)):
                return True
        except LoginRefused:
            return False

    assert not run(gets_in())
    admin.add_user("newcomer")
    until(lambda: run(gets_in()), "the user is let in", WAIT_S)
    admin.remove_user("newcomer")
    until(lambda: not run(gets_in()), "the user is let in no more", WAIT_S)


def test_passwords_are_where_only_their_owner_reads_them(tier: Tier) -> None:
    files = [path for path in tier.data_dir.rglob("*") if path.is_file()]
    telling = [path for path in files if secret_of(TIER).encode() in path.read_bytes()]
    assert {path.name for path in telling} == {"upstream.properties", "upstream-controllers.properties"}
    assert [path.stat().st_mode & 0o077 for path in telling] == [0, 0]
    for command in (("status", "--json"), ("config", "--json")):
        assert secret_of(TIER) not in tier.run(*command, fine=(0, 1, 2))


def test_the_way_back_leads_to_brokers_that_log_in(kafka: SecuredNodes, tier: Tier) -> None:
    """The brokers follow the tier as their own user. A tier that starts again logs in as before, without
    being told again."""
    bootstrap = words(kafka.address(1))
    assert committed_as(PERMITTED, bootstrap, 21) == 21
    tier.run("detach")
    assert committed_as(PERMITTED, bootstrap, 22) == 22
    tier.run("down")
    tier.run("up", "--detach", "--port", str(tier.port), "--set", f"super.users={SUPER_USERS}")
    assert "1001 not registered" in tier.run("attach", "status")
