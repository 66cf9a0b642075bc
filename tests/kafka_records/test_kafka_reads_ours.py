"""What is written here is read by Kafka's own classes (A20, W53)."""

from __future__ import annotations

from collections import Counter

import pytest

from actors.coordinator.kafka_records import codec
from actors.coordinator.kafka_records.codec import KafkaRecord
from actors.coordinator.kafka_records.convert import PackedRecord, to_kafka
from actors.coordinator.kafka_records.schemas import SCHEMAS, TRANSACTION_SCHEMAS, Schemas
from actors.coordinator.kafka_records.transactions import CommittedTransactions
from actors.ground import records as ours
from actors.ground.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from cluster.kafka_records import json_form
from tests.kafka import jvm
from tests.kafka_records.capture import ask_kafka

pytestmark = pytest.mark.kafka

TOPICS = ((b"a" * 16, b"\0\0\0\0\0\0\0\2"), (b"b" * 16, b"\0\0\0\1"))
MEMBER = ("g", "m")
STATE: list[PackedRecord] = [
    ((ours.OFFSET_COMMIT, "g", "topic ü", 3), (2**40, 5, "meta ü", 1_700_000_000_000, -1, b"t" * 16)),
    ((ours.OFFSET_COMMIT, "g", "t", 0), (0, -1, "", 1, 2, bytes(16))),
    ((ours.GROUP_METADATA, "c"), ("consumer", 7, "range", "m", 1_700_000_000_000)),
    (
        (ours.CLASSIC_MEMBER, "c", "m"),
        ("i", "client", "/::1", 300_000, 45_000, (("range", b"\0\1"),), b"\0\0"),
    ),
    ((ours.GROUP_METADATA, "simple"), ("", 0, None, None, -1)),
    ((ours.CONSUMER_GROUP_METADATA, "g"), (3, -(2**63))),
    (
        (ours.CONSUMER_MEMBER_METADATA, *MEMBER),
        ("i", "rack", "client", "/::1", ("t", "u"), "o.*", 300_000, "uniform", None),
    ),
    (
        (ours.CONSUMER_MEMBER_METADATA, "g", "classic"),
        (None, None, "client", "/::1", ("t",), "", 300_000, None, (45_000, (("range", b"\0"),))),
    ),
    ((ours.TARGET_ASSIGNMENT_METADATA, "g"), (3, 1_700_000_000_000)),
    ((ours.TARGET_ASSIGNMENT_MEMBER, *MEMBER), (TOPICS,)),
    ((ours.CURRENT_MEMBER_ASSIGNMENT, *MEMBER), (3, 2, 1, TOPICS, TOPICS[:1], ())),
    ((ours.REGULAR_EXPRESSION, "g", "o.*"), (("orders",), 42, 1_700_000_000_000)),
]


@pytest.fixture(scope="module", autouse=True)
def _needs_a_jdk() -> None:
    reason = jvm.missing()
    if reason is not None:
        pytest.skip(reason)


def test_kafka_reads_in_our_bytes_what_we_read_and_would_write_the_same() -> None:
    records = list(to_kafka(STATE, Counter()))
    assert len(records) == len(STATE) - 1, "a classic group's member is in its group's record"
    are_read(records, OFFSETS_TOPIC, SCHEMAS)


def test_kafka_reads_in_our_transactions_what_we_read_and_would_write_the_same() -> None:
    partitions = (("topic ü", (0, 2)), (OFFSETS_TOPIC, (3,)))
    state: list[PackedRecord] = [
        ((ours.TRANSACTION, "new"), (1 << 40, -1, 0, -1, 60_000, 0, (), -1, 1_700_000_000_000, -1, 0)),
        ((ours.TRANSACTION, "ü"), (7, 7, 32_766, 3, 1, 1, partitions, 1_700_000_000_000, 2**62, -1, 2)),
        ((ours.TRANSACTION, "rotated"), (7, 5, 32_767, 3, 1, 2, partitions, 1, 2, 8, 2)),
        ((ours.TRANSACTION, "nothing to abort"), (7, 7, 1, 0, 1, 3, (), 1, 2, -1, 2)),
    ]
    are_read(list(CommittedTransactions().to_kafka(state)), TRANSACTIONS_TOPIC, TRANSACTION_SCHEMAS)


def are_read(records: list[KafkaRecord], topic: str, schemas: Schemas) -> None:
    """Check that Kafka's classes read in the bytes of these records what was written, and write the same."""
    pairs = [codec.encode(record, schemas) for record in records]
    shown = ask_kafka([{"key": key.hex(), "value": (value or b"").hex()} for key, value in pairs], topic)
    assert [answer["json"] for answer in shown] == [json_form.to_json(record, schemas) for record in records]
    written = ask_kafka(shown, topic)
    assert [(bytes.fromhex(each["key"]), bytes.fromhex(each["value"])) for each in written] == pairs
