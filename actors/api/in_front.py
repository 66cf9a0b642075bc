"""Answer the requests that a node of the tier gets as one of a Kafka cluster's brokers, where what it says
depends on the cluster. PURE.

A group's coordinator is the broker that leads its partition of `__consumer_offsets` in the cluster. Once that
is a node of the tier, Raft says which one: clients are sent there before the cluster has taken note.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from actors.api.in_place import Screen
from actors.api.metadata import (
    GROUP,
    CoordinatorFields,
    coordinator_at,
    coordinator_type,
    coordinators_answer,
    no_coordinator,
)
from actors.catalog import api_versions, codec
from actors.catalog.api_versions import Offer
from actors.ground.image import MetadataImage
from actors.ground.spec import UpstreamSpec
from actors.ground.topic_names import OFFSETS_TOPIC
from actors.ground.upstream_goal import DETACHED
from actors.protocol.api_keys import API_VERSIONS, FIND_COORDINATOR, LIST_TRANSACTIONS
from actors.protocol.header import Header
from actors.protocol.partitioning import partitioning_of
from actors.security.sasl import refused_again
from actors.upstream.image import BROKER_RESOURCE, ClusterImage
from actors.upstream.tier_image import inner_id


class FrontView(NamedTuple):
    """What a node knows when it answers."""

    image: MetadataImage
    """The tier's image, with what the cluster says."""
    offsets_leaders: Mapping[int, int]
    """Offsets partition -> node id of its leader, where that is fresher news than the image."""
    node_id: int
    cluster: ClusterImage
    spec: UpstreamSpec
    offer: Offer
    own_to_all: bool = False
    listener: str = ""
    """The listener by which the client came, if it is not the one of clients."""


def answer_in_front(
    view: FrontView, screen: Screen, header: Header, frame: bytes, body_offset: int
) -> bytes | None:
    """Return the answer to what can be answered at once: ApiVersions, FindCoordinator for groups, SASL's
    requests, which make no sense; None for anything else."""
    if header.api_key == API_VERSIONS:
        place = api_versions.Place(view.image.cluster_id, view.spec.broker_id(view.node_id))
        told = api_versions.Told(view.image.features, view.own_to_all, view.offer)
        return codec.api_versions_answer(header, frame, body_offset, place, told)
    if header.api_key != FIND_COORDINATOR:
        return refused_again(header)
    entity = codec.decode_entity(header, frame, body_offset)
    if coordinator_type(header.api_version, entity) != GROUP or not _is_known(view):
        return None
    allowed, finish = screen(header, entity)
    answer = None
    if allowed is not None:
        answer = coordinators_answer(header.api_version, allowed, lambda _, key: _coordinator(view, key))
    if finish is not None:
        answer = finish(answer)
    return codec.encode_entity(header.api_key, header.api_version, header.correlation_id, answer)


def _is_known(view: FrontView) -> bool:
    """Return whether the tier can say who coordinates groups. Before there is a topic of offsets a broker
    makes it when it is asked; but where the tier is to coordinate, it makes that topic itself."""
    return OFFSETS_TOPIC in view.cluster.topic_ids or view.image.upstream_goal != DETACHED


def _coordinator(view: FrontView, group_id: str) -> CoordinatorFields:
    number = partitioning_of(view.image).partition_of(group_id)
    topic = view.cluster.topic(OFFSETS_TOPIC)
    state = None if topic is None else topic.partitions.get(number)
    if state is None or state.leader < 0:
        return no_coordinator()
    if inner_id(view.spec, state.leader) in view.image.nodes:
        return _of_ours(view, number)
    broker = view.cluster.brokers.get(state.leader)
    spec = view.spec
    listener = view.listener if spec.is_apart(view.listener) else spec.listener
    address = None if broker is None or broker.fenced else broker.address(listener)
    return no_coordinator() if address is None else coordinator_at(state.leader, *address)


def _of_ours(view: FrontView, number: int) -> CoordinatorFields:
    leader = view.offsets_leaders.get(number, view.image.offsets_leaders[number])
    node = view.image.nodes.get(leader)
    if node is None or not node.alive:
        return no_coordinator()
    port = view.spec.port_of(view.listener, node.port)
    return coordinator_at(view.spec.broker_id(node.node_id), node.host, port)


def is_about(entity: Any, broker_id: int) -> bool:
    """Return whether DescribeConfigs asks for a broker's own configs."""
    return any(
        resource.resource_type == BROKER_RESOURCE and resource.resource_name == str(broker_id)
        for resource in entity.resources
    )


def no_transactions(header: Header) -> bytes:
    """Return the answer to ListTransactions of a broker that coordinates none."""
    answer = codec.build(
        codec.response_class(LIST_TRANSACTIONS, header.api_version),
        error_code=ErrorCode.none,
        unknown_state_filters=(),
        transaction_states=(),
    )
    return codec.encode_entity(LIST_TRANSACTIONS, header.api_version, header.correlation_id, answer)
