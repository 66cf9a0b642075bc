"""The model: what a tier of a given shape needs, with sums that can be done in one's head."""

from __future__ import annotations

import pytest

from cluster.capacity.checked import modelled
from cluster.capacity.model import JOURNAL_BYTES_MIN, Shape, needs, traffic
from cluster.capacity.workload import Workload
from tests.cluster.capacity import made_up

ONE = Shape(machines=1, nodes=1, partitions=1, copies=1)
THREE = Shape(machines=3, nodes=3, partitions=6, copies=3)
QUIET = Workload(1_000, heartbeat_s=10, commit_s=None, rebalance_s=None)


def test_a_hundred_heartbeats_a_second_cost_what_was_measured_at_that_rate() -> None:
    leader = needs(QUIET, ONE, made_up.table()).leader
    assert leader.cores == pytest.approx(0.01 + 100 * 60e-6)


def test_half_the_heartbeats_cost_more_than_half() -> None:
    table = made_up.table(leader_idle=0)
    half = needs(QUIET._replace(members=500), ONE, table).leader.cores
    assert half == pytest.approx(50 * 60 * 2**0.5 * 1e-6)
    assert half > needs(QUIET, ONE, table).leader.cores / 2


def test_further_offsets_of_a_commit_cost_their_own() -> None:
    one = needs(QUIET._replace(commit_s=10, offsets=1), ONE, made_up.table()).leader.cores
    three = needs(QUIET._replace(commit_s=10, offsets=3), ONE, made_up.table()).leader.cores
    assert three - one == pytest.approx(100 * 2 * 10e-6)


def test_a_tier_is_the_sum_of_its_processes() -> None:
    found = needs(QUIET, THREE, made_up.table())
    around = 3 * 0.01 + 3 * 0.01 + 3 * 0.01
    assert found.cores == pytest.approx(around + 6 * found.leader.cores + 12 * found.follower.cores)
    assert found.memory_bytes == pytest.approx(
        3 * 100e6 + 3 * 100e6 + 3 * 300e6 + 6 * found.leader.memory_bytes + 12 * found.follower.memory_bytes
    )


def test_without_commits_nothing_is_written() -> None:
    found = needs(QUIET, THREE, made_up.table())
    assert found.disk_write_bytes_s == 0
    assert traffic(QUIET, ONE, made_up.table()).replication == 0


def test_memory_has_members_connections_offsets_and_a_full_journal() -> None:
    table = made_up.table()
    load = QUIET._replace(commit_s=10, offsets=2)
    leader = needs(load, ONE, table).leader
    kept = 100e6 + 1_000 * 1_000 + 1_000 * 2_000 + 2_000 * 200
    snapshot = 1_000 * 100 + 2_000 * 50
    entries = 0.0  # 60 bytes of the disk for a commit of 100: nobody syncs alone
    assert leader.memory_bytes == pytest.approx(kept + JOURNAL_BYTES_MIN + entries * 170 + snapshot)


def test_a_young_tier_has_a_short_journal() -> None:
    load = QUIET._replace(commit_s=10, offsets=1)
    young, old = (needs(load._replace(age_s=age_s), ONE, made_up.table()) for age_s in (60, 1e9))
    assert young.leader.memory_bytes < old.leader.memory_bytes - 0.9 * JOURNAL_BYTES_MIN
    assert young.leader.disk_bytes < old.leader.disk_bytes


def test_every_copy_writes_what_is_committed() -> None:
    found = needs(QUIET._replace(commit_s=10, offsets=1, age_s=1), ONE, made_up.table())
    three = needs(QUIET._replace(commit_s=10, offsets=1, age_s=1), ONE._replace(copies=3), made_up.table())
    assert found.disk_write_bytes_s == pytest.approx(100 * 60)
    assert three.disk_write_bytes_s == pytest.approx(3 * found.disk_write_bytes_s)


def test_the_network_carries_requests_answers_and_packets() -> None:
    found = traffic(QUIET, ONE, made_up.table())
    assert found.received == pytest.approx(100 * (100 + 2 * 66))
    assert found.sent == pytest.approx(100 * (50 + 2 * 66))


def test_longer_names_are_sent_with_every_request() -> None:
    load = QUIET._replace(commit_s=10)
    usual, longer = (traffic(load._replace(name_bytes=each), ONE, made_up.table()) for each in (20, 30))
    assert longer.received - usual.received == pytest.approx(10 * (2 * 100 + 3 * load.commits_per_s))
    assert longer.sent - usual.sent == pytest.approx(10 * load.commits_per_s)


def test_replication_is_received_and_sent_once_by_somebody() -> None:
    found = traffic(QUIET._replace(commit_s=10), THREE, made_up.table())
    assert found.replication > 2 * 100 * 100
    assert found.received - found.clients_in == pytest.approx(found.replication)
    assert found.sent - found.clients_out == pytest.approx(found.replication)


def test_a_check_compares_bytes_without_packets() -> None:
    said = modelled(QUIET, ONE, made_up.table())
    assert said["clients_in_bytes_s"] == pytest.approx(100 * 100)
    assert said["clients_out_bytes_s"] == pytest.approx(100 * 50)
    assert said["heartbeats_s"] == 100


@pytest.mark.parametrize("copies", [1, 3, 5])
def test_the_controller_has_three_replicas_at_most(copies: int) -> None:
    assert THREE._replace(copies=copies).controllers == min(copies, 3)
