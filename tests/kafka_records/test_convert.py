"""Our records as Kafka's and Kafka's as ours (A20, O17)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from actors.coordinator.kafka_records import codec
from actors.coordinator.kafka_records.codec import KafkaRecord, RecordError
from actors.coordinator.kafka_records.convert import PackedRecord, from_kafka, to_kafka
from actors.ground import records as ours
from tests.kafka_records.golden import LINES, NAMES, parts

TOPIC_A, TOPIC_B = b"a" * 16, b"b" * 16
WRITTEN_VERSIONS = {0: (), 1: (1, 4), 2: (3,), 4: ()}
"""Versions that are written by type, where it is not version 0."""


def is_written_today(line: dict[str, Any]) -> bool:
    value = line["json"]["value"]
    kind = line["json"]["key"]["type"]
    return value is not None and value["version"] in WRITTEN_VERSIONS.get(kind, (0,))


def converted(*records: PackedRecord) -> list[KafkaRecord]:
    left_out: Counter[int] = Counter()
    found = list(to_kafka(records, left_out))
    assert left_out == Counter()
    return found


@pytest.mark.parametrize("line", [line for line in LINES if is_written_today(line)])
def test_what_kafka_wrote_is_written_again_byte_for_byte(line: dict[str, Any]) -> None:
    (written,) = converted(*from_kafka(codec.decode(*parts(line))))
    assert codec.encode(written) == parts(line)


@pytest.mark.parametrize("line", LINES, ids=NAMES)
def test_every_value_that_kafka_ever_wrote_is_converted(line: dict[str, Any]) -> None:
    record = codec.decode(*parts(line))
    if record.value is None:
        return
    found = from_kafka(record)
    assert bool(found) == (record.kind != 4)
    for each in found:
        assert type(each.value) is ours.RECORD_TYPES[each.key[0]][1]


def test_a_classic_group_and_its_members_are_one_record() -> None:
    group = ours.GroupMetadataValue("consumer", 3, "range", "m1", 1_700_000_000_000)
    protocols = (("sticky", b"other"), ("range", b"chosen"))
    members = [
        ours.ClassicMemberValue(None, "c", "/host", 60_000, 45_000, protocols, b"assigned"),
        ours.ClassicMemberValue("i", "c", "/host", 60_000, 45_000, protocols, b""),
    ]
    state: list[PackedRecord] = [
        ((ours.CLASSIC_MEMBER, "g", "m1"), tuple(members[0])),
        ((ours.GROUP_METADATA, "g"), tuple(group)),
        ((ours.CLASSIC_MEMBER, "g", "m2"), tuple(members[1])),
    ]
    (record,) = converted(*state)
    assert record.value is not None
    assert [(each["memberId"], each["subscription"]) for each in record.value["members"]] == [
        ("m1", b"chosen"),
        ("m2", b"chosen"),
    ]
    back = [(tuple(each.key), tuple(each.value or ())) for each in from_kafka(record)]
    # Kafka keeps the chosen protocol alone.
    kept = [member._replace(protocols=(("range", b"chosen"),)) for member in members]
    assert back == [
        ((ours.GROUP_METADATA, "g"), tuple(group)),
        ((ours.CLASSIC_MEMBER, "g", "m1"), tuple(kept[0])),
        ((ours.CLASSIC_MEMBER, "g", "m2"), tuple(kept[1])),
    ]


@pytest.mark.parametrize(
    ("epochs", "stored"),
    [
        pytest.param([[7, 7], [7]], (), id="all at the member's"),
        pytest.param([[5, 5], [7]], (b"\0\0\0\5", b"\0\0\0\7"), id="one for a topic"),
        pytest.param([[5, 7], [6]], (b"\0\0\0\5\0\0\0\7", b"\0\0\0\6"), id="one for each"),
    ],
)
def test_assignment_epochs_travel_both_ways(epochs: list[list[int]], stored: tuple[bytes, ...]) -> None:
    """This is KIP-1251."""
    record = KafkaRecord(
        ours.CURRENT_MEMBER_ASSIGNMENT,
        {"groupId": "g", "memberId": "m"},
        0,
        {
            "memberEpoch": 7,
            "previousMemberEpoch": 6,
            "state": 1,
            "assignedPartitions": [{"topicId": TOPIC_A, "partitions": [0, 2], "assignmentEpochs": epochs[0]}],
            "partitionsPendingRevocation": [
                {"topicId": TOPIC_B, "partitions": [1], "assignmentEpochs": epochs[1]}
            ],
        },
    )
    (our,) = from_kafka(record)
    assert isinstance(our.value, ours.CurrentAssignmentValue)
    assert our.value.assignment_epochs == stored
    assert converted((tuple(our.key), tuple(our.value))) == [record]


def test_partitions_are_sorted_with_their_epochs_and_empty_topics_are_left_out() -> None:
    value = {
        "memberEpoch": 7,
        "previousMemberEpoch": 6,
        "state": 0,
        "assignedPartitions": [
            {"topicId": TOPIC_B, "partitions": [3, 1], "assignmentEpochs": [4, 5]},
            {"topicId": TOPIC_A, "partitions": [], "assignmentEpochs": []},
        ],
        "partitionsPendingRevocation": [],
    }
    key = {"groupId": "g", "memberId": "m"}
    (our,) = from_kafka(KafkaRecord(ours.CURRENT_MEMBER_ASSIGNMENT, key, 0, value))
    assert isinstance(our.value, ours.CurrentAssignmentValue)
    assert our.value.assigned == ((TOPIC_B, b"\0\0\0\1\0\0\0\3"),)
    assert our.value.assignment_epochs == (b"\0\0\0\5\0\0\0\4",)


def test_epochs_of_other_partitions_are_refused() -> None:
    owned = [{"topicId": TOPIC_A, "partitions": [0, 1], "assignmentEpochs": [1]}]
    value = {"memberEpoch": 1, "previousMemberEpoch": 0, "state": 0, "assignedPartitions": owned}
    key = {"groupId": "g", "memberId": "m"}
    with pytest.raises(RecordError, match="1 assignmentEpochs are given for 2 partitions"):
        from_kafka(KafkaRecord(8, key, 0, value | {"partitionsPendingRevocation": []}))


def test_an_offset_with_an_expiry_of_its_own_keeps_it() -> None:
    """O5, O17: version 1 is the only one that has a place for it."""
    commit = ours.OffsetCommitValue(9, -1, "kept", 1_000, 2_000, bytes(16))
    key = ours.OffsetCommitKey(ours.OFFSET_COMMIT, "g", "t", 4)
    (record,) = converted((tuple(key), tuple(commit)))
    assert (record.version, record.value and record.value["expireTimestamp"]) == (1, 2_000)
    (our,) = from_kafka(record)
    assert (our.key, our.value) == (key, commit)


def test_what_kafka_has_no_record_for_is_counted() -> None:
    left_out: Counter[int] = Counter()
    assert list(to_kafka([((104, "a-transaction"), (1,)), ((103, "g", "t", 0, 7), (1,))], left_out)) == []
    assert left_out == Counter({104: 1, 103: 1})
