"""Tiers whose clients speak TLS, with real clients and the command line: by SCRAM, and by certificates."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import kafka
import pytest
from aiokafka.helpers import create_ssl_context
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.authority import Authority, Issued
from tests.polling import DEADLINE_S, until
from tests.tier.conftest import kill
from tests.tier.guarded import MECHANISMS, NODES, PARTITIONS, Guarded, running, with_users
from tests.tier.python_readers import SETTINGS

pytestmark = [pytest.mark.clients, pytest.mark.timeout(400)]

OFFSETS_PARTITIONS = 4


@pytest.fixture(scope="module")
def scram(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with with_users(tmp_path_factory.mktemp("scram")) as guarded:
        yield guarded


class Reader:
    """A consumer of librdkafka's, which commits each record as soon as it has seen it."""

    def __init__(self, login: dict[str, Any], group_id: str, protocol: str = "classic") -> None:
        settings = {"group.id": group_id, "auto.offset.reset": "earliest", "group.protocol": protocol}
        self._consumer = Consumer({**login, **settings, "enable.auto.commit": False})
        self._consumer.subscribe(["orders"])
        self.seen: list[bytes] = []

    def read(self) -> None:
        message = self._consumer.poll(0.2)
        if message is not None and message.error() is None:
            self.seen.append(message.value())
            with contextlib.suppress(KafkaException):  # its coordinator has just died
                self._consumer.commit(message, asynchronous=False)

    def is_settled(self) -> bool:
        """Commit what was read, once more. Return whether the group's offsets then say that all is read."""
        with contextlib.suppress(KafkaException):  # there is nothing that is not committed already
            self._consumer.commit(asynchronous=False)
        try:
            told = self._consumer.committed(self._consumer.assignment(), DEADLINE_S)
        except KafkaException:
            return False  # its coordinator has moved
        ends = (self._consumer.get_watermark_offsets(each, DEADLINE_S)[1] for each in told)
        return all(each.offset == end for each, end in zip(told, ends, strict=True) if end)

    def close(self) -> None:
        self._consumer.close()


def produce(login: dict[str, Any], *values: bytes) -> None:
    producer = Producer(login)
    for value in values:
        producer.produce("orders", value)
    assert producer.flush(DEADLINE_S) == 0


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_librdkafka_reads_and_commits(scram: Guarded, mechanism: str, protocol: str) -> None:
    value = f"{mechanism} {protocol}".encode()
    produce(scram.login(mechanism), value)
    reader = Reader(scram.login(mechanism), f"rd-{mechanism}-{protocol}", protocol)
    until(lambda: reader.read() or value in reader.seen, "the record is read and committed")
    reader.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_reads_and_commits(scram: Guarded, mechanism: str) -> None:
    produce(scram.login(), b"for kafka-python")
    group = {**SETTINGS, "group_id": f"kp-{mechanism}", "enable_auto_commit": False}
    seen: list[bytes] = []
    with contextlib.closing(kafka.KafkaConsumer(**scram.python_login(mechanism), **group)) as consumer:
        # kafka-python assigns nothing, for ever, if it leads a group before it knows the topic's partitions.
        until(lambda: consumer.partitions_for_topic("orders"), "the topic's partitions are known")
        consumer.subscribe(["orders"])

        def has_read() -> bool:
            for records in consumer.poll(200).values():
                seen.extend(record.value for record in records)
            return b"for kafka-python" in seen

        until(has_read, "the record is read")
        consumer.commit()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_reads_and_commits(scram: Guarded, mechanism: str) -> None:
    produce(scram.login(), b"for aiokafka")

    async def story() -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            "orders",
            **scram.python_login(mechanism),
            **SETTINGS,
            group_id=f"aio-{mechanism}",
            enable_auto_commit=False,
        )
        await consumer.start()
        try:
            async with asyncio.timeout(DEADLINE_S):
                async for record in consumer:
                    await consumer.commit()
                    if record.value == b"for aiokafka":
                        return
        finally:
            await consumer.stop()

    asyncio.run(story())


def test_groups_live_through_killed_leaders_and_a_renewed_certificate(scram: Guarded) -> None:
    """C26: members go on where they were, though the node's certificate is another one meanwhile; newcomers
    are shown the new one."""
    readers = [
        Reader(scram.login(MECHANISMS[number % 2]), f"lives-{number}", protocol)
        for number, protocol in enumerate(("classic", "consumer", "classic", "consumer"))
    ]

    def all_read(value: bytes) -> None:
        produce(scram.login(), value)

        def have_read() -> bool:
            for reader in readers:
                reader.read()
            return all(value in reader.seen for reader in readers)

        until(have_read, f"every group reads {value!r}")

    all_read(b"before")
    shutil.copy(scram.authority.certify("renewed").both, scram.keystore)
    for partition in range(2):
        leaders = [
            each for each in scram.tier.replicas() if each["partition"] == partition and each.get("serving")
        ]
        kill(leaders[0]["pid"])
        all_read(b"after leader %d" % partition)
    for partition in range(OFFSETS_PARTITIONS):
        scram.tier.run("leaders", "move", str(partition))
    all_read(b"after moves")
    until(lambda: shown_names(scram) == {"renewed"}, "every node shows the renewed certificate")
    for reader in readers:
        until(reader.is_settled, "the group's offsets are where it has read")
        reader.close()


