"""A real tier in front of a real Kafka at which everybody logs in and may do what rules say: users, rights
and passwords are the cluster's, at the tier as at the brokers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewTopic, ResourceType
from kio.schema.errors import ErrorCode
from typer.testing import CliRunner

from actors.network.sasl_client import LoginRefused
from actors.upstream.controllers import words
from bench.ground.reference import KAFKA_VERSION
from bench.ground.throwaway import Tier
from cluster.attaching.rights import BROKERS, CONTROLLERS
from cluster.cli import app
from tests.authority import Authority
from tests.kafka import jvm
from tests.kafka.logins import write_properties
from tests.kafka.tools import CONSUMER, GROUPS, Run, Tools
from tests.polling import until
from tests.upstream.conftest import SETTINGS
from tests.upstream.offsets_log.cast import until as poll
from tests.upstream.secured import (
    ADMIN,
    EVERY_RIGHT,
    LISTENER,
    TIER,
    Administrator,
    SecuredNodes,
    secret_of,
)

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

TOPIC, GROUP, COPIES = "orders", "team", "copies"
RECORDS: Final = 6
WAIT_S: Final = 30.0
PERMITTED: Final = "alice"
UNKNOWN: Final = "bob"
"""A user who may log in, and nothing else."""


@pytest.fixture(scope="module", params=["plain", "tls"])
def kafka(request: pytest.FixtureRequest, authority: Authority) -> Iterator[SecuredNodes]:
    if (reason := jvm.missing()) is not None:
        pytest.skip(reason)
    settings = {**SETTINGS, "group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "2"}
    home, trusted = jvm.build(kafka_version=KAFKA_VERSION), authority if request.param == "tls" else None
    nodes = SecuredNodes(1, settings, home, heap="512m", authority=trusted)
    try:
        nodes.prepare()
        nodes.start()
        yield nodes
    finally:
        nodes.stop()


@pytest.fixture(scope="module")
def admin(kafka: SecuredNodes) -> Administrator:
    """Who has made the topic, and the users of these stories."""
    made = Administrator(kafka)
    until(made.is_let_in, "the cluster lets its administrator in")
    for future in made.client.create_topics([NewTopic(name, 2, 1) for name in (TOPIC, COPIES)]).values():
        future.result(WAIT_S)
    for user in (PERMITTED, UNKNOWN):
        made.add_user(user)
    made.give(
        PERMITTED,
        (ResourceType.TOPIC, TOPIC, "READ"),
        (ResourceType.GROUP, GROUP, "READ"),
        (ResourceType.TOPIC, "hers", "CREATE"),
        (ResourceType.TOPIC, COPIES, "WRITE"),
        *((ResourceType.TRANSACTIONAL_ID, name, "WRITE") for name in (GROUP, COPIES)),
        (ResourceType.GROUP, COPIES, "READ"),
    )
    producer = Producer(kafka.client_of(words(kafka.address(1)), ADMIN))
    for number in range(RECORDS):
        producer.produce(TOPIC, b"%d" % number, partition=number % 2)
    assert producer.flush(WAIT_S) == 0
    return made


def planned(kafka: SecuredNodes, directory: Path) -> list[str]:
    """What `groupd attach --plan` says of rights, as the tier's user."""
    brokers, controllers = kafka.write_logins(directory)
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
    flags = (
        *("--nodes", "1", "--replicas", "1"),
        *("--upstream", words(kafka.address(1)), "--controllers", words(kafka.controller(1))),
        *kafka.tier_flags(tmp_path_factory.mktemp("logins")),
    )
    with Tier(*flags, nodes=1) as tier:
        tier.run("attach")
        yield tier


def address_of(tier: Tier) -> tuple[str, int]:
    return "127.0.0.1", tier.port


def committed_as(kafka: SecuredNodes, user: str, bootstrap: str, offset: int) -> int:
    """What a user reads after having committed it. Raises KafkaException."""
    consumer = Consumer({**kafka.client_of(bootstrap, user), "group.id": GROUP, "enable.auto.commit": False})
    try:
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
        (found,) = consumer.committed([TopicPartition(TOPIC, 0)], WAIT_S)
        return int(found.offset)
    finally:
        consumer.close()


