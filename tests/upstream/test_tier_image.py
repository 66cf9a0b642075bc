"""What coordinators see of the upstream cluster: its metadata laid over the tier's own image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.coordinator.consumer.target_arrays import partition_racks
from actors.ground.acl import Acl
from actors.ground.features import GROUPD_VERSION, Features
from actors.ground.image import NO_NODE, NO_TOPIC_ID, MetadataImage, NodeImage, ScramCredential
from actors.ground.spec import UpstreamSpec
from actors.metadata.wire import pack_image, unpack_image
from actors.upstream.image import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from actors.upstream.tier_image import inner_id, is_news, outer_id, overlaid
from tests.upstream.log import Log, partition, record, registered, topic_id

SPEC = UpstreamSpec("upstream-cluster", (("one", 9092),), (("one", 9093),), first_broker_id=1_000)
NODES = (NodeImage(1, "tier", 9_101, "rack-t"), NodeImage(2, "tier", 9_102))
OWN = MetadataImage(
    version=7,
    cluster_id="tier",
    controller_node_id=2,
    nodes=NODES,
    offsets_leaders=(1, 2),
    features=Features(3, ((GROUPD_VERSION, 2),)),
)


def topic(number: int, name: str) -> bytes:
    return record("topic", name=name, topic_id=topic_id(number))


def config(kind: int, name: str, **configs: str) -> list[bytes]:
    return [
        record("config", resource_type=kind, resource_name=name, name=key.replace("_", "."), value=value)
        for key, value in configs.items()
    ]


def of(*values: bytes, own: MetadataImage = OWN) -> MetadataImage:
    """The image after these records of the cluster, as a replica gets it."""
    log = Log()
    log.write(*values)
    return unpack_image(pack_image(overlaid(own, log.image, SPEC)))


def test_the_clusters_topics_come_with_ids_partitions_and_configs() -> None:
    image = of(
        topic(5, "orders"),
        partition(1, 5, 2, 1),
        partition(0, 5, 1, 2),
        *config(TOPIC_RESOURCE, "orders", retention_ms="9", cleanup_policy="compact"),
    )
    orders = image.topics["orders"]
    assert (orders.topic_id, orders.partition_count) == (topic_id(5).bytes, 2)
    assert orders.partition_leaders == (-1_000, -999)
    assert orders.configs == (("cleanup.policy", "compact"), ("retention.ms", "9"))
    assert image.topics_by_id[topic_id(5).bytes] == orders
    assert image.cluster_id == "upstream-cluster"


def test_the_offsets_topic_has_its_id_there_and_its_leaders_here() -> None:
    image = of(
        topic(8, "__consumer_offsets"),
        partition(0, 8, 1),
        partition(1, 8, 1),
        topic(9, "__transaction_state"),
        partition(0, 9, 1),
    )
    offsets = image.topics["__consumer_offsets"]
    assert (offsets.topic_id, offsets.partition_leaders, offsets.internal) == (
        topic_id(8).bytes,
        (1, 2),
        True,
    )
    # Transactional ids are coordinated there, in as many partitions as there are there.
    assert image.topics["__transaction_state"].partition_leaders == (-1_000,)
    newer = image.led_by({0: 2})
    assert newer.topics_by_id[topic_id(8).bytes].partition_leaders == (2, 2)
    assert newer.topics.keys() == image.topics.keys()


def test_before_there_is_an_offsets_topic_it_has_an_id_of_ours() -> None:
    image = of(topic(5, "orders"), partition(0, 5, 1))
    assert image.topics["__consumer_offsets"].topic_id != NO_TOPIC_ID
    assert "__transaction_state" not in image.topics


def test_what_is_the_tiers_own_stays() -> None:
    image = of(registered(1, 10))
    assert (tuple(image.nodes.values()), image.offsets_leaders) == (NODES, (1, 2))
    assert (image.controller_node_id, image.features) == (2, OWN.features)


def test_racks_are_those_of_the_brokers_that_lead() -> None:
    image = of(
        registered(1, 10, rack="rack-a"),
        registered(1_001, 11, rack="rack-t"),
        topic(5, "orders"),
        partition(0, 5, 1),
        partition(1, 5, 1_001),
        partition(2, 5, 3),
    )
    assert partition_racks(image, topic_id(5).bytes) == ["rack-a", "rack-t", None]


def test_groups_have_the_configs_that_the_cluster_gives_them() -> None:
    image = of(*config(GROUP_RESOURCE, "billing", consumer_session_timeout_ms="50000"))
    assert image.group_configs == {"billing": {"consumer.session.timeout.ms": "50000"}}


@pytest.mark.parametrize(
    ("broker", "configs", "expected"),
    [
        (
            "",
            {"group_consumer_session_timeout_ms": "50000"},
            {"": {"group.consumer.session.timeout.ms": "50000"}},
        ),
        ("1002", {"group_max_size": "9"}, {"2": {"group.max.size": "9"}}),
        ("1", {"group_max_size": "9"}, {}),
        ("", {"log_retention_ms": "5", "num_io_threads": "9", "max_connections": "3"}, {}),
        ("", {"group_max_size": "0"}, {}),
        (
            "",
            {"group_consumer_migration_policy": "BIDIRECTIONAL"},
            {"": {"group.consumer.migration.policy": "bidirectional"}},
        ),
    ],
)
def test_of_brokers_configs_those_that_coordinators_use(
    broker: str, configs: dict[str, str], expected: Mapping[str, Any]
) -> None:
    assert of(*config(BROKER_RESOURCE, broker, **configs)).broker_configs == expected


def test_users_and_rights_are_the_clusters() -> None:
    rule = Acl(2, "orders", 3, "User:alice", "*", 3, 3)
    own = MetadataImage(version=1, nodes=NODES, credentials=(_credential("admin"), _credential("alice")))
    image = of(
        record(
            "user_scram_credential",
            name="alice",
            mechanism=1,
            salt=b"salt",
            stored_key=b"theirs",
            server_key=b"server",
            iterations=4096,
        ),
        record("access_control_entry", id_=topic_id(3), **_fields(rule)),
        own=own,
    )
    assert image.acls == (rule,)
    assert image.credentials["alice", "SCRAM-SHA-256"].stored_key == b"theirs"
    assert [user for user, _ in image.credentials] == ["alice"], "nobody but the cluster has users"


def test_the_version_rises_with_each_of_the_two() -> None:
    log = Log()
    first = overlaid(OWN, log.write(registered(1, 1)), SPEC)
    second = overlaid(OWN, log.write(registered(2, 2)), SPEC)
    third = overlaid(MetadataImage(version=8, nodes=NODES), log.image, SPEC)
    assert first.version < second.version < third.version


def test_what_concerns_no_coordinator_is_no_news() -> None:
    log = Log()
    shown = overlaid(OWN, log.write(topic(5, "orders"), partition(0, 5, 1, 2)), SPEC)
    assert is_news(None, shown)
    changes = log.image.changes
    assert log.write(record("no_op")).changes == changes
    log.write(_change(5, isr=[1]))
    assert not is_news(shown, overlaid(OWN, log.image, SPEC))
    log.write(_change(5, leader=2))
    assert is_news(shown, overlaid(OWN, log.image, SPEC))


@given(st.integers(-1, 3_000), st.integers(0, 2_000))
def test_ids_of_brokers_come_back_and_none_is_no_node(broker_id: int, first: int) -> None:
    spec = SPEC._replace(first_broker_id=first)
    inner = inner_id(spec, broker_id)
    assert outer_id(spec, inner) == broker_id
    assert (inner == NO_NODE) == (broker_id == -1)
    if broker_id >= first:
        assert spec.broker_id(inner) == broker_id


def _change(number: int, **fields: Any) -> bytes:
    told = {"partition_id": 0, "topic_id": topic_id(number), "leader": -2, "leader_recovery_state": -1}
    return record("partition_change", **told | fields)


def _credential(user: str) -> ScramCredential:
    return ScramCredential(user, "SCRAM-SHA-256", b"salt", b"ours", b"server", 4_096)


def _fields(rule: Acl) -> dict[str, Any]:
    names = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation")
    return dict(zip((*names, "permission_type"), rule, strict=True))
