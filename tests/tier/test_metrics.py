"""What a real tier tells of itself: over HTTP at each node, and by `groupd metrics` (A23)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from actors.metrics.families import FAMILIES, PREFIX
from bench.ground.throwaway import Tier
from cluster.ports import free_ports
from tests.polling import DEADLINE_S, until
from tests.tier.consumers import Reader, produce
from tests.tier.scrape import ONE_NODE, scraped

pytestmark = pytest.mark.clients

RECORDS = 60


@pytest.fixture(scope="module")
def measured() -> Iterator[Tier]:
    """A tier of one node with metrics on a free port."""
    with Tier(*ONE_NODE, "--set", "group.initial.rebalance.delay.ms=0", port=free_ports(1)) as running:
        yield running


def test_metrics_follow_a_group_from_its_first_member_to_its_last_commit(measured: Tier) -> None:
    """Groups by state, members, offsets, commits, rebalances, requests: from zero to what was done."""
    before = scraped(measured)
    assert before["group_count", ("consumer",)] == before["offset_commits_total", ()] == 0
    admin = AdminClient({"bootstrap.servers": measured.bootstrap})
    admin.create_topics([NewTopic("measured", 6, 1)])["measured"].result(DEADLINE_S)
    produce(measured.bootstrap, "measured", RECORDS)
    readers = [
        Reader(measured.bootstrap, "measured", f"measured-{protocol}", **{"group.protocol": protocol})
        for protocol in ("classic", "consumer")
    ]
    for reader in readers:
        reader.start()
    for reader in readers:
        until(lambda reader=reader: len(reader.seen) == RECORDS, "every record read")
    amid = scraped(measured)
    assert amid["classic_group_count", ("Stable",)] == amid["consumer_group_count", ("Stable",)] == 1
    assert amid["group_member_count", ("classic",)] == amid["group_member_count", ("consumer",)] == 1
    for reader in readers:
        reader.stop()
    after = scraped(measured)
    assert after["classic_group_count", ("Empty",)] == after["consumer_group_count", ("Empty",)] == 1
    assert after["offset_commits_total", ()] == after["offset_count", ()] == 12
    assert after["group_completed_rebalances_total", ()] >= 1
    assert after["consumer_group_rebalances_total", ()] >= 2
    assert after["requests_total", ("join_group",)] >= 1
    assert after["errors_total", ("join_group", "member_id_required")] >= 1
    assert after["num_partitions", ("active",)] == 2


def test_command_tells_the_same_as_a_table_as_json_and_as_text(measured: Tier) -> None:
    rows = json.loads(measured.run("metrics", "--json"))
    assert {row["name"].removeprefix(PREFIX) for row in rows} <= set(FAMILIES)
    assert any(row["name"] == "groupd_num_partitions" and row["value"] == 2 for row in rows)
    assert 'groupd_num_partitions{state="active"} 2.0' in measured.run("metrics", "--prometheus")
    assert "event_processing_time_seconds" in measured.run("metrics")


def test_list_explains_every_metric(measured: Tier) -> None:
    told = measured.run("metrics", "--list")
    for name in FAMILIES:
        assert PREFIX + name in told
