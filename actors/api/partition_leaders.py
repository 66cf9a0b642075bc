"""Tell a client that asks the wrong broker whom to ask instead, without a Metadata request (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from actors.api.context import BrokerContext
from actors.catalog import codec
from actors.protocol.entity_schema import field_names
from actors.topics.partition_log import LEADER_EPOCH


def current_leader(
    context: BrokerContext, api_key: int, version: int, partition: tuple[str | None, int]
) -> dict[str, Any]:
    """Return the field of an answer's partition that names the partition's leader; none if there is no
    leader. In front of a Kafka cluster nobody is named: who leads there, and in which epoch, its brokers
    tell."""
    name, index = partition
    if context.image.upstream is not None:
        return {}
    leader_id = None if name is None else context.image.leader_of(name, index)
    if leader_id is None or leader_id < 0:
        return {}
    leader_class = codec.nested(api_key, version, "LeaderIdAndEpoch")
    return {"current_leader": codec.build(leader_class, leader_id=leader_id, leader_epoch=LEADER_EPOCH)}


def leaders_endpoints(
    context: BrokerContext, api_key: int, version: int, topics: Iterable[Iterable[Any]]
) -> dict[str, Any]:
    """Return the field of an answer that says where the leaders are which its partitions name; none if the
    version has no such field."""
    if "node_endpoints" not in field_names(codec.response_class(api_key, version)):
        return {}
    leaders = dict.fromkeys(
        partition.current_leader.leader_id for partitions in topics for partition in partitions
    )
    nodes = [node for leader in leaders if (node := context.image.nodes.get(leader)) is not None]
    endpoint_class = codec.nested(api_key, version, "NodeEndpoint")
    endpoints = tuple(
        codec.build(endpoint_class, node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
        for node in nodes
    )
    return {"node_endpoints": endpoints}
