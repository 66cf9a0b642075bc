"""Kafka's own tools, and `groupd groups` beside them, against a group whose coordinator pushes: B10, G8, O12,
O13, D13."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.kafka.conftest import DEADLINE_S
from tests.kafka.test_group_commands import groupd, in_order, said
from tests.kafka.test_group_tools import RECORDS, of_group, stored
from tests.kafka.tools import ALL_GROUPS, GROUPS, Tools, rows
from tests.polling import until
from tests.tier.consumers import produce

pytestmark = [pytest.mark.kafka, pytest.mark.clients, pytest.mark.timeout(600)]

READ_DEADLINE_S = 90.0
PARTITIONS = 6


class PushReader:
    """The consumer to try, in a process of its own."""

    def __init__(self, bootstrap: str, topic: str, group_id: str) -> None:
        where = ("--bootstrap", bootstrap, "--group", group_id, "--topic", topic, "--id", "teller")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.push.consumer", *where], stdout=subprocess.PIPE, text=True
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        self.lines.extend(line for line in map(str.rstrip, self._process.stdout) if " @" in line)

    def until_all_is_read(self) -> None:
        until(lambda: len(self.lines) == PARTITIONS * RECORDS, "all records read", READ_DEADLINE_S)

    def leave(self) -> None:
        """Close as Ctrl-C does: the last offsets are committed then (D11)."""
        self._process.send_signal(signal.SIGINT)
        assert self._process.wait(READ_DEADLINE_S) == 0

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture
def reader(admin: AdminClient, bootstrap: str, topic: str, group_id: str) -> Iterator[PushReader]:
    """The one consumer of a group that has read and committed everything."""
    produce(bootstrap, topic, PARTITIONS * RECORDS)
    reader = PushReader(bootstrap, topic, group_id)
    try:
        reader.until_all_is_read()
        everything = dict.fromkeys(range(PARTITIONS), RECORDS)
        until(lambda: stored(admin, group_id) == everything, "all is committed", READ_DEADLINE_S)
        yield reader
    finally:
        reader.kill()


def test_a_live_push_group_is_shown_and_protected(
    tools: Tools, admin: AdminClient, bootstrap: str, reader: PushReader, topic: str, group_id: str
) -> None:
    """The tools know nothing of its kind: they list it with the classic groups, and describe it as one."""
    assert of_group(tools.table(GROUPS, "--list", "--state"), group_id) == [
        {"GROUP": group_id, "STATE": "Stable"}
    ]
    (everything,) = of_group(tools.table(ALL_GROUPS, "--list"), group_id)
    assert (everything["TYPE"], everything["PROTOCOL"]) == ("Unknown", "consumer")
    (own,) = of_group(rows(said(bootstrap, "groups", "list", "--type", "push")), group_id)
    assert (own["TYPE"], own["STATE"]) == ("Push", "Stable")

    for flags in (["--offsets"], ["--members"], ["--state"]):
        for verbose in ([], ["--verbose"]):
            theirs = tools.table(GROUPS, "--describe", "--group", group_id, *flags, *verbose)
            mine = rows(said(bootstrap, "groups", "describe", group_id, *flags, *verbose))
            assert in_order(mine) == in_order(theirs), (flags, verbose)
    (member,) = tools.table(GROUPS, "--describe", "--group", group_id, "--members", "--verbose")
    assert (member["CONSUMER-ID"], member["#PARTITIONS"]) == ("teller", "6")
    assert member["CURRENT-ASSIGNMENT"] == f"{topic}:0,1,2,3,4,5"
    offsets = tools.table(GROUPS, "--describe", "--group", group_id)
    assert {(row["LAG"], row["CONSUMER-ID"]) for row in offsets} == {("0", "teller")}

    refused = tools.attempt(GROUPS, "--delete", "--group", group_id)
    assert "GroupNotEmptyException" in refused.said
    refused = tools.attempt(GROUPS, "--delete-offsets", "--group", group_id, "--topic", topic)
    assert "GroupSubscribedToTopicException" in refused.said
    where = ("--topic", topic, "--to-earliest", "--execute")
    refused = tools.attempt(GROUPS, "--reset-offsets", "--group", group_id, *where)
    assert "inactive" in refused.said
    own_refusal = groupd(bootstrap, "groups", "reset-offsets", group_id, *where)
    assert (own_refusal.exit_code, "inactive" in own_refusal.stderr) == (1, True)
    request = [ConsumerGroupTopicPartitions(group_id, [TopicPartition(topic, 0, 3)])]
    altered = admin.alter_consumer_group_offsets(request)[group_id].result(DEADLINE_S)
    assert [each.error.code() for each in altered.topic_partitions] == [KafkaError.UNKNOWN_MEMBER_ID]
    assert stored(admin, group_id) == dict.fromkeys(range(PARTITIONS), RECORDS)


def test_a_push_group_that_was_left_is_reset_read_again_and_deleted(
    tools: Tools, admin: AdminClient, bootstrap: str, reader: PushReader, topic: str, group_id: str
) -> None:
    reader.leave()
    (state,) = tools.table(GROUPS, "--describe", "--group", group_id, "--state")
    assert (state["STATE"], state["#MEMBERS"]) == ("Empty", "0")
    where = ("--group", group_id, "--topic", topic)
    reset = tools.table(GROUPS, "--reset-offsets", *where, "--to-earliest", "--execute")
    assert {(row["PARTITION"], row["NEW-OFFSET"]) for row in reset} == {
        (str(number), "0") for number in range(PARTITIONS)
    }
    again = PushReader(bootstrap, topic, group_id)
    try:
        again.until_all_is_read()
        again.leave()
    finally:
        again.kill()
    assert stored(admin, group_id) == dict.fromkeys(range(PARTITIONS), RECORDS)
    assert "Successful" in tools.run(GROUPS, "--delete-offsets", "--group", group_id, "--topic", f"{topic}:2")
    assert sorted(stored(admin, group_id)) == [0, 1, 3, 4, 5]
    assert "successful" in tools.run(GROUPS, "--delete", "--group", group_id)
    assert group_id not in tools.run(GROUPS, "--list").split()
