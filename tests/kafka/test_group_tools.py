"""kafka-consumer-groups and kafka-groups against groups of both protocols: B10, G8, O12, O13, A12."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.kafka.conftest import DEADLINE_S, Start
from tests.kafka.members import JavaMember, partitions_of
from tests.kafka.tools import ALL_GROUPS, GROUPS, Row, Tools
from tests.tier.consumers import produce

pytestmark = [pytest.mark.kafka, pytest.mark.clients, pytest.mark.timeout(400)]

ASSIGNOR = {"classic": "range", "consumer": "uniform"}
"""The assignor of a member that names none, by protocol; Java's classic default is [range, cooperative-
sticky].
"""
RECORDS = 10
"""How many records each partition has."""


@pytest.fixture(params=ASSIGNOR)
def group_protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def member(start: Start, bootstrap: str, topic: str, group_id: str, group_protocol: str) -> JavaMember:
    """The one member of a stable group that has read and committed everything."""
    produce(bootstrap, topic, 6 * RECORDS)
    settings: dict[str, Any] = {"group_protocol": group_protocol, "client_id": "teller"}
    member = start(topic, group_id, **settings)
    member.until(lambda: len(member.seen) == 6 * RECORDS, "all records read")
    member.ask("commit", "committed")
    return member


def commit(admin: AdminClient, group_id: str, topic: str, offset: int) -> None:
    """Make a group without members, as tools that only store offsets do."""
    offsets = [TopicPartition(topic, number, offset) for number in range(6)]
    request = [ConsumerGroupTopicPartitions(group_id, offsets)]
    admin.alter_consumer_group_offsets(request)[group_id].result(DEADLINE_S)


def stored(admin: AdminClient, group_id: str) -> dict[int, int]:
    request = [ConsumerGroupTopicPartitions(group_id)]
    answer = admin.list_consumer_group_offsets(request)[group_id].result(DEADLINE_S)
    return {partition.partition: partition.offset for partition in answer.topic_partitions}


def of_group(rows: list[Row], group_id: str) -> list[Row]:
    return [row for row in rows if row["GROUP"] == group_id]


def test_live_group_is_listed_and_described(
    tools: Tools, member: JavaMember, topic: str, group_id: str, group_protocol: str
) -> None:
    """B10, A12, G8: every view of a stable group shows what its member knows of itself."""
    modern = group_protocol == "consumer"
    listed = of_group(tools.table(GROUPS, "--list", "--state"), group_id)
    assert listed == [{"GROUP": group_id, "STATE": "Stable"}]
    everything = of_group(tools.table(ALL_GROUPS, "--list"), group_id)
    assert everything == [{"GROUP": group_id, "TYPE": group_protocol.title(), "PROTOCOL": "consumer"}]

    described = ("--describe", "--group", group_id)
    (state,) = tools.table(GROUPS, *described, "--state", "--verbose")
    assert (state["STATE"], state["#MEMBERS"]) == ("Stable", "1")
    assert state["ASSIGNMENT-STRATEGY"] == ASSIGNOR[group_protocol]
    assert state["GROUP-EPOCH"] == state["TARGET-ASSIGNMENT-EPOCH"]
    assert state["GROUP-EPOCH"].isdigit() == modern

    (row,) = tools.table(GROUPS, *described, "--members", "--verbose")
    assert (row["CLIENT-ID"], row["HOST"], row["#PARTITIONS"]) == ("teller", "/127.0.0.1", "6")
    assert row["CURRENT-ASSIGNMENT"] == f"{topic}:0,1,2,3,4,5"
    if modern:
        assert row["TARGET-ASSIGNMENT"] == row["CURRENT-ASSIGNMENT"]
        assert row["CURRENT-EPOCH"] == row["TARGET-EPOCH"] == state["GROUP-EPOCH"]

    offsets = tools.table(GROUPS, *described, "--offsets", "--verbose")
    assert {f"{offset['TOPIC']}-{offset['PARTITION']}" for offset in offsets} == partitions_of(topic)
    for offset in offsets:
        shown = (offset["CURRENT-OFFSET"], offset["LOG-END-OFFSET"], offset["LAG"])
        assert shown == (str(RECORDS), str(RECORDS), "0")
        assert offset["CONSUMER-ID"] == row["CONSUMER-ID"]


def test_live_group_is_protected_from_the_tools(
    tools: Tools, admin: AdminClient, member: JavaMember, topic: str, group_id: str, group_protocol: str
) -> None:
    """O12, O13: a group in use cannot be deleted, reset, or robbed of the offsets it lives on."""
    refused = tools.attempt(GROUPS, "--delete", "--group", group_id)
    assert "GroupNotEmptyException" in refused.said
    refused = tools.attempt(GROUPS, "--delete-offsets", "--group", group_id, "--topic", topic)
    assert "GroupSubscribedToTopicException" in refused.said
    where = ("--group", group_id, "--topic", topic)
    refused = tools.attempt(GROUPS, "--reset-offsets", *where, "--to-earliest", "--execute")
    assert "inactive" in refused.said
    assert stored(admin, group_id) == dict.fromkeys(range(6), RECORDS)


def test_group_that_was_left_is_reset_and_read_again(
    tools: Tools, start: Start, member: JavaMember, topic: str, group_id: str, group_protocol: str
) -> None:
    """B10: after --reset-offsets --to-earliest --execute the next member reads from the beginning."""
    member.close()
    where = ("--group", group_id, "--topic", topic)
    reset = tools.table(GROUPS, "--reset-offsets", *where, "--to-earliest", "--execute")
    assert {(row["PARTITION"], row["NEW-OFFSET"]) for row in reset} == {(str(n), "0") for n in range(6)}
    (state,) = tools.table(GROUPS, "--describe", "--group", group_id, "--state")
    assert (state["STATE"], state["#MEMBERS"]) == ("Empty", "0")
    again = start(topic, group_id, group_protocol=group_protocol)
    again.until(lambda: len(again.seen) == 6 * RECORDS, "all records read again")
    again.close()


def test_offsets_without_members_are_shifted_deleted_and_the_group_with_them(
    tools: Tools, admin: AdminClient, bootstrap: str, topic: str, group_id: str
) -> None:
    """O12, O13: a group of offsets only; partitions are reset one by one, deleted, then the group goes."""
    produce(bootstrap, topic, 6 * RECORDS)
    commit(admin, group_id, topic, RECORDS - 1)
    one = ("--group", group_id, "--topic", f"{topic}:2")
    tools.table(GROUPS, "--reset-offsets", *one, "--shift-by", "-4", "--execute")
    assert stored(admin, group_id) == {**dict.fromkeys(range(6), RECORDS - 1), 2: RECORDS - 5}
    rows = tools.table(GROUPS, "--describe", "--group", group_id, "--offsets")
    lags = {row["PARTITION"]: row["LAG"] for row in rows}
    assert lags == {**dict.fromkeys("01345", "1"), "2": "5"}

    deleted = tools.run(GROUPS, "--delete-offsets", *one)
    assert "Successful" in deleted
    assert stored(admin, group_id) == {n: RECORDS - 1 for n in range(6) if n != 2}
    assert "successful" in tools.run(GROUPS, "--delete", "--group", group_id)
    assert group_id not in tools.run(GROUPS, "--list").split()


def test_unknown_group_is_named_as_such(tools: Tools, group_id: str) -> None:
    """A12, O13: GROUP_ID_NOT_FOUND, not a group that is Dead."""
    described = tools.attempt(GROUPS, "--describe", "--group", group_id)
    assert f"GroupIdNotFoundException: Group {group_id} not found" in described.said
    deleted = tools.attempt(GROUPS, "--delete", "--group", group_id)
    assert "GroupIdNotFoundException" in deleted.said
