"""Kafka's own console formatters over records that were written here (A20)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from actors.coordinator.kafka_records import codec
from actors.coordinator.kafka_records.codec import KafkaRecord
from actors.coordinator.kafka_records.convert import PackedRecord, to_kafka
from actors.coordinator.kafka_records.schemas import TRANSACTION_SCHEMAS
from actors.coordinator.transactions.states import NAMES
from actors.ground import records as ours
from actors.ground.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from cluster.kafka_records import json_form
from cluster.kafka_records.dump import objects, read_dump
from tests.kafka.conftest import DEADLINE_S
from tests.kafka.tools import CONSUMER, Tools

pytestmark = [pytest.mark.kafka, pytest.mark.clients, pytest.mark.timeout(400)]

OFFSETS = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"
TRANSACTIONS = "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"
GROUPS = "org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter"
TOPIC_ID = bytes(range(16))
STATE: list[PackedRecord] = [
    ((ours.OFFSET_COMMIT, "g", "t", 0), (2**40, 5, "where ü", 1_700_000_000_000, -1, TOPIC_ID)),
    ((ours.OFFSET_COMMIT, "g", "t", 1), (7, -1, "", 1_000, 2_000, bytes(16))),
    ((ours.GROUP_METADATA, "c"), ("consumer", 7, "range", "m", 1_700_000_000_000)),
    (
        (ours.CLASSIC_MEMBER, "c", "m"),
        ("i", "client", "/::1", 300_000, 45_000, (("range", b"\0\1"),), b"\0\0"),
    ),
]


@pytest.mark.parametrize(
    ("formatter", "kind"), [(OFFSETS, ours.OFFSET_COMMIT), (GROUPS, ours.GROUP_METADATA)]
)
def test_the_console_consumer_prints_our_records(
    tools: Tools, bootstrap: str, topic: str, tmp_path: Path, formatter: str, kind: int
) -> None:
    """`groupd offsets import` can read what the tool prints."""
    records = list(to_kafka(STATE, Counter()))
    producer = Producer({"bootstrap.servers": bootstrap})
    for record in records:
        key, value = codec.encode(record)
        producer.produce(topic, value, key, partition=0)
    assert producer.flush(DEADLINE_S) == 0
    where = ("--topic", topic, "--from-beginning", "--max-messages", str(len(records)))
    printed = tools.run(CONSUMER, *where, "--timeout-ms", "20000", "--formatter", formatter)
    file = tmp_path / "printed"
    file.write_text("".join(line + "\n" for line in printed.splitlines() if line.startswith("{")))
    assert list(read_dump(file, Counter())) == [record for record in records if record.kind == kind]


def test_the_console_consumer_prints_what_groups_commit_on_the_cluster_itself(
    tools: Tools, bootstrap: str, topic: str, group_id: str, tmp_path: Path
) -> None:
    """W52: offsets and metadata, as the formatter shows them of Kafka's own `__consumer_offsets`."""
    committed = {number: (100 + number, f"by hand {number}") for number in range(6)}
    offsets = [TopicPartition(topic, number, *told) for number, told in committed.items()]
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group_id})
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()
    where = ("--topic", OFFSETS_TOPIC, "--from-beginning", "--timeout-ms", "15000")
    run = tools.attempt(CONSUMER, *where, "--formatter", OFFSETS)
    file = tmp_path / "printed"
    file.write_text("".join(line + "\n" for line in run.out.splitlines() if line.startswith("{")))
    shown = {
        record.key["partition"]: (record.value["offset"], record.value["metadata"].rstrip("\0"))
        for record in read_dump(file, Counter())
        if record.kind == ours.OFFSET_COMMIT and record.key["group"] == group_id and record.value
    }
    assert shown == committed


def test_the_console_consumer_prints_the_steps_of_a_transaction(
    tools: Tools, bootstrap: str, topic: str, group_id: str
) -> None:
    """W53: the steps that came after the first reading stand behind the state of then."""
    transactional_id = f"of-{group_id}"
    settings = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id}
    producer = Producer(settings)
    producer.init_transactions(DEADLINE_S)
    assert [state for state, _ in shown_steps(tools, transactional_id)] == ["Empty"]
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=2)
    assert producer.flush(DEADLINE_S) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group_id})
    metadata = consumer.consumer_group_metadata()
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, 7)], metadata, DEADLINE_S)
    consumer.close()
    producer.commit_transaction(DEADLINE_S)
    empty, written, *others, ended = shown_steps(tools, transactional_id)
    assert (empty, written) == (("Empty", set()), ("Ongoing", {topic}))
    assert others == [("Ongoing", {topic, OFFSETS_TOPIC}), ("PrepareCommit", {topic, OFFSETS_TOPIC})]
    assert ended == ("CompleteCommit", set())


def shown_steps(tools: Tools, transactional_id: str) -> list[tuple[str, set[str]]]:
    """Return the states of the id and the topics of its transaction, as the console consumer prints them."""
    where = ("--topic", TRANSACTIONS_TOPIC, "--from-beginning", "--timeout-ms", "15000")
    run = tools.attempt(CONSUMER, *where, "--formatter", TRANSACTIONS)
    shown = [each for line in run.out.splitlines() if line.startswith("{") for each in objects(line)]
    assert shown, run.said
    records: list[KafkaRecord] = [json_form.from_json(each, TRANSACTION_SCHEMAS) for each in shown]
    values = [each.value for each in records if each.key["transactionalId"] == transactional_id]
    return [
        (
            NAMES[value["transactionStatus"]],
            {each["topic"] for each in value["transactionPartitions"] or ()},
        )
        for value in values
        if value is not None
    ]
