"""A node answers as one of a Kafka cluster's brokers: who coordinates a group, who it is, what it offers."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.api import in_front
from actors.api.in_front import FrontView, answer_in_front
from actors.catalog import codec
from actors.catalog.headers import parse_header
from actors.catalog.in_front import offer
from actors.ground.image import MetadataImage, NodeImage
from actors.ground.spec import UpstreamSpec
from actors.ground.upstream_goal import ATTACHED, DETACHED
from actors.protocol.api_keys import (
    API_VERSIONS,
    DESCRIBE_CONFIGS,
    FIND_COORDINATOR,
    LIST_TRANSACTIONS,
    METADATA,
    SASL_HANDSHAKE,
)
from actors.protocol.header import Header
from actors.security.screening import Screened
from actors.upstream.image import ClusterImage
from actors.upstream.tier_image import overlaid
from tests.api.brokers import versions
from tests.upstream.log import Log, partition, record, registered, topic_id

SPEC = UpstreamSpec("upstream-cluster", (), (), first_broker_id=1_000)
OFFSETS = (record("topic", name="__consumer_offsets", topic_id=topic_id(8)),)
GROUP, TRANSACTION, SHARE = 0, 1, 2


def cluster_of(*values: bytes) -> ClusterImage:
    log = Log()
    log.write(registered(1, 10, fenced=False), registered(2, 11, fenced=True), *values)
    return log.image


def view_of(
    cluster: ClusterImage, *, leader: int = 2, goal: int = ATTACHED, fresher: Any = None
) -> FrontView:
    """A view of node 1 of a tier with one offsets partition."""
    nodes = (
        NodeImage(1, "tier-1", 9_101),
        NodeImage(2, "tier-2", 9_102),
        NodeImage(3, "tier-3", 9_103, None, False),
    )
    own = MetadataImage(version=1, nodes=nodes, offsets_leaders=(leader,), upstream_goal=goal)
    made = offer({METADATA: (0, 9), FIND_COORDINATOR: (0, 9)}, (), {"group.version": 1}, 5)
    return FrontView(overlaid(own, cluster, SPEC), fresher or {}, 1, cluster, SPEC, made)


def frame_of(api_key: int, version: int, **fields: Any) -> bytes:
    entity = codec.build(codec.request_class(api_key, version), **fields)
    return codec.encode_request(Header(api_key, version, 7), entity)[4:]


def answer(view: FrontView, frame: bytes) -> Any | None:
    header, body_offset = parse_header(frame)
    given = answer_in_front(view, lambda _, entity: Screened(entity), header, frame, body_offset)
    return None if given is None else codec.decode_response(header, given)


def coordinator(view: FrontView, version: int = 6, key_type: int = GROUP) -> Any | None:
    asked = frame_of(FIND_COORDINATOR, version, key="g", key_type=key_type, coordinator_keys=("g",))
    given = answer(view, asked)
    return given if given is None or version < 4 else given.coordinators[0]


@pytest.mark.parametrize("version", versions(FIND_COORDINATOR))
def test_a_partition_that_the_tier_leads_is_where_raft_says(version: int) -> None:
    view = view_of(cluster_of(*OFFSETS, partition(0, 8, 1_001, 1_002)))
    told = coordinator(view, version)
    assert told is not None
    assert (told.error_code, told.node_id, told.host, told.port) == (ErrorCode.none, 1_002, "tier-2", 9_102)


def test_fresher_news_of_the_leader_come_first() -> None:
    told = coordinator(view_of(cluster_of(*OFFSETS, partition(0, 8, 1_002)), fresher={0: 1}))
    assert told is not None
    assert (told.node_id, told.port) == (1_001, 9_101)


def test_a_partition_that_a_broker_leads_is_there() -> None:
    told = coordinator(view_of(cluster_of(*OFFSETS, partition(0, 8, 1, 1_001))))
    assert told is not None
    assert (told.node_id, told.host, told.port) == (1, "one", 9_092)


@pytest.mark.parametrize(("leader", "told_at"), [(1, (1, "inner", 9_093)), (1_001, (1_002, "tier-2", 9_202))])
def test_a_client_of_the_brokers_own_listener_is_sent_there(leader: int, told_at: tuple[Any, ...]) -> None:
    """Nodes have a second port for it."""
    spec = SPEC._replace(other_listeners=("INTERNAL",), other_protocol="SSL", other_port_shift=100)
    points = [{"name": "INTERNAL", "host": "inner", "port": 9_093, "security_protocol": 1}]
    values = registered(1, 12, fenced=False, end_points=points), *OFFSETS, partition(0, 8, leader)
    told = coordinator(view_of(cluster_of(*values))._replace(spec=spec, listener="INTERNAL"))
    assert told is not None
    assert (told.node_id, told.host, told.port) == told_at


@pytest.mark.parametrize(
    ("broker", "leader"),
    [(-1, 2), (2, 2), (9, 2), (1_002, 3), (1_002, -1)],
    ids=["nobody leads", "a fenced broker", "an unknown one", "a dead node", "no Raft leader is known"],
)
def test_without_a_living_leader_clients_ask_again(broker: int, leader: int) -> None:
    view = view_of(cluster_of(*OFFSETS, partition(0, 8, 1, leader=broker)), leader=leader)
    told = coordinator(view)
    assert told is not None
    assert (told.error_code, told.node_id) == (ErrorCode.coordinator_not_available, -1)


def test_before_there_is_a_topic_of_offsets_a_broker_is_asked_unless_the_tier_makes_it() -> None:
    assert coordinator(view_of(cluster_of(), goal=DETACHED)) is None
    told = coordinator(view_of(cluster_of(), goal=ATTACHED))
    assert told is not None
    assert told.error_code == ErrorCode.coordinator_not_available


@pytest.mark.parametrize("key_type", [TRANSACTION, SHARE])
def test_other_coordinators_are_known_to_brokers(key_type: int) -> None:
    assert coordinator(view_of(cluster_of(*OFFSETS, partition(0, 8, 1_001))), key_type=key_type) is None


def test_a_node_says_which_broker_of_the_cluster_it_is() -> None:
    view = view_of(cluster_of())
    software = {"client_software_name": "story", "client_software_version": "1"}
    right = frame_of(API_VERSIONS, 5, **software, cluster_id="upstream-cluster", node_id=1_001)
    told = answer(view, right)
    assert told is not None
    assert (told.error_code, told.finalized_features_epoch) == (ErrorCode.none, 5)
    assert {row.api_key: (row.min_version, row.max_version) for row in told.api_keys}[METADATA] == (0, 9)
    wrong = answer(view, frame_of(API_VERSIONS, 5, **software, cluster_id="upstream-cluster", node_id=1))
    assert wrong is not None
    assert wrong.error_code == ErrorCode.rebootstrap_required


def test_metadata_is_not_answered_in_place_and_sasl_is_refused() -> None:
    view = view_of(cluster_of())
    assert answer(view, frame_of(METADATA, 1, topics=None)) is None
    refused = answer(view, frame_of(SASL_HANDSHAKE, 1, mechanism="PLAIN"))
    assert refused is not None
    assert refused.error_code == ErrorCode.illegal_sasl_state


@pytest.mark.parametrize("version", versions(LIST_TRANSACTIONS))
def test_a_node_coordinates_no_transactions(version: int) -> None:
    header = Header(LIST_TRANSACTIONS, version, 7)
    told = codec.decode_response(header, in_front.no_transactions(header))
    assert (told.error_code, told.transaction_states) == (ErrorCode.none, ())


@pytest.mark.parametrize(
    ("resources", "expected"),
    [([(4, "1001")], True), ([(4, "1")], False), ([(2, "1001")], False), ([(2, "t"), (4, "1001")], True)],
)
def test_a_nodes_own_configs_are_told_apart(resources: list[tuple[int, str]], expected: bool) -> None:
    resource = codec.nested(DESCRIBE_CONFIGS, 4, "DescribeConfigsResource", "request")
    asked = codec.build(
        codec.request_class(DESCRIBE_CONFIGS, 4),
        resources=tuple(
            resource(resource_type=kind, resource_name=name, configuration_keys=None)
            for kind, name in resources
        ),
        include_synonyms=False,
        include_documentation=False,
    )
    assert in_front.is_about(asked, 1_001) is expected
