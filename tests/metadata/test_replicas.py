"""Which replicas a group should have: decided once, never the same number twice, refused in words."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.ground.spec import PORTS_A_GROUP, Copies, Copy, NodeSpec, TierSpec, copies
from actors.metadata.commands import (
    NEW_REPLICA,
    ForgetReplica,
    GroupCopies,
    Outcome,
    PlaceGroup,
    SeedPlacement,
)
from actors.metadata.records import GroupPlacementValue
from actors.metadata.replicas import present_spec
from tests.metadata.driver import Host, state_of, tier

ROW = copies((1, 2, 3))
GROUP = "partition-0"
MOVED = (Copy(0, 1), Copy(3, 3), Copy(2, 3))


def placed() -> Host:
    host = tier()
    seeds = (GroupCopies("controller", copies((1,))), GroupCopies(GROUP, ROW))
    assert host.submit(SeedPlacement(seeds)) == Outcome()
    return host


def value(host: Host, group: str = GROUP) -> GroupPlacementValue:
    return host.shard.state.placements[group]


def place(host: Host, row: Copies, expected: Copies = ROW) -> Outcome:
    outcome: Outcome = host.submit(PlaceGroup(GROUP, expected, row))
    return outcome


def test_a_placement_is_seeded_once() -> None:
    host = placed()
    host.submit(SeedPlacement((GroupCopies(GROUP, copies((2,))), GroupCopies("partition-1", ROW))))
    assert value(host) == GroupPlacementValue(ROW, 3)
    assert value(host, "partition-1") == GroupPlacementValue(ROW, 3)


def test_a_moved_replica_is_a_new_one_and_the_old_one_leaves_when_it_is_forgotten() -> None:
    host = placed()
    assert place(host, (Copy(0, 1), Copy(NEW_REPLICA, 3), Copy(2, 3))) == Outcome()
    assert value(host) == GroupPlacementValue(MOVED, 4, (Copy(1, 2),))
    host.submit(ForgetReplica(GROUP, 1))
    assert value(host) == GroupPlacementValue(MOVED, 4)


def test_of_two_changes_at_once_the_second_is_refused() -> None:
    host = placed()
    place(host, (Copy(0, 1), Copy(NEW_REPLICA, 3), Copy(2, 3)))
    before = state_of(host.shard)
    refused = place(host, ROW[:1])
    assert refused.error_code == ErrorCode.invalid_update_version
    assert "0 on node 1, 3 on node 3, 2 on node 3" in (refused.error_message or "")
    assert state_of(host.shard) == before
    assert place(host, MOVED) == Outcome(), "what is so already needs no change"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ((*ROW, Copy(NEW_REPLICA, 9)), "there is no node 9; the tier has 1, 2, 3"),
        ((), "its only replica cannot be removed"),
        ((*ROW, *(Copy(NEW_REPLICA, 1),) * 13), "16 replicas, at most 15 are allowed"),
        ((Copy(0, 2), *ROW[1:]), "replica number 0 was used before; the next one is 3"),
        ((*ROW, Copy(2, 3)), "twice"),
        ((*ROW, Copy(65_536, 3)), "above 65535"),
    ],
)
def test_what_a_group_cannot_have_is_refused_in_words(row: Copies, said: str) -> None:
    host = placed()
    before = state_of(host.shard)
    outcome = place(host, row)
    assert outcome.error_code == ErrorCode.invalid_replica_assignment
    assert said in (outcome.error_message or "")
    assert state_of(host.shard) == before


def test_a_group_that_there_is_not_is_refused() -> None:
    outcome = tier().submit(PlaceGroup("partition-9", ROW, ROW[:1]))
    assert (outcome.error_code, outcome.error_message) == (
        ErrorCode.invalid_request,
        "there is no group partition-9",
    )


def test_a_number_that_left_does_not_come_back() -> None:
    host = placed()
    place(host, ROW[:1])
    for replica_id in (1, 2):
        host.submit(ForgetReplica(GROUP, replica_id))
    assert "used before" in (place(host, ROW, expected=ROW[:1]).error_message or "")
    place(host, (ROW[0], Copy(NEW_REPLICA, 2), Copy(NEW_REPLICA, 3)), expected=ROW[:1])
    assert value(host).copies == (Copy(0, 1), Copy(3, 2), Copy(4, 3))


def test_numbers_that_would_meet_on_one_port_are_left_out() -> None:
    host = placed()
    row = ROW
    for _ in range(PORTS_A_GROUP):
        place(host, (*row[:2], Copy(NEW_REPLICA, 3)), expected=row)
        gone, row = row[2], value(host).copies
        host.submit(ForgetReplica(GROUP, gone.replica_id))
        ports = [copy.replica_id % PORTS_A_GROUP for copy in row]
        assert len(set(ports)) == len(ports)


def test_brokers_learn_the_controllers_from_the_image() -> None:
    host = placed()
    host.submit(PlaceGroup("controller", copies((1,)), (Copy(NEW_REPLICA, 2),)))
    assert host.shard.image().controllers == (1, 0)
    host.submit(ForgetReplica("controller", 0))
    assert host.shard.image().controllers == (1,)


def test_actors_made_later_are_told_the_present_places() -> None:
    nodes = tuple(NodeSpec(node_id=n, host="h", port=n) for n in (1, 2, 3))
    spec = TierSpec(
        tier_id="t",
        secret="",
        data_dir="/d",
        run_dir="/r",
        nodes=nodes,
        placement=(ROW, ROW),
        controllers=copies((1,)),
    )
    host = placed()
    place(host, MOVED)
    present = present_spec(spec, host.shard.state.placements)
    assert (present.placement, present.controllers) == ((MOVED, ROW), copies((1,)))
    assert present.leaving == ((GROUP, Copy(1, 2)),)
    assert (present.node_of(GROUP, 1), present.node_of(GROUP, 3)) == (2, 3)
