"""kafka-transactions, kafka-log-dirs, kafka-leader-election: what an operator types when something hangs."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer

from tests.kafka.tools import LEADER_ELECTION, LOG_DIRS, TRANSACTIONS, Tools
from tests.polling import DEADLINE_S, until
from tests.tier.consumers import produce

pytestmark = [pytest.mark.kafka, pytest.mark.clients, pytest.mark.timeout(400)]


@pytest.fixture
def hanging(bootstrap: str, topic: str, group_id: str) -> Iterator[str]:
    """The id of a transaction that has written one record to partition 0, and does not end."""
    transactional_id = f"of-{group_id}"
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    producer.produce(topic, b"in a transaction", partition=0)
    assert producer.flush(DEADLINE_S) == 0
    yield transactional_id
    producer.purge()


def rows(table: str) -> list[dict[str, str]]:
    """The rows of a tool's table: the first line that is not a log line names the columns."""
    lines = [line.split("\t") for line in table.splitlines() if "\t" in line]
    heads = [cell.strip() for cell in lines[0]]
    return [dict(zip(heads, (cell.strip() for cell in line), strict=False)) for line in lines[1:]]


def test_an_open_transaction_is_listed_described_and_found_at_its_log(
    tools: Tools, topic: str, hanging: str
) -> None:
    """O19 and W22: the tool asks every broker for its transactional ids, and the leader for its producers."""
    (listed,) = [row for row in rows(tools.run(TRANSACTIONS, "list")) if row["TransactionalId"] == hanging]
    assert listed["TransactionState"] == "Ongoing"
    (described,) = rows(tools.run(TRANSACTIONS, "describe", "--transactional-id", hanging))
    assert described["ProducerId"] == listed["ProducerId"]
    assert described["TransactionState"] == "Ongoing"
    assert described["TopicPartitions"] == f"{topic}-0"
    place = ("--topic", topic, "--partition", "0")
    (producer,) = rows(tools.run(TRANSACTIONS, "describe-producers", *place))
    assert producer["ProducerId"] == listed["ProducerId"]
    assert producer["CurrentTransactionStartOffset"] == "0"


def test_an_operator_aborts_a_transaction_that_hangs(
    tools: Tools, bootstrap: str, topic: str, hanging: str
) -> None:
    """Consumers of committed records go on behind it, and never see what it wrote."""
    produce(bootstrap, topic, 6)
    tools.run(TRANSACTIONS, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": hanging,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    }
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    seen: list[bytes] = []

    def all_seen() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            seen.append(message.value() or b"")
        return len(seen) == 6

    try:
        until(all_seen, "the records behind the transaction")
    finally:
        consumer.close()
    assert b"in a transaction" not in seen


def test_a_transaction_that_goes_on_is_not_found_hanging(tools: Tools, topic: str, hanging: str) -> None:
    found = tools.run(TRANSACTIONS, "find-hanging", "--topic", topic, "--max-transaction-timeout", "1")
    assert hanging not in found


def test_sizes_of_logs_are_told(tools: Tools, bootstrap: str, topic: str) -> None:
    """W23: every partition stands at one broker at least, with the bytes that it holds."""
    produce(bootstrap, topic, 60)
    told = tools.run(LOG_DIRS, "--describe", "--topic-list", topic)
    brokers = json.loads(next(line for line in told.splitlines() if line.startswith("{")))["brokers"]
    sizes = {
        partition["partition"]: partition["size"]
        for broker in brokers
        for directory in broker["logDirs"]
        for partition in directory["partitions"]
    }
    assert set(sizes) == {f"{topic}-{number}" for number in range(6)}
    assert all(size > 0 for size in sizes.values())


def test_an_election_that_is_not_needed_is_said_to_be_none(tools: Tools, topic: str) -> None:
    """W24."""
    asked = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
    assert "Valid replica already elected for partitions" in tools.run(LEADER_ELECTION, *asked)
