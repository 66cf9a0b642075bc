"""Where a tier's nodes are at their next start, and where one that is added goes."""

from __future__ import annotations

from actors.ground.spec import NodeSpec
from cluster.node_plan import Wanted, added_node, nodes_again, plan_nodes
from cluster.settings import load


def ports(nodes: tuple[NodeSpec, ...]) -> list[tuple[int, int]]:
    return [(node.node_id, node.port) for node in nodes]


def test_another_node_of_one_machine_gets_the_next_port() -> None:
    nodes = plan_nodes(load({"port": "100"}, environment={}), ())
    assert added_node(nodes, Wanted(4)) == NodeSpec(node_id=4, host="127.0.0.1", port=103)
    assert added_node(nodes[2:], Wanted(4)).port == 103, "also when the first ones are gone"


def test_a_node_on_another_machine_gets_the_port_that_first_nodes_have() -> None:
    settings = load({"port": "100", "machine.address": "h1:9900"}, environment={})
    nodes = plan_nodes(settings, ("h1:9900", "h2:9900", "h3:9900"))
    fourth = added_node(nodes, Wanted(4, machine="h4:9900"))
    assert fourth == NodeSpec(node_id=4, host="h4", port=100, machine="h4:9900")
    assert added_node(nodes, Wanted(5, machine="h2:9900")).port == 101


def test_at_the_next_start_nodes_follow_the_first_port_except_those_with_one_of_their_own() -> None:
    nodes = plan_nodes(load({"port": "100"}, environment={}), ())
    own = NodeSpec(node_id=5, host="127.0.0.1", port=900)
    later = (*nodes[1:], added_node(nodes, Wanted(4)), own)
    again = nodes_again(load({"port": "200"}, environment={}), later)
    assert ports(again) == [(2, 201), (3, 202), (4, 203), (5, 900)]
