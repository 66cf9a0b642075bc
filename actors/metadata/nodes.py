"""Note which nodes come and go and who leads which offsets partition, and give out blocks of producer ids."""

from __future__ import annotations

from collections.abc import Collection

from kio.schema.errors import ErrorCode

from actors.ground.contract import Record
from actors.ground.image import ACTIVE
from actors.metadata.commands import (
    PRODUCER_ID_BLOCK_SIZE,
    AllocateProducerIds,
    Outcome,
    ProducerIdBlock,
    RegisterNode,
    ReportController,
    ReportLeader,
    SetNodeAlive,
)
from actors.metadata.placement import moved
from actors.metadata.records import (
    CONTROLLER,
    NODE,
    OFFSETS_LEADER,
    PRODUCER_IDS,
    TOPIC,
    ControllerValue,
    NodeKey,
    NodeValue,
    OffsetsLeaderKey,
    OffsetsLeaderValue,
    ProducerIdsValue,
    SingletonKey,
    TopicKey,
)
from actors.metadata.state import MetadataState

DONE = Outcome()


def register_node(state: MetadataState, command: RegisterNode) -> tuple[list[Record], Outcome]:
    if state.was_removed(command.node_id):
        return [], Outcome(ErrorCode.broker_id_not_registered, f"node {command.node_id} was removed")
    value = NodeValue(command.host, command.port, command.rack, 1)
    return _node_changed(state, command.node_id, value), DONE


def set_node_alive(state: MetadataState, command: SetNodeAlive) -> tuple[list[Record], Outcome]:
    node = state.nodes.get(command.node_id)
    if node is None:
        message = f"Broker ID {command.node_id} is not currently registered"
        return [], Outcome(ErrorCode.broker_id_not_registered, message)
    return _node_changed(state, command.node_id, node._replace(alive=int(command.alive))), DONE


def _node_changed(state: MetadataState, node_id: int, value: NodeValue) -> list[Record]:
    """Return the records of a changed node. A topic partition gets another leader only if its own is not
    alive: its log is lost by moving it."""
    if state.nodes.get(node_id) == value:
        return []
    alive = set(state.alive_node_ids()) - {node_id}
    if value.alive:
        alive.add(node_id)
    open_ids = {each for each in alive if state.duty(each) == ACTIVE} or alive
    return [Record(NodeKey(NODE, "", node_id), value), *topics_moved(state, open_ids)]


def topics_moved(state: MetadataState, open_ids: Collection[int]) -> list[Record]:
    """Return the records of topics that are led on other nodes than these, moved to these."""
    records = []
    for name, topic in state.topics.items():
        leaders = moved(name, topic.partition_leaders, sorted(open_ids))
        if leaders != topic.partition_leaders:
            records.append(Record(TopicKey(TOPIC, name), topic._replace(partition_leaders=leaders)))
    return records


def report_leader(state: MetadataState, command: ReportLeader) -> tuple[list[Record], Outcome]:
    if not 0 <= command.partition < state.offsets_partitions:
        message = f"There is no offsets partition {command.partition}."
        return [], Outcome(ErrorCode.invalid_request, message)
    known = state.offsets_leaders.get(command.partition)
    if known is not None and command.term <= known.term:
        return [], DONE
    key = OffsetsLeaderKey(OFFSETS_LEADER, "", command.partition)
    return [Record(key, OffsetsLeaderValue(command.node_id, command.term))], DONE


def report_controller(state: MetadataState, command: ReportController) -> tuple[list[Record], Outcome]:
    if state.controller_node_id == command.node_id:
        return [], DONE
    return [Record(SingletonKey(CONTROLLER), ControllerValue(command.node_id))], DONE


def allocate_producer_ids(
    state: MetadataState, command: AllocateProducerIds
) -> tuple[list[Record], ProducerIdBlock]:
    first = state.next_producer_id
    value = ProducerIdsValue(first + PRODUCER_ID_BLOCK_SIZE)
    block = ProducerIdBlock(0, first, PRODUCER_ID_BLOCK_SIZE)
    return [Record(SingletonKey(PRODUCER_IDS), value)], block
