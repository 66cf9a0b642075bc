"""Which nodes the tier has: each address and id once, nothing dropped that still holds something."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.ground.features import GROUPD_VERSION, UPGRADE
from actors.ground.image import ACTIVE, DRAINING, LOST, NodeHome, NodeImage
from actors.ground.spec import Copies, Copy, copies
from actors.metadata.commands import (
    SET,
    AlterBrokerConfigs,
    BrokerConfigChange,
    CreateTopics,
    FeatureUpdate,
    ForgetReplica,
    GroupCopies,
    NewTopic,
    Outcome,
    PlaceGroup,
    RegisterNode,
    SeedPlacement,
    Served,
    SetNodeAlive,
    UpdateFeatures,
)
from actors.metadata.node_commands import AddNode, MoveNode, RemoveNode, SetNodeDuty
from tests.metadata.driver import NODES, Host, state_of, tier

GROUP = "partition-0"
ROW = copies((1, 2, 3))
FOURTH = AddNode(4, "host4", 9_094, "rack-d", 9_094, "host4:9900")


def risen(nodes: tuple[int, ...] = NODES) -> Host:
    """A host at the highest level."""
    host = tier(nodes=nodes)
    served = (Served("broker-1", "", 1, 2),)
    raised = UpdateFeatures((FeatureUpdate(GROUPD_VERSION, 2, UPGRADE),), served=served)
    assert host.submit(raised) == Outcome()
    return host


def four_nodes(row: Copies = ROW) -> Host:
    host = risen()
    assert host.submit(FOURTH) == Outcome()
    host.submit(SeedPlacement((GroupCopies("controller", copies((2,))), GroupCopies(GROUP, row))))
    return host


def refused(host: Host, command: object) -> str:
    """What is said of a command that changes nothing."""
    before = state_of(host.shard)
    outcome: Outcome = host.submit(command)  # type: ignore[arg-type]
    assert outcome.error_code
    assert state_of(host.shard) == before
    return outcome.error_message or ""


def test_an_added_node_is_in_the_image_with_what_its_actors_need() -> None:
    image = four_nodes().shard.image()
    assert image.nodes[4] == NodeImage(4, "host4", 9_094, "rack-d", True)
    assert image.homes == {4: NodeHome(9_094, "host4:9900")}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (FOURTH._replace(node_id=5, port=1, duty=LOST), "2 is no duty of a new node"),
        (FOURTH, "there is a node 4 already, at host4:9094"),
        (FOURTH._replace(node_id=5), "host4:9094 is node 4's"),
        (FOURTH._replace(node_id=5, host="host1", port=9_091), "host1:9091 is node 1's"),
        (FOURTH._replace(node_id=0, port=1), "the id 0 was used before; the next one is 5"),
        (FOURTH._replace(node_id=5, port=0), "port 0: 1 to 65535 is allowed"),
        (FOURTH._replace(node_id=5, host=""), "a node needs a host"),
    ],
)
def test_a_node_that_is_there_or_cannot_be_is_refused_in_words(wrong: AddNode, said: str) -> None:
    assert said in refused(four_nodes(), wrong)


def test_a_draining_node_takes_nothing_new_and_leads_no_topic_partition() -> None:
    host = four_nodes(copies((1, 2)))
    host.submit(CreateTopics((NewTopic("t", 8),)))
    assert 4 in host.shard.image().topics["t"].partition_leaders
    assert host.submit(SetNodeDuty(4, DRAINING)) == Outcome()
    assert host.shard.image().duty(4) == DRAINING
    assert 4 not in host.shard.image().topics["t"].partition_leaders
    host.submit(CreateTopics((NewTopic("u", 8),)))
    assert 4 not in host.shard.image().topics["u"].partition_leaders
    row = (Copy(0, 1), Copy(-1, 4))
    assert "takes nothing new" in refused(host, PlaceGroup(GROUP, copies((1, 2)), row))
    assert host.submit(SetNodeDuty(4, ACTIVE)) == Outcome()
    assert host.submit(PlaceGroup(GROUP, copies((1, 2)), row)) == Outcome()


def test_a_drain_that_would_leave_too_few_nodes_is_refused() -> None:
    host = four_nodes()
    assert host.submit(SetNodeDuty(4, DRAINING)) == Outcome()
    said = refused(host, SetNodeDuty(1, DRAINING))
    assert "without node 1 there are 2 nodes for the 3 copies of partition-0" in said
    assert "there is no node 9; the tier has 1, 2, 3, 4" in refused(host, SetNodeDuty(9, DRAINING))


def test_a_node_that_answers_is_not_lost() -> None:
    host = four_nodes()
    assert "node 1 answers, so it is not lost" in refused(host, SetNodeDuty(1, LOST))
    host.submit(SetNodeAlive(1, False))
    assert host.submit(SetNodeDuty(1, LOST)) == Outcome()


def test_only_a_node_that_holds_nothing_is_removed_and_it_does_not_come_back() -> None:
    host = four_nodes()
    host.submit(CreateTopics((NewTopic("t", 8),)))
    host.submit(AlterBrokerConfigs((BrokerConfigChange("1", (("max.connections", SET, "5"),)),)))
    host.submit(SetNodeDuty(1, DRAINING))
    assert "node 1 still holds replica 0 of partition-0: drain it first" in refused(host, RemoveNode(1))
    moved = (Copy(-1, 4), Copy(1, 2), Copy(2, 3))
    host.submit(PlaceGroup(GROUP, copies((1, 2, 3)), moved))
    assert "still holds replica 0 of partition-0" in refused(host, RemoveNode(1)), "it is leaving"
    host.submit(ForgetReplica(GROUP, 0))
    assert host.submit(RemoveNode(1)) == Outcome()
    image = host.shard.image()
    assert set(image.nodes) == {2, 3, 4}
    assert 1 not in image.homes
    assert 1 not in image.topics["t"].partition_leaders
    assert image.broker_configs == {}
    assert host.submit(RemoveNode(1)) == Outcome(), "an answer that was lost may be asked for again"
    assert "node 1 was removed" in refused(host, RegisterNode(1, "host1", 9_091))
    assert "the id 1 was used before" in refused(host, AddNode(1, "host1", 9_091, None, 9_091))


def test_the_id_of_a_removed_node_is_not_given_again_even_if_it_was_the_highest() -> None:
    host = four_nodes()
    assert host.submit(RemoveNode(4)) == Outcome()
    assert host.shard.state.next_node_id == 5


def test_a_node_whose_machine_has_another_address_is_the_same_node() -> None:
    host = four_nodes()
    host.submit(SetNodeDuty(4, DRAINING))
    moved = MoveNode(4, "host9", 9_094, "host9:9900")
    assert host.submit(moved) == Outcome()
    image = host.shard.image()
    assert image.nodes[4] == NodeImage(4, "host9", 9_094, "rack-d", True)
    assert image.homes[4] == NodeHome(9_094, "host9:9900", None, DRAINING)
    before = state_of(host.shard)
    assert host.submit(moved) == Outcome()
    assert state_of(host.shard) == before
    assert "there is no node 7" in refused(host, moved._replace(node_id=7))


def test_the_last_node_stays() -> None:
    host = risen(nodes=(1,))
    assert "no node would serve clients" in refused(host, RemoveNode(1))
    assert "node 1 is the tier's only one" in refused(host, SetNodeDuty(1, DRAINING))


def test_below_level_2_nodes_stay_as_they_are() -> None:
    host = tier()
    for command in (FOURTH, SetNodeDuty(1, DRAINING), RemoveNode(1)):
        assert "groupd.version is 1, and nodes come and go from level 2 on" in refused(host, command)


def test_a_node_that_is_not_there_is_refused() -> None:
    outcome = risen().submit(RemoveNode(9))
    assert outcome.error_code == ErrorCode.broker_id_not_registered
