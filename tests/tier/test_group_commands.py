"""`groupd groups` and `groupd offsets` against a real tier (B10, O12, O13)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from bench.ground.throwaway import Tier
from tests.polling import DEADLINE_S, until
from tests.tier.consumers import Reader

pytestmark = [pytest.mark.ray, pytest.mark.clients]


def groupd(tier: Tier, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cluster.cli", *arguments, "--data-dir", str(tier.data_dir)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("flags", [[], ["--json"]], ids=["text", "json"])
def test_a_group_that_does_not_exist_is_an_error(tier: Tier, flags: list[str]) -> None:
    done = groupd(tier, "groups", "describe", "no-such-group", *flags)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "groupd: no-such-group: there is no such group\n"


def test_a_described_group_tells_its_lag(tier: Tier, topic: str, group_id: str) -> None:
    """O1: a group of offsets alone is a group."""
    consumer = Consumer({"bootstrap.servers": tier.bootstrap, "group.id": group_id})
    consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    consumer.close()
    done = groupd(tier, "groups", "describe", group_id, "--json")
    assert done.returncode == 0, done.stderr
    described = json.loads(done.stdout)
    assert (described["group"], described["state"], described["members"]) == (group_id, "Empty", [])
    (row,) = described["offsets"]
    assert (row["topic"], row["partition"], row["committed"], row["lag"]) == (topic, 0, 0, 0)


def commit(admin: AdminClient, group_id: str, topic: str, offsets: dict[int, int]) -> None:
    """Commit until every partition is known to the group's leader: it hears of a new topic a moment later."""
    places = [TopicPartition(topic, number, offset) for number, offset in offsets.items()]

    def is_committed() -> bool:
        asked = [ConsumerGroupTopicPartitions(group_id, places)]
        answer = admin.alter_consumer_group_offsets(asked)[group_id].result(DEADLINE_S)
        errors = {place.error.code() for place in answer.topic_partitions if place.error is not None}
        assert errors <= {KafkaError.UNKNOWN_TOPIC_OR_PART}
        return not errors

    until(is_committed, f"{group_id} commits")


def committed(tier: Tier, group_id: str) -> dict[int, int]:
    done = groupd(tier, "groups", "describe", group_id, "--json")
    assert done.returncode == 0, done.stderr
    return {row["partition"]: row["committed"] for row in json.loads(done.stdout)["offsets"]}


