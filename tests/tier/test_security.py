"""A tier that wants clients to log in and has ACLs, with real clients and the command line (W10, W11)."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ScramMechanism, UserScramCredentialDeletion

from actors.protocol.java_hash import partition_for
from bench.ground.throwaway import Tier
from cluster.administrator import PROPERTIES_NAME, SECRET_NAME
from cluster.child_process import ROOT
from cluster.ports import free_ports
from tests.polling import DEADLINE_S, until

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SHA_256 = ScramMechanism.SCRAM_SHA_256
REAUTH_MS = 1_500
PASSWORD = "alice's password"
OFFSETS_PARTITIONS = 2
RULES = (
    ("read", "topic:orders"),
    ("write", "topic:orders"),
    ("read", "group:team-"),
    ("write", "transactional-id:alice-"),
)


@pytest.fixture(scope="module")
def guarded() -> Iterator[Tier]:
    flags = (
        "--set=listener.security.protocol=SASL_PLAINTEXT",
        "--set=authorizer=acl",
        "--set=group.initial.rebalance.delay.ms=0",
        f"--set=connections.max.reauth.ms={REAUTH_MS}",
    )
    shape = ("--nodes=2", "--replicas=1", f"--partitions={OFFSETS_PARTITIONS}")
    with Tier(*flags, *shape, port=free_ports(2)) as running:
        running.run("topics", "create", "orders", "--partitions", "2")
        _add_alice(running)
        for rule in RULES:
            prefixed = ["--prefixed"] if rule[1].endswith("-") else []
            running.run("acls", "add", "User:alice", *rule, *prefixed)
        yield running


def _add_alice(tier: Tier) -> None:
    command = [sys.executable, "-m", "cluster.cli", "users", "add", "alice", "--password-stdin"]
    command += ["--data-dir", str(tier.data_dir)]
    subprocess.run(command, input=PASSWORD + "\n", text=True, timeout=60, check=True, cwd=ROOT)


def login(tier: Tier, mechanism: str = "SCRAM-SHA-512", password: str = PASSWORD) -> dict[str, Any]:
    return {
        "bootstrap.servers": tier.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": password,
    }


def consumer(tier: Tier, group_id: str, mechanism: str = "SCRAM-SHA-512", **changes: Any) -> Consumer:
    settings = {"group.id": group_id, "auto.offset.reset": "earliest", "group.protocol": "classic"}
    made = Consumer({**login(tier, mechanism), **settings, **changes})
    made.subscribe(["orders"])
    return made


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_user_reads_writes_and_commits_what_he_may(guarded: Tier, mechanism: str, protocol: str) -> None:
    producer = Producer(login(guarded, mechanism))
    producer.produce("orders", b"record")
    assert producer.flush(DEADLINE_S) == 0
    reader = consumer(guarded, f"team-{mechanism}-{protocol}", mechanism, **{"group.protocol": protocol})
    message = until(lambda: reader.poll(1.0), "a record")
    assert message.error() is None
    assert reader.commit(message, asynchronous=False)
    reader.close()


def test_who_asks_for_the_tier_needs_the_right_to(guarded: Tier, tmp_path: Path) -> None:
    """Looking takes DESCRIBE of the cluster, copying all that the tier knows CLUSTER_ACTION."""
    file = tmp_path / "alice.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in login(guarded).items()))
    elsewhere = ("--command-config", str(file))
    with pytest.raises(RuntimeError, match="user alice may not do that: it needs the operation DESCRIBE"):
        guarded.run("status", *elsewhere)
    guarded.run("acls", "add", "User:alice", "describe", "cluster")
    shown = until(lambda: allowed(guarded, "status", "--json", *elsewhere), "alice may look")
    assert json.loads(shown)["healthy"]
    with pytest.raises(RuntimeError, match="it needs the operation CLUSTER_ACTION"):
        guarded.run("backup", str(tmp_path / "copy"), *elsewhere)
    file.write_text(file.read_text().replace(PASSWORD, "a guess"))
    with pytest.raises(RuntimeError, match="user alice is refused"):
        guarded.run("status", *elsewhere)


def test_the_administrator_backs_up_over_the_port(guarded: Tier, tmp_path: Path) -> None:
    """It outlasts its session, which is renewed by a new connection."""
    admin = ("--command-config", str(guarded.data_dir / PROPERTIES_NAME), "--bootstrap", guarded.bootstrap)
    assert "holds" in guarded.run("backup", str(tmp_path / "copy"), *admin)


def allowed(tier: Tier, *arguments: str) -> str:
    """What a command prints; "" while it may not be given."""
    try:
        return tier.run(*arguments)
    except RuntimeError:
        return ""


def test_session_goes_on_after_many_logins(guarded: Tier) -> None:
    """KIP-368: the connection of a member is with the leader by then, which renews its session itself."""
    reader = consumer(guarded, "team-long", **{"heartbeat.interval.ms": 200})
    until(lambda: reader.poll(0.5), "a record")
    lost: list[Any] = []
    reader.unsubscribe()
    reader.subscribe(["orders"], on_lost=lambda _, partitions: lost.append(partitions))
    ends = until(lambda: reader.assignment() or (reader.poll(0.2) and None), "an assignment")
    assert ends
    for _ in range(3 * REAUTH_MS // 500):
        reader.poll(0.5)
    assert reader.assignment() == ends
    assert lost == []
    reader.close()


def test_transaction_of_a_user_reaches_groups_led_on_every_node(guarded: Tier) -> None:
    """Nodes verify and mark it among themselves, as the tier and not as the user."""
    producer = Producer({**login(guarded), "transactional.id": "alice-1"})
    producer.init_transactions(DEADLINE_S)
    names = {partition_for(name, OFFSETS_PARTITIONS): name for name in map("team-tx-{}".format, range(30))}
    assert len(names) == OFFSETS_PARTITIONS
    readers = {name: consumer(guarded, name, **{"enable.auto.commit": False}) for name in names.values()}
    producer.begin_transaction()
    producer.produce("orders", b"in a transaction")
    for reader in readers.values():
        message = until(lambda reader=reader: reader.poll(1.0), "a record")
        assert message.error() is None
        behind = TopicPartition("orders", message.partition(), message.offset() + 1)
        producer.send_offsets_to_transaction([behind], reader.consumer_group_metadata(), DEADLINE_S)
    producer.commit_transaction(DEADLINE_S)
    for reader in readers.values():
        committed = until(
            lambda reader=reader: [
                each.offset
                for each in reader.committed([TopicPartition("orders", n) for n in range(2)], DEADLINE_S)
                if each.offset > 0
            ],
            "the markers are written",
        )
        assert len(committed) == 1
        reader.close()


def test_group_that_is_another_teams_is_refused(guarded: Tier) -> None:
    reader = consumer(guarded, "other-team")
    message = until(lambda: reader.poll(1.0), "a refusal")
    assert message.error().code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    reader.close()


def test_wrong_password_is_refused(guarded: Tier) -> None:
    errors: list[KafkaError] = []
    admin = AdminClient({**login(guarded, "PLAIN", "wrong"), "error_cb": errors.append, "log_level": 0})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=3)
    until(lambda: errors or (admin.poll(0.1) and None), "the reason")
    assert KafkaError._AUTHENTICATION in [error.code() for error in errors]


def test_client_that_does_not_log_in_is_refused(guarded: Tier) -> None:
    admin = AdminClient({"bootstrap.servers": guarded.bootstrap, "log_level": 0})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=2)


def test_user_sees_the_topics_that_are_his_and_changes_no_rights(guarded: Tier) -> None:
    guarded.run("topics", "create", "secret")
    admin = AdminClient(login(guarded))
    assert set(admin.list_topics(timeout=DEADLINE_S).topics) == {"orders"}
    changed = admin.alter_user_scram_credentials([UserScramCredentialDeletion("admin", SHA_256)])["admin"]
    with pytest.raises(KafkaException) as refused:
        changed.result(DEADLINE_S)
    assert refused.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED


def test_administrator_keeps_users_and_acls_by_the_command_line(guarded: Tier) -> None:
    for name in (SECRET_NAME, PROPERTIES_NAME):
        assert stat.S_IMODE((guarded.data_dir / name).stat().st_mode) == 0o600
    users = json.loads(guarded.run("users", "list", "--json"))
    assert {(each["user"], each["mechanism"]) for each in users} >= {
        ("admin", "SCRAM-SHA-512"),
        ("alice", "SCRAM-SHA-256"),
    }
    rule = ("User:bob", "describe", "cluster", "--host", "192.0.2.1", "--deny")
    guarded.run("acls", "add", *rule)
    (shown,) = json.loads(guarded.run("acls", "list", "--principal", "User:bob", "--json"))
    assert (shown["permission"], shown["name"], shown["host"]) == ("deny", "kafka-cluster", "192.0.2.1")
    guarded.run("acls", "remove", *rule)
    assert json.loads(guarded.run("acls", "list", "--principal", "User:bob", "--json")) == []
    with pytest.raises(RuntimeError, match="no such ACL"):
        guarded.run("acls", "remove", *rule)
    with pytest.raises(RuntimeError, match="there is no such user"):
        guarded.run("users", "remove", "nobody")