def shown_names(guarded: Guarded) -> set[str]:
    """The names that the nodes' certificates have."""
    context = create_ssl_context(cafile=str(guarded.authority.path))
    names = set()
    for node in range(NODES):
        address = ("127.0.0.1", guarded.tier.port + node)
        with (
            socket.create_connection(address, timeout=DEADLINE_S) as plain,
            context.wrap_socket(plain, server_hostname=address[0]) as tls,
        ):
            subject = (tls.getpeercert() or {})["subject"]
            names.add(dict(pair for part in subject for pair in part)["commonName"])  # type: ignore[misc]
    return names


def test_transactions_reach_partitions_of_other_nodes(scram: Guarded) -> None:
    """The markers go from node to node, over TLS, whoever coordinates them."""
    produce(scram.login(), b"input")
    for number in range(6):
        producer = Producer({**scram.login(), "transactional.id": f"tx-{number}"})
        producer.init_transactions(DEADLINE_S)
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce("orders", b"tx %d" % number, partition=partition)
        consumer = Consumer({**scram.login(), "group.id": f"tx-group-{number}"})
        offsets = [TopicPartition("orders", 0, number + 1)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), DEADLINE_S)
        producer.commit_transaction(DEADLINE_S)
        [committed] = consumer.committed([TopicPartition("orders", 0)], DEADLINE_S)
        assert committed.offset == number + 1
        consumer.close()


def test_commands_ask_over_the_port(scram: Guarded) -> None:
    admin = ("--command-config", str(scram.tier.data_dir / "admin.properties"))
    told = scram.tier.run("status", "--json", "--bootstrap", scram.tier.bootstrap, *admin)
    assert json.loads(told)["healthy"]
    assert "orders" in scram.tier.run("topics", "list")
    assert "lives-0" in scram.tier.run("groups", "list")


def test_the_end_of_certificates_and_failures_are_counted(scram: Guarded) -> None:
    """A client that speaks no TLS is refused, and everybody else served."""
    with socket.create_connection(("127.0.0.1", scram.tier.port), timeout=DEADLINE_S) as plain:
        plain.sendall(b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\0\0")
        assert plain.recv(1) == b""
    shown = scram.tier.run("metrics")
    assert "tls_handshakes_failed" in shown
    assert "certificate_expiry_timestamp_seconds" in shown


@pytest.fixture(scope="module")
def mutual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    flags = (
        "--set=listener.security.protocol=SSL",
        "--set=ssl.client.auth=required",
        "--set=ssl.principal.mapping.rules=RULE:^CN=(.*?)(,.*)?$/$1/",
        "--set=authorizer=acl",
        "--set=super.users=User:node",
        "--nodes=2",
        "--replicas=1",
    )
    with running(tmp_path_factory.mktemp("mutual"), *flags) as guarded:
        guarded.tier.run("topics", "create", "orders", "--partitions", "2")
        for right in (("read", "topic:orders"), ("write", "topic:orders"), ("read", "group:team")):
            guarded.tier.run("acls", "add", "User:alice", *right)
        yield guarded


def by_certificate(guarded: Guarded, shown: Issued) -> dict[str, Any]:
    return {
        "bootstrap.servers": guarded.tier.bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": str(guarded.authority.path),
        "ssl.certificate.location": str(shown.certificate),
        "ssl.key.location": str(shown.key),
    }


def test_a_certificate_is_a_user_with_rights(mutual: Guarded) -> None:
    """W10: alice may read what she may, mallory nothing; both have certificates that are believed."""
    alice = by_certificate(mutual, mutual.authority.certify("alice", subject="/O=shop/CN=alice"))
    produce(alice, b"record")
    reader = Reader(alice, "team")
    until(lambda: reader.read() or reader.seen == [b"record"], "alice reads")
    reader.close()
    mallory = Consumer({**by_certificate(mutual, mutual.authority.certify("mallory")), "group.id": "team"})
    mallory.subscribe(["orders"])
    told = until(lambda: mallory.poll(1.0), "mallory is refused")
    assert told.error().code() in (
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
    )
    mallory.close()


def test_who_shows_no_certificate_is_not_let_in(mutual: Guarded, tmp_path: Path) -> None:
    stranger = Authority(tmp_path / "stranger").certify("alice")
    for shown in (None, stranger):
        login = by_certificate(mutual, shown or stranger)
        if shown is None:
            del login["ssl.certificate.location"], login["ssl.key.location"]
        consumer = Consumer({**login, "group.id": "team"})
        with pytest.raises(KafkaException):
            consumer.list_topics(timeout=3)
        consumer.close()