def test_a_cluster_whose_certificates_are_not_believed_is_refused(
    kafka: SecuredNodes, tmp_path: Path
) -> None:
    if kafka.authority is None:
        pytest.skip("nobody has certificates here")
    brokers, _ = kafka.write_logins(tmp_path)
    strange = Authority(tmp_path / "strange").path
    brokers.write_text(brokers.read_text().replace(str(kafka.authority.path), str(strange)))
    asked = ("--bootstrap", words(kafka.address(1)), "--controllers", words(kafka.controller(1)))
    done = CliRunner().invoke(app, ["attach", "--plan", *asked, "--command-config", str(brokers)])
    assert done.exit_code == 2, done.output
    assert "certificate verify failed" in done.stderr


def run(story: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(story)


def test_groups_ask_for_the_clusters_rules(kafka: SecuredNodes, tier: Tier) -> None:
    """librdkafka asks again and again for a coordinator that it is refused, so who may not is heard here."""

    async def refused() -> set[ErrorCode]:
        row = {"partition_index": 0, "committed_offset": 9, "committed_leader_epoch": -1}
        asked = {"name": TOPIC, "partitions": [{**row, "committed_metadata": None}]}
        async with kafka.wired_as(UNKNOWN, address_of(tier)) as wire:
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
    assert committed_as(kafka, PERMITTED, bootstrap, 7) == 7
    assert run(refused()) == {ErrorCode.group_authorization_failed}
    assert committed_as(kafka, PERMITTED, tier.bootstrap, 8) == 8


async def _created(kafka: SecuredNodes, address: tuple[str, int], user: str, topic: str) -> ErrorCode:
    async with kafka.wired_as(user, address) as wire:
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
    assert run(_created(kafka, there, UNKNOWN, "hers")) == ErrorCode.topic_authorization_failed
    assert run(_created(kafka, there, PERMITTED, "his")) == ErrorCode.topic_authorization_failed
    assert run(_created(kafka, there, PERMITTED, "hers")) == ErrorCode.none
    assert "hers" in admin.client.list_topics(timeout=WAIT_S).topics


@pytest.mark.parametrize("user", [PERMITTED, UNKNOWN])
def test_a_node_tells_a_user_what_a_broker_tells(kafka: SecuredNodes, tier: Tier, user: str) -> None:
    """Topics that may not be seen are not told of, nor rules, users and configs, at either."""

    async def told(address: tuple[str, int]) -> Any:
        async with kafka.wired_as(user, address) as wire:
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
            ids = await poll(  # a broker that has no ids at hand fetches some first
                lambda: wire.call(
                    "init_producer_id",
                    4,
                    transactional_id=None,
                    transaction_timeout=1_000,
                    producer_id=-1,
                    producer_epoch=-1,
                ),
                lambda answer: answer["error_code"] != ErrorCode.coordinator_load_in_progress,
            )
        return (
            sorted((each["name"], each["topic_authorized_operations"]) for each in metadata["topics"]),
            acls["error_code"],
            users["error_code"],
            [each["error_code"] for each in configs["results"]],
            ids["error_code"],
        )

    assert run(told(address_of(tier))) == run(told(kafka.address(1)))


@pytest.fixture(scope="module")
def tools(tier: Tier) -> Iterator[Tools]:
    with Tools(jvm.build_tools(), tier.bootstrap) as running:
        yield running


Attempt = Callable[..., Run]


@pytest.fixture
def attempt(kafka: SecuredNodes, tools: Tools, tmp_path: Path) -> Attempt:
    """Run a tool of Kafka's at a node, as a user."""

    def attempted(user: str, tool: str, *arguments: str) -> Run:
        login = write_properties(tmp_path / user, kafka.java_client_of(user))
        return tools.attempt(tool, "--command-config", str(login), *arguments)

    return attempted


def test_kafkas_tool_for_groups_logs_in_at_a_node(kafka: SecuredNodes, tier: Tier, attempt: Attempt) -> None:
    committed_as(kafka, PERMITTED, tier.bootstrap, 8)
    asked = (GROUPS, "--describe", "--group", GROUP, "--offsets")
    said = {user: attempt(user, *asked).said for user in (PERMITTED, UNKNOWN)}
    assert f"{GROUP} " in said[PERMITTED]
    assert TOPIC in said[PERMITTED]
    assert "GroupAuthorizationException" in said[UNKNOWN]


def test_kafkas_console_consumer_logs_in_at_a_node(attempt: Attempt) -> None:
    bounds = ("--from-beginning", "--max-messages", str(RECORDS), "--timeout-ms", "30000")
    asked = (CONSUMER, "--topic", TOPIC, "--group", GROUP, *bounds)
    read = attempt(PERMITTED, *asked)
    assert sorted(read.out.split()) == [str(number) for number in range(RECORDS)], read.said
    assert "AuthorizationException" in attempt(UNKNOWN, *asked).said


@pytest.mark.parametrize("commits", [True, False])
def test_offsets_of_a_users_transaction_are_committed_with_it(
    kafka: SecuredNodes, tier: Tier, commits: bool
) -> None:
    """librdkafka's producer, which knows transactions of the first generation alone (TxnOffsetCommit v3)."""
    client = kafka.client_of(tier.bootstrap, PERMITTED)
    before = committed_as(kafka, PERMITTED, tier.bootstrap, 1)
    consumer = Consumer({**client, "group.id": GROUP})
    producer = Producer({**client, "transactional.id": GROUP})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce(COPIES, b"copy")
    offsets = [TopicPartition(TOPIC, 0, 3)]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), WAIT_S)
    (producer.commit_transaction if commits else producer.abort_transaction)(WAIT_S)

    def committed() -> int:
        return int(consumer.committed([TopicPartition(TOPIC, 0)], WAIT_S)[0].offset)

    until(lambda: committed() == (3 if commits else before), "the marker has come")
    consumer.close()


