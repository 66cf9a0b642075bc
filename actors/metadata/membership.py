"""Decide which nodes the tier has: who is taken in, who is to give up what it holds, and who is forgotten.

A node that leaves is drained first: the controller's leader has other nodes take its replicas
(cluster.balance), and only when nothing is left on it can it be removed. A node whose machine is gone for
good goes the same way, except that nobody there is asked.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.ground.contract import Record
from actors.ground.features import GROUPD_VERSION
from actors.ground.image import ACTIVE, AS_BEGUN, DRAINING, JOINING, LOST, NodeHome
from actors.metadata.commands import Outcome
from actors.metadata.node_commands import AddNode, MoveNode, RemoveNode, SetNodeDuty
from actors.metadata.nodes import topics_moved
from actors.metadata.records import (
    BROKER_CONFIG,
    NODE,
    NODE_HOME,
    NODE_IDS,
    BrokerConfigKey,
    NodeHomeKey,
    NodeIdsValue,
    NodeKey,
    NodeValue,
    SingletonKey,
)
from actors.metadata.state import MetadataState

LEVEL_WITH_CHANGES = 2
"""The level of GROUPD_VERSION from which on a log may say that nodes come and go."""
NODES_MAX = 1_000
PORT_MAX = 65_535
NAMED_MAX = 5
"""How many of the replicas that hinder a removal are named."""
DONE = Outcome()


def add_node(state: MetadataState, command: AddNode) -> tuple[list[Record], Outcome]:
    node_id = command.node_id
    home = NodeHome(command.bound_port, command.machine, command.ray_node, command.duty)
    value = NodeValue(command.host, command.port, command.rack, 1)
    problem = _problem_of_new(state, command)
    if problem is not None:
        return [], Outcome(ErrorCode.invalid_request, problem)
    return [
        Record(SingletonKey(NODE_IDS), NodeIdsValue(node_id + 1)),
        Record(NodeHomeKey(NODE_HOME, "", node_id), home),
        Record(NodeKey(NODE, "", node_id), value),
    ], DONE


def _problem_of_new(state: MetadataState, new: AddNode) -> str | None:
    """Return why a node cannot be taken in, in words; None if it can."""
    too_old = _too_old(state)
    if too_old is not None:
        return too_old
    if not state.nodes:
        return "the controller does not know its nodes yet: try again"
    if len(state.nodes) >= NODES_MAX:
        return f"the tier has {len(state.nodes)} nodes, the most that it may have"
    if new.duty not in (ACTIVE, JOINING):
        return f"{new.duty} is no duty of a new node"
    if not new.host:
        return "a node needs a host"
    for port in (new.port, new.bound_port):
        if not 1 <= port <= PORT_MAX:
            return f"port {port}: 1 to {PORT_MAX} is allowed"
    if new.node_id in state.nodes:
        known = state.nodes[new.node_id]
        return f"there is a node {new.node_id} already, at {known.host}:{known.port}"
    if new.node_id < state.next_node_id:
        return (
            f"the id {new.node_id} was used before; the next one is {state.next_node_id}: what the former "
            "node left behind must not be taken for the new one's"
        )
    for node_id, node in state.nodes.items():
        if (node.host, node.port) == (new.host, new.port):
            return f"{new.host}:{new.port} is node {node_id}'s: it is in the tier already"
    return None


def set_node_duty(state: MetadataState, command: SetNodeDuty) -> tuple[list[Record], Outcome]:
    node_id, duty = command
    node = state.nodes.get(node_id)
    if node is None:
        return [], _no_node(state, node_id)
    if duty not in (ACTIVE, DRAINING, LOST):
        return [], Outcome(ErrorCode.invalid_request, f"{duty} is no duty of a node")
    if duty == state.duty(node_id):
        return [], DONE
    too_old = _too_old(state)
    if too_old is not None:
        return [], Outcome(ErrorCode.invalid_request, too_old)
    if duty == LOST and node.alive:
        message = f"node {node_id} answers, so it is not lost: drain it, then remove it"
        return [], Outcome(ErrorCode.invalid_request, message)
    problem = None if duty == ACTIVE else _too_few_without(state, node_id)
    if problem is not None:
        return [], Outcome(ErrorCode.invalid_request, problem)
    home = state.homes.get(node_id, NodeHome(AS_BEGUN))
    records = [Record(NodeHomeKey(NODE_HOME, "", node_id), home._replace(duty=duty))]
    if duty != ACTIVE:
        others = [each for each in state.open_node_ids() if each != node_id]
        records += topics_moved(state, others or state.alive_node_ids())
    return records, DONE


def move_node(state: MetadataState, command: MoveNode) -> tuple[list[Record], Outcome]:
    node_id, host, bound_port, machine = command
    node = state.nodes.get(node_id)
    if node is None:
        return [], _no_node(state, node_id)
    home = state.homes.get(node_id, NodeHome(AS_BEGUN))._replace(port=bound_port, machine=machine)
    if state.homes.get(node_id) == home and node.host == host:
        return [], DONE
    problem = _too_old(state)
    for other_id, other in state.nodes.items():
        if other_id != node_id and (other.host, other.port) == (host, node.port):
            problem = f"{host}:{node.port} is node {other_id}'s"
    if problem is not None:
        return [], Outcome(ErrorCode.invalid_request, problem)
    return [
        Record(NodeHomeKey(NODE_HOME, "", node_id), home),
        Record(NodeKey(NODE, "", node_id), node._replace(host=host)),
    ], DONE


def _too_few_without(state: MetadataState, node_id: int) -> str | None:
    """Return that the nodes that stay could not hold all copies on nodes of their own, in words; None if they
    could."""
    staying = [each for each in state.nodes if each != node_id and state.duty(each) == ACTIVE]
    for group, placed in sorted(state.placements.items(), key=lambda item: -len(item[1].copies)):
        if len(placed.copies) > len(staying):
            return (
                f"without node {node_id} there are {len(staying)} nodes for the {len(placed.copies)} copies "
                f"of {group}: add a node first, or have fewer copies (`groupd replicas resize --all`)"
            )
    return None if staying else f"node {node_id} is the tier's only one"


def remove_node(state: MetadataState, command: RemoveNode) -> tuple[list[Record], Outcome]:
    node_id = command.node_id
    if state.was_removed(node_id):
        return [], DONE
    if node_id not in state.nodes:
        return [], _no_node(state, node_id)
    too_old = _too_old(state)
    if too_old is not None:
        return [], Outcome(ErrorCode.invalid_request, too_old)
    held = held_by(state, node_id)
    if held:
        named = ", ".join(held[:NAMED_MAX]) + (f" and {len(held) - NAMED_MAX} more" * (len(held) > NAMED_MAX))
        message = f"node {node_id} still holds {named}: drain it first"
        return [], Outcome(ErrorCode.invalid_request, message)
    others = [each for each in state.open_node_ids() if each != node_id]
    if not others:
        return [], Outcome(ErrorCode.invalid_request, f"without node {node_id} no node would serve clients")
    records = [
        Record(SingletonKey(NODE_IDS), NodeIdsValue(state.next_node_id)),
        Record(NodeKey(NODE, "", node_id), None),
    ]
    if node_id in state.homes:
        records.append(Record(NodeHomeKey(NODE_HOME, "", node_id), None))
    if str(node_id) in state.broker_configs:
        records.append(Record(BrokerConfigKey(BROKER_CONFIG, "", str(node_id)), None))
    return records + topics_moved(state, others), DONE


def held_by(state: MetadataState, node_id: int) -> list[str]:
    """Return the replicas on a node, those that are to leave too, in words."""
    return [
        f"replica {copy.replica_id} of {group}"
        for group, placed in sorted(state.placements.items())
        for copy in (*placed.copies, *placed.leaving)
        if copy.node_id == node_id
    ]


def _too_old(state: MetadataState) -> str | None:
    """Return that the tier's level does not allow its nodes to change, in words; None if it does."""
    level = state.features.level(GROUPD_VERSION)
    if level >= LEVEL_WITH_CHANGES:
        return None
    return (
        f"{GROUPD_VERSION} is {level}, and nodes come and go from level {LEVEL_WITH_CHANGES} on: "
        "`groupd upgrade finalize` raises it once all actors have this release"
    )


def _no_node(state: MetadataState, node_id: int) -> Outcome:
    known = ", ".join(map(str, sorted(state.nodes)))
    return Outcome(ErrorCode.broker_id_not_registered, f"there is no node {node_id}; the tier has {known}")
