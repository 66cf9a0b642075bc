"""Nodes, leaders of offsets partitions, producer ids."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.ground.contract import NOTHING, Request
from actors.ground.image import NO_NODE, NodeImage
from actors.metadata.commands import (
    AllocateProducerIds,
    CreateTopics,
    NewTopic,
    Outcome,
    ProducerIdBlock,
    RegisterNode,
    ReportController,
    ReportLeader,
    SetNodeAlive,
)
from tests.metadata.driver import Host, tier


def leaders(host: Host, name: str) -> tuple[int, ...]:
    return host.shard.image().topics[name].partition_leaders


def test_only_partitions_of_a_dead_node_get_another_leader_and_they_stay_there() -> None:
    host = tier()
    host.submit(CreateTopics((NewTopic("t", 6),)))
    before = leaders(host, "t")
    host.submit(SetNodeAlive(2, False))
    after = leaders(host, "t")
    assert 2 not in after
    assert all(new == old for new, old in zip(after, before, strict=True) if old != 2)
    host.submit(SetNodeAlive(2, True))
    assert leaders(host, "t") == after


def test_when_the_last_node_dies_its_partitions_stay_until_another_lives() -> None:
    host = tier(nodes=(1, 2))
    host.submit(SetNodeAlive(2, False))
    host.submit(CreateTopics((NewTopic("t", 2),)))
    host.submit(SetNodeAlive(1, False))
    assert leaders(host, "t") == (1, 1)
    host.submit(SetNodeAlive(2, True))
    assert leaders(host, "t") == (2, 2)


def test_a_node_registers_again_at_another_address_and_is_alive() -> None:
    host = tier()
    host.submit(SetNodeAlive(3, False))
    host.submit(RegisterNode(3, "elsewhere", 1234, "rack-b"))
    assert host.shard.image().nodes[3] == NodeImage(3, "elsewhere", 1234, "rack-b", True)


def test_what_is_known_already_makes_no_new_version() -> None:
    host = tier()
    host.submit(ReportLeader(0, 1, 5))
    host.submit(ReportController(2))
    version = host.shard.image().version
    host.submit(RegisterNode(1, "host1", 9_091))
    host.submit(SetNodeAlive(1, True))
    host.submit(ReportLeader(0, 1, 5))
    host.submit(ReportController(2))
    host.submit(AllocateProducerIds(1))
    assert host.shard.image().version == version


def test_an_unknown_node_is_not_marked() -> None:
    outcome = tier().submit(SetNodeAlive(9, True))
    assert outcome.error_code == ErrorCode.broker_id_not_registered


def test_of_leaders_reported_late_the_highest_term_wins() -> None:
    host = tier()
    for report in (ReportLeader(1, 2, 7), ReportLeader(1, 3, 6), ReportLeader(1, 1, 7)):
        assert host.submit(report) == Outcome()
    assert host.shard.image().offsets_leaders == (NO_NODE, 2, NO_NODE, NO_NODE)
    host.submit(ReportLeader(1, 3, 8))
    assert host.shard.image().offsets_leaders[1] == 3
    assert host.submit(ReportLeader(4, 1, 9)).error_code == ErrorCode.invalid_request


def test_blocks_of_producer_ids_never_overlap() -> None:
    host = tier()
    blocks = [host.submit(AllocateProducerIds(node)) for node in (1, 2, 1)]
    assert blocks == [ProducerIdBlock(0, first, 1_000) for first in (0, 1_000, 2_000)]


def test_the_controllers_node_is_in_the_image() -> None:
    host = tier()
    assert host.shard.image().controller_node_id == NO_NODE
    host.submit(ReportController(3))
    assert host.shard.image().controller_node_id == 3


def test_a_refusal_is_one_outcome_with_the_code() -> None:
    request = Request(1, -1, 0, "", "", CreateTopics((NewTopic("t"),)))
    refusal = tier().shard.refusal(request, ErrorCode.not_coordinator)
    assert refusal == Outcome(ErrorCode.not_coordinator)


def test_elections_time_and_images_move_nothing_in_the_shard() -> None:
    shard = tier().shard
    assert shard.next_deadline_ms is None
    assert (shard.on_elected(0), shard.expire(0), shard.on_metadata(shard.image(), 0)) == (NOTHING,) * 3