def test_a_transaction_takes_no_offsets_of_a_group_that_its_user_may_not_read(
    kafka: SecuredNodes, tier: Tier
) -> None:
    client = kafka.client_of(tier.bootstrap, PERMITTED)
    consumer = Consumer({**client, "group.id": "others"})
    producer = Producer({**client, "transactional.id": GROUP})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    group = consumer.consumer_group_metadata()
    with pytest.raises(KafkaException) as refused:
        producer.send_offsets_to_transaction([TopicPartition(TOPIC, 0, 3)], group, WAIT_S)
    assert refused.value.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    producer.abort_transaction(WAIT_S)
    consumer.close()


def test_javas_producer_commits_a_users_offsets(kafka: SecuredNodes, tier: Tier, attempt: Attempt) -> None:
    """Transactions of the second generation (TxnOffsetCommit v5): the node tells their coordinator of the
    group's partition, as the tier's user."""
    ways = ("--from", TOPIC, "--to", COPIES, "--group", COPIES, "--count", str(RECORDS))
    done = attempt(PERMITTED, "groupd.Copier", *ways)
    assert done.exit_code == 0, done.said
    assert "apiKey=TXN_OFFSET_COMMIT, apiVersion=5" in done.said
    consumer = Consumer({**kafka.client_of(tier.bootstrap, PERMITTED), "group.id": COPIES})
    partitions = [TopicPartition(TOPIC, number) for number in range(2)]

    def committed() -> list[int]:
        return [each.offset for each in consumer.committed(partitions, WAIT_S)]

    until(lambda: committed() == [RECORDS // 2] * 2, "the marker has come")
    consumer.close()


def test_users_come_and_go_with_the_cluster(kafka: SecuredNodes, tier: Tier, admin: Administrator) -> None:
    async def gets_in() -> bool:
        try:
            async with kafka.wired_as("newcomer", address_of(tier)):
                return True
        except LoginRefused:
            return False

    assert not run(gets_in())
    admin.add_user("newcomer")
    until(lambda: run(gets_in()), "the user is let in", WAIT_S)
    admin.remove_user("newcomer")
    until(lambda: not run(gets_in()), "the user is let in no more", WAIT_S)


def test_passwords_are_where_only_their_owner_reads_them(kafka: SecuredNodes, tier: Tier) -> None:
    files = [path for path in tier.data_dir.rglob("*") if path.is_file()]
    telling = [path for path in files if secret_of(TIER).encode() in path.read_bytes()]
    names = {"upstream.properties"}
    if kafka.authority is None:  # controllers are logged in to in another way
        names.add("upstream-controllers.properties")
    assert {path.name for path in telling} == names
    assert {path.stat().st_mode & 0o077 for path in telling} == {0}
    for command in (("status", "--json"), ("config", "--json")):
        assert secret_of(TIER) not in tier.run(*command, fine=(0, 1, 2))


def test_the_way_back_leads_to_brokers_that_log_in(kafka: SecuredNodes, tier: Tier) -> None:
    """The brokers follow the tier as their own user. A tier that starts again logs in as before, without
    being told again."""
    bootstrap = words(kafka.address(1))
    assert committed_as(kafka, PERMITTED, bootstrap, 21) == 21
    tier.run("detach")
    assert committed_as(kafka, PERMITTED, bootstrap, 22) == 22
    tier.run("down")
    tier.run("up", "--detach", "--port", str(tier.port), *kafka.tier_settings())
    assert "1001 not registered" in tier.run("attach", "status")
