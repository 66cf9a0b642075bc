"""What the controller's leader has replicas do, given what the tier's actors say: few at a time."""

from __future__ import annotations

import asyncio
from typing import Any

from kio.schema.errors import ErrorCode

from actors.ground.spec import Copy, NodeSpec, TierSpec, broker_name, copies, partition_name
from actors.metadata.commands import NEW_REPLICA, Outcome, PlaceGroup
from actors.metadata.node_commands import RemoveNode
from cluster.leaders_return import return_leaders
from cluster.rebalancing import CHANGES_AT_ONCE, forget_lost, rebalance
from cluster.sight import Look, Sight
from storage.raft.members import member_id

PARTITIONS = 4


def tier(nodes: int = 4, **changed: Any) -> TierSpec:
    """A tier whose partitions all live on the nodes 1 to 3."""
    spec = TierSpec(
        tier_id="t",
        secret="",
        data_dir="/d",
        run_dir="/r",
        nodes=tuple(NodeSpec(node_id=n, host="h", port=n) for n in range(1, nodes + 1)),
        placement=(copies((1, 2, 3)),) * PARTITIONS,
        controllers=copies((1,)),
    )
    return spec._replace(**changed)


def seen(spec: TierSpec, without: tuple[int, ...] = (), *, learning: int | None = None) -> Sight:
    """What the actors say: all are well, but for the nodes in `without`. Partition `learning` has a member
    that does not vote yet."""
    looks = {
        broker_name(node.node_id): Look(None, {"problem": None})
        for node in spec.nodes
        if node.node_id not in without
    }
    for partition, row in enumerate(spec.placement):
        members = [{"id": member_id(c.replica_id, 1), "node_id": c.node_id, "votes": True} for c in row]
        if partition == learning:
            members[-1]["votes"] = False
        leader = next(copy for copy in row if copy.node_id not in without)
        looks[partition_name(partition, leader.replica_id)] = Look(
            None, {"serving": True, "term": 1, "members": members, "members_committed": True}
        )
    return Sight(spec, looks)


class Controller:
    """Notes what is submitted, and answers with one outcome."""

    def __init__(self, outcome: Outcome = Outcome()) -> None:  # noqa: B008 (it cannot be changed)
        self.submitted: list[Any] = []
        self._outcome = outcome

    async def submit(self, command: Any) -> Outcome:
        self.submitted.append(command)
        return self._outcome


def changes(sight: Sight, *, is_quiet: bool = True, controller: Controller | None = None) -> list[Any]:
    chosen = controller or Controller()
    asyncio.run(rebalance(sight, chosen.submit, is_quiet=is_quiet))
    return chosen.submitted


def test_a_new_node_gets_its_share_a_few_groups_at_a_time() -> None:
    submitted = changes(seen(tier()))
    assert len(submitted) == CHANGES_AT_ONCE
    for command in submitted:
        assert isinstance(command, PlaceGroup)
        assert Copy(NEW_REPLICA, 4) in command.copies


def test_a_group_that_still_learns_counts_as_one_of_them_and_is_left_alone() -> None:
    submitted = changes(seen(tier(), learning=0))
    assert [command.group for command in submitted] == ["partition-1"]


def test_groups_that_nobody_leads_hinder_no_others() -> None:
    spec = tier(draining=(1,))
    unled = {partition_name(partition, 0) for partition in range(2)}
    looks = {name: look for name, look in seen(spec).looks.items() if name not in unled}
    assert [command.group for command in changes(Sight(spec, looks))] == ["partition-2", "partition-3"]


def test_numbers_wait_while_something_else_goes_on_and_where_they_are_nobodys_business() -> None:
    assert changes(seen(tier()), is_quiet=False) == []
    assert changes(seen(tier(replica_balance_enable=False))) == []
    assert changes(seen(tier(), without=(2,))) == []


def test_a_node_that_drains_is_emptied_whatever_else_goes_on() -> None:
    spec = tier(draining=(1,), replica_balance_enable=False)
    submitted = changes(seen(spec), is_quiet=False)
    assert len(submitted) == CHANGES_AT_ONCE
    assert all(
        1 not in dict(command.copies).values() for command in submitted if command.group != "controller"
    )


def test_what_a_lost_node_had_is_replaced_at_once() -> None:
    submitted = changes(seen(tier(lost=(1,)), without=(1,)))
    assert [command.copies[0] for command in submitted] == [Copy(NEW_REPLICA, 4)] * CHANGES_AT_ONCE


def test_what_the_controller_refuses_is_not_said_to_be_done() -> None:
    controller = Controller(Outcome(ErrorCode.invalid_update_version, "look again"))
    assert asyncio.run(rebalance(seen(tier()), controller.submit, is_quiet=True)) == []


def test_a_lost_node_is_forgotten_when_nothing_is_left_there() -> None:
    controller = Controller()
    held = tier(lost=(1,))
    asyncio.run(forget_lost(held, controller.submit))
    assert controller.submitted == []
    moved = held._replace(placement=(copies((4, 2, 3)),), controllers=copies((2,)))
    asyncio.run(forget_lost(moved._replace(leaving=(("partition-0", Copy(9, 1)),)), controller.submit))
    assert controller.submitted == []
    asyncio.run(forget_lost(moved, controller.submit))
    assert controller.submitted == [RemoveNode(1)]


class LeadingReplica:
    """The handle of a replica's actor that does what it is asked for."""

    @property
    def transfer(self) -> LeadingReplica:
        return self

    async def remote(self, to_replica: int) -> bool:
        return True


def test_leadership_goes_back_to_the_preferred_node_unless_that_is_drained() -> None:
    spec = tier()
    leads = {"serving": True, "term": 1, "replica": 1, "node_id": 2, "lag": {0: 0}}
    looks = {
        partition_name(0, 0): Look(None, {"serving": False}),
        partition_name(0, 1): Look(LeadingReplica(), leads),
    }
    returned = asyncio.run(return_leaders(Sight(spec, looks), most=1))
    assert returned == ["partition 0: leadership goes back to node 1"]
    for leaving in ({"draining": (1,)}, {"lost": (1,)}):
        assert asyncio.run(return_leaders(Sight(spec._replace(**leaving), looks), most=1)) == []
