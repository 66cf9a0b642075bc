"""Say where a tier's nodes are: those of a new tier, the same at their next start, and one that is added.

Nodes that share a machine take ports one after the other: node n has the n-th port from the tier's first one
on, unless it was given another when it was added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from actors.ground.spec import NodeSpec
from cluster.machine_moves import host_of
from cluster.settings import Settings


class Wanted(NamedTuple):
    """What was said of a node that is to be added; None: what follows from the tier's other nodes."""

    node_id: int | None = None
    host: str | None = None
    port: int | None = None
    rack: str | None = None
    machine: str | None = None
    ray_node: str | None = None


def plan_nodes(settings: Settings, machines: Sequence[str]) -> tuple[NodeSpec, ...]:
    """Return the nodes that the settings ask for: on this machine if `machines` is empty, else spread over
    those addresses.

    Nodes that share an address take ports one after the other. Machines are named by their addresses in a Ray
    cluster, or by those of their agents (host:port).
    """
    racks = settings["racks"]
    used: dict[str, int] = {}
    nodes = []
    for index in range(settings["nodes"]):
        machine = machines[index % len(machines)] if machines else None
        has_agent = machine is not None and bool(settings["machine.address"])
        host = host_of(machine) if has_agent else machine or settings["host"]
        offset = used.setdefault(host, 0)
        used[host] += 1
        advertised = settings["advertised.port"]
        nodes.append(
            NodeSpec(
                node_id=index + 1,
                host=host,
                port=settings["port"] + offset,
                rack=racks[index] if racks else None,
                ray_node=None if has_agent else machine,
                machine=machine if has_agent else None,
                advertised_port=advertised + offset if advertised else None,
            )
        )
    return tuple(nodes)


def nodes_again(settings: Settings, nodes: Sequence[NodeSpec]) -> tuple[NodeSpec, ...]:
    """Return the nodes of a tier on one machine at its next start: ports and host are those of the settings,
    except of nodes that were given their own."""
    first, host = first_port(nodes), usual_host(nodes)
    advertised = settings["advertised.port"]
    again = []
    for node in nodes:
        offset = node.node_id - 1
        if node.port == first + offset:
            node = replace(
                node,
                port=settings["port"] + offset,
                advertised_port=advertised + offset if advertised else None,
            )
        if node.host == host:
            node = replace(node, host=settings["host"])
        again.append(node)
    return tuple(again)


def first_port(nodes: Sequence[NodeSpec]) -> int:
    """Return the port from which on most of the nodes of one machine have theirs."""
    firsts = Counter(node.port - node.node_id + 1 for node in sorted(nodes, key=lambda node: node.node_id))
    return firsts.most_common(1)[0][0]


def usual_host(nodes: Sequence[NodeSpec]) -> str:
    return Counter(node.host for node in nodes).most_common(1)[0][0]


def added_node(nodes: Sequence[NodeSpec], wanted: Wanted) -> NodeSpec:
    """Return the node that is added to these; its id is given. What else is not given follows from its
    machine: on one that has nodes already the next port, on another one the port that the first node of each
    machine has."""
    node_id, host, port, rack, machine, ray_node = wanted
    assert node_id is not None, "the controller knows the next id"
    if machine is None and ray_node is None:
        place = first_port(nodes) + node_id - 1
        return NodeSpec(node_id=node_id, host=host or usual_host(nodes), port=port or place, rack=rack)
    there = [node for node in nodes if node.elsewhere == (machine or ray_node)]
    place = 1 + max(node.port for node in there) if there else min(node.port for node in nodes)
    own_host = there[0].host if there else host_of(machine) if machine else ray_node
    return NodeSpec(
        node_id=node_id,
        host=host or own_host or "",
        port=port or place,
        rack=rack if rack is not None else there[0].rack if there else None,
        ray_node=ray_node,
        machine=machine,
    )
