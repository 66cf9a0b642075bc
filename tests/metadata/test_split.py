"""The controller doubles the number of offsets partitions, and remembers how far that is."""

from __future__ import annotations

from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from actors.controller import placement_file
from actors.ground.features import FEATURES, GROUPD_VERSION
from actors.ground.spec import NodeSpec, TierSpec, copies
from actors.metadata.commands import (
    Command,
    FoundTier,
    GroupCopies,
    Outcome,
    RegisterNode,
    SeedPlacement,
    pack,
    unpack,
)
from actors.metadata.records import SplitValue
from actors.metadata.replicas import is_formed, is_founding, present_spec
from actors.metadata.split_commands import NoteDropped, NoteMoved, SplitPartitions
from actors.metadata.wire import pack_image, unpack_image
from actors.protocol.partitioning import awaits_groups, partitioning_of
from cluster import tier_file
from cluster.partition_split import SplitState
from tests.metadata.driver import Host, new_shard, state_of

ROWS = (copies((1, 2, 3)), copies((2, 3, 1)))
CONTROLLERS = copies((1,))


def host_of(*, level: int = FEATURES[GROUPD_VERSION].high, rows: int = 2) -> Host:
    host = Host(new_shard(offsets_partitions=rows))
    host.submit(FoundTier(level))
    for node_id in (1, 2, 3):
        host.submit(RegisterNode(node_id, f"host{node_id}", 9_090 + node_id))
    seeds = tuple(GroupCopies(f"partition-{p}", ROWS[p % 2]) for p in range(rows))
    host.submit(SeedPlacement(seeds))
    host.undo.clear()
    return host


def refusal(host: Host, command: Command) -> str:
    """Return why a command is refused; nothing may have changed."""
    before = state_of(host.shard)
    outcome: Outcome = host.submit(command)
    assert outcome.error_code == ErrorCode.invalid_request
    assert state_of(host.shard) == before
    return outcome.error_message or ""


def spec_of() -> TierSpec:
    nodes = tuple(NodeSpec(node_id=n, host=f"host{n}", port=9_092) for n in (1, 2, 3))
    return TierSpec("tier", "s", "/data", "/run", nodes, ROWS, CONTROLLERS, raft_port_base=20_000)


def test_every_partition_gets_a_child_on_its_own_nodes_that_another_one_should_lead() -> None:
    host = host_of()
    assert host.submit(SplitPartitions(2)) == Outcome()
    image = host.shard.image()
    assert partitioning_of(image) == (4, (0, 1))
    assert partitioning_of(unpack_image(pack_image(image))) == (4, (0, 1))
    assert image.topics["__consumer_offsets"].partition_count == 4
    placements = host.shard.state.placements
    assert [placements[f"partition-{p}"].copies for p in (2, 3)] == [copies((2, 3, 1)), copies((3, 1, 2))]


def test_a_split_is_over_when_every_parent_has_moved_and_dropped() -> None:
    host = host_of()
    host.submit(SplitPartitions(2))
    for parent in (1, 0):
        assert host.submit(NoteMoved(parent)) == Outcome()
        assert host.submit(NoteMoved(parent)) == Outcome(), "news may come twice"
    assert host.shard.image().unmoved == ()
    assert host.shard.state.split == SplitValue(4, (), (0, 1))
    for parent in (1, 0, 0):
        assert host.submit(NoteDropped(parent)) == Outcome()
    assert host.shard.state.split == SplitValue(4, (), ())
    assert host.submit(SplitPartitions(4)) == Outcome()
    assert partitioning_of(host.shard.image()) == (8, (0, 1, 2, 3))


def test_what_cannot_be_split_is_refused_in_words_and_nothing_changes() -> None:
    host = host_of()
    assert "there are 2 offsets partitions by now, not 4" in refusal(host, SplitPartitions(4))
    host.submit(SplitPartitions(2))
    assert "a split is under way: 2 of 2 partitions" in refusal(host, SplitPartitions(4))
    assert "partition 1 has not moved yet" in refusal(host, NoteDropped(1))
    assert "raise it when every node has this release" in refusal(host_of(level=1), SplitPartitions(2))
    assert "at most 1000 are allowed" in refusal(host_of(rows=501), SplitPartitions(501))
    unplaced = host_of()
    unplaced.shard.state.placements.pop("partition-1")
    assert "does not know the replicas of partition 1" in refusal(unplaced, SplitPartitions(2))


@pytest.mark.parametrize("command", [SplitPartitions(2), NoteMoved(1), NoteDropped(0)])
def test_commands_travel_as_bytes_and_are_refused_by_who_does_not_lead(command: Command) -> None:
    assert unpack(pack(command)) == command


def test_a_new_leader_and_the_next_start_know_how_far_a_split_is(tmp_path: Path) -> None:
    host = host_of()
    host.submit(SplitPartitions(2))
    host.submit(NoteMoved(0))
    restored = new_shard(offsets_partitions=2)
    for key, value in host.shard.records():
        restored.apply(key, value)
    assert state_of(restored) == state_of(host.shard)
    state = restored.state
    spec = present_spec(spec_of(), state.placements, state.split)
    assert (spec.offsets_partitions, spec.unmoved, spec.undropped) == (4, (1,), (0, 1))
    saved = placement_file.SavedPlacement("tier", state.version, dict(state.placements), split=state.split)
    placement_file.write(tmp_path, saved)
    assert placement_file.read(tmp_path) == saved
    tier = tier_file.TierFile(
        tier_id="tier", nodes=spec.nodes, placement=ROWS, controllers=CONTROLLERS, ray_address=""
    )
    tier_file.write(tmp_path, tier)
    found = tier_file.read(tmp_path)
    assert found is not None
    assert (found.placement, found.unmoved, found.undropped) == (spec.placement, (1,), (0, 1))


def test_the_addresses_of_replicas_stay_when_partitions_are_split() -> None:
    host = host_of()
    host.submit(SplitPartitions(2))
    before = spec_of()
    after = present_spec(before, host.shard.state.placements, host.shard.state.split)
    assert [after.raft_address(f"partition-{p}", 2, 1) for p in (0, 1)] == [
        before.raft_address(f"partition-{p}", 2, 1) for p in (0, 1)
    ]
    groups = ["controller", *(f"partition-{p}" for p in range(4))]
    addresses = {after.raft_address(group, replica, 1) for group in groups for replica in range(16)}
    assert len(addresses) == 5 * 16


def test_a_child_founds_its_group_until_its_parent_has_moved() -> None:
    host = host_of()
    host.submit(SplitPartitions(2))
    host.submit(NoteMoved(0))
    state = host.shard.state
    spec = present_spec(spec_of(), state.placements, state.split)
    groups = ("controller", "partition-0", "partition-2", "partition-3")
    assert [is_founding(spec, group) for group in groups] == [False, False, False, True]
    assert [awaits_groups(p, 4, spec.unmoved) for p in range(4)] == [False, False, False, True]
    # A tier that goes down before the child's replicas have a journal starts again.
    formed = spec._replace(formed=True)
    assert [is_formed(formed, group) for group in (None, *groups)] == [True, True, True, True, False]


def test_the_command_line_says_how_far_a_split_is() -> None:
    state = SplitState(4, (1,), (0, 1))
    assert state.in_words() == "1 of 2 partitions have handed their groups over, 0 are done"
    assert [state.part_of(p) for p in range(4)] == [
        "removes what has moved",
        "is to be split",
        "serves",
        "waits for its groups",
    ]
    assert SplitState(4, (), ()).part_of(3) == "serves"