def fine(tier: Tier, *arguments: str) -> str:
    done = groupd(tier, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_living_group_shows_its_members_and_keeps_its_offsets(
    tier: Tier, admin: AdminClient, topic: str, group_id: str, protocol: str
) -> None:
    reader = Reader(tier.bootstrap, topic, group_id, **{"group.protocol": protocol})
    reader.start()
    try:
        until(lambda: len(reader.owned) == 6, "it owns everything")
        (member,) = json.loads(fine(tier, "groups", "describe", group_id, "--members", "--json"))["members"]
        assert member["assignment"] == [[topic, number] for number in range(6)]
        shown = fine(tier, "groups", "describe", group_id, "--members", "--verbose")
        assert f"{topic}:0,1,2,3,4,5" in shown
        listed = fine(tier, "groups", "list", "--state", "stable", "--type", protocol, "--json")
        expected = {"group": group_id, "type": protocol.title(), "protocol": "consumer", "state": "Stable"}
        assert expected in json.loads(listed)
        for command in (["delete"], ["delete-offsets", "--topic", topic]):
            refused = groupd(tier, "groups", *command, group_id)
            assert (refused.returncode, refused.stderr[:8]) == (1, "groupd: ")
        file = groupd(tier, "groups", "reset-offsets", group_id, "--topic", topic, "--to-earliest")
        assert "can only be reset while" in file.stderr
    finally:
        reader.stop()


def test_a_reset_is_shown_first_and_done_when_told(
    tier: Tier, admin: AdminClient, topic: str, group_id: str
) -> None:
    commit(admin, group_id, topic, {0: 0, 1: 0})
    arguments = ("groups", "reset-offsets", group_id, "--topic", f"{topic}:1,2", "--to-offset", "7")
    shown = groupd(tier, *arguments)
    assert "later than the last, 0 is taken" in shown.stderr, "the topic is empty"
    assert "Nothing was written" in shown.stderr
    assert committed(tier, group_id) == {0: 0, 1: 0}
    fine(tier, *arguments, "--execute")
    assert committed(tier, group_id) == {0: 0, 1: 0, 2: 0}
    missing = groupd(tier, "groups", "reset-offsets", group_id, "--topic", f"{topic}:9", "--to-earliest")
    assert missing.stderr == f"groupd: these partitions are not there: {topic}-9\n"


def test_what_a_group_committed_comes_back_from_a_file(
    tier: Tier, admin: AdminClient, topic: str, group_id: str, tmp_path: Path
) -> None:
    commit(admin, group_id, topic, {0: 11, 3: 2**40})
    file = tmp_path / "committed"
    assert "holds 2 records" in fine(tier, "offsets", "export", str(file), "--group", group_id)
    fine(tier, "groups", "delete", group_id)
    fine(tier, "offsets", "import", str(file), "--dry-run")
    assert groupd(tier, "groups", "describe", group_id).returncode == 1
    fine(tier, "offsets", "import", str(file))
    assert committed(tier, group_id) == {0: 11, 3: 2**40}


def test_an_import_that_cannot_be_whole_writes_nothing(
    tier: Tier, admin: AdminClient, topic: str, group_id: str, tmp_path: Path
) -> None:
    commit(admin, group_id, topic, {0: 11})
    file = tmp_path / "committed.json"
    fine(tier, "offsets", "export", str(file), "--group", group_id, "--format", "json")
    line = file.read_text()
    elsewhere = line.replace(f'"{topic}"', '"not-there"').replace('"partition": 0', '"partition": 1')
    file.write_text(line.replace('"offset": 11', '"offset": 12') + elsewhere)
    refused = groupd(tier, "offsets", "import", str(file))
    expected = f"groupd: nothing was imported: {group_id}: topic not-there is not there\n"
    assert (refused.returncode, refused.stderr) == (1, expected)
    assert committed(tier, group_id) == {0: 11}
    assert "1 offsets of 1 groups are imported" in fine(
        tier, "offsets", "import", str(file), "--skip-missing"
    )
    assert committed(tier, group_id) == {0: 12}


def test_a_whole_dump_brings_groups_back_with_their_epochs(
    tier: Tier, admin: AdminClient, topic: str, group_id: str, tmp_path: Path
) -> None:
    """A consumer group that was left: its offsets, its epoch, no members."""
    reader = Reader(tier.bootstrap, topic, group_id, **{"group.protocol": "consumer"})
    reader.start()
    until(lambda: len(reader.owned) == 6, "it owns everything")
    reader.stop()
    commit(admin, group_id, topic, {2: 5})
    before = json.loads(fine(tier, "groups", "describe", group_id, "--json"))
    file = tmp_path / "whole.json"
    fine(tier, "offsets", "export", str(file), "--whole", "--format", "json")
    # The tier of these tests has other groups: they would be refused as being there.
    lines = [line for line in file.read_text().splitlines() if f'"{group_id}"' in line]
    assert sorted(json.loads(line)["key"]["type"] for line in lines) == [1, 3, 6]
    file.write_text("\n".join(lines))
    there = groupd(tier, "offsets", "import", str(file), "--whole")
    assert there.stderr == f"groupd: nothing was imported: group {group_id} is there already\n"
    fine(tier, "groups", "delete", group_id)
    assert "1 offsets of 1 groups are imported" in fine(tier, "offsets", "import", str(file), "--whole")
    after = json.loads(fine(tier, "groups", "describe", group_id, "--json"))
    assert after == before
