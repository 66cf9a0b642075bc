"""`groupd groups` against a real tier."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from confluent_kafka import Consumer, TopicPartition

from bench.throwaway import Tier

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
    assert (described["group"], described["state"], described["members"]) == (group_id, "empty", [])
    (row,) = described["offsets"]
    assert (row["topic"], row["partition"], row["committed"], row["lag"]) == (topic, 0, 0, 0)
