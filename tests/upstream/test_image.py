"""What each kind of record of the metadata log makes of the followed image."""

from __future__ import annotations

from uuid import UUID

import pytest

from actors.ground.acl import Acl
from actors.ground.image import ScramCredential
from actors.topics.errors import LogError
from actors.upstream import applying
from actors.upstream.image import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE, Endpoint, Partition
from actors.upstream.records import ids_bytes, record_names
from tests.topics.batches import with_field
from tests.upstream.log import Log, batch, partition, record, registered, schema, topic_id


def test_every_type_of_record_is_applied() -> None:
    assert record_names() == set(applying.APPLY) | applying.TRANSACTIONS


def test_a_broker_registers_serves_leaves_and_is_forgotten() -> None:
    log = Log()
    (endpoint,) = [Endpoint("PLAINTEXT", "one", 9092, 0)]
    broker = log.write(registered(1, 10, rack="a")).brokers[1]
    assert (broker.broker_epoch, broker.rack, broker.fenced, broker.endpoints) == (10, "a", True, (endpoint,))
    assert broker.features == (("metadata.version", 7, 33),)

    assert not log.write(record("unfence_broker", id_=1, epoch=10)).brokers[1].fenced
    change = record("broker_registration_change", broker_id=1, broker_epoch=10, in_controlled_shutdown=1)
    leaving = log.write(change).brokers[1]
    assert leaving.in_controlled_shutdown
    assert not leaving.fenced
    assert log.write(record("fence_broker", id_=1, epoch=10)).brokers[1].fenced
    assert log.write(record("unregister_broker", broker_id=1, broker_epoch=10)).brokers == {}


def test_a_change_of_a_registration_says_only_what_changes() -> None:
    log = Log()
    directories = [UUID(int=1), UUID(int=2)]
    log.write(registered(1, 10, log_dirs=directories))
    change = {"broker_id": 1, "broker_epoch": 10}
    broker = log.write(record("broker_registration_change", **change, fenced=-1)).brokers[1]
    assert (broker.fenced, broker.log_dirs, broker.is_cordoned) == (False, ids_bytes(directories), False)

    cordon = record("broker_registration_change", **change, cordoned_log_dirs=directories)
    broker = log.write(cordon).brokers[1]
    assert broker.is_cordoned
    assert not broker.fenced
    broker = log.write(record("broker_registration_change", **change, log_dirs=directories[:1])).brokers[1]
    assert broker.is_cordoned
    assert broker.log_dirs == ids_bytes(directories[:1])
    broker = log.write(record("broker_registration_change", **change, cordoned_log_dirs=[])).brokers[1]
    assert not broker.is_cordoned


def test_a_record_about_an_earlier_registration_changes_nothing() -> None:
    log = Log()
    log.write(registered(1, 10), record("unfence_broker", id_=1, epoch=10), registered(1, 20, fenced=False))
    assert not log.write(record("fence_broker", id_=1, epoch=10)).brokers[1].fenced
    assert log.write(record("fence_broker", id_=9, epoch=10)).brokers.keys() == {1}


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_an_old_registration_has_no_cordons(version: int) -> None:
    log = Log()
    fields = {
        "broker_id": 1,
        "incarnation_id": None,
        "broker_epoch": 10,
        "end_points": [],
        "features": [],
        "rack": None,
        "fenced": False,
    }
    broker = log.write(record("register_broker", version, **fields)).brokers[1]
    assert (broker.log_dirs, broker.cordoned_log_dirs, broker.is_cordoned) == ((), (), False)


def test_controllers_come_and_go() -> None:
    log = Log()
    fields = {"incarnation_id": UUID(int=5), "zk_migration_ready": False, "features": []}
    endpoints = [{"name": "CONTROLLER", "host": "c", "port": 9093, "security_protocol": 3}]
    come = record("register_controller", controller_id=5, end_points=endpoints, **fields)
    assert log.write(come).controllers[5].endpoints == (Endpoint("CONTROLLER", "c", 9093, 3),)
    assert log.write(record("unregister_controller", controller_id=5)).controllers == {}


def test_a_topic_and_its_partitions_change_and_go() -> None:
    log = Log()
    log.write(record("topic", name="orders", topic_id=topic_id(1)), partition(0, 1, 1, 2))
    topic = log.image.topic("orders")
    assert topic is not None
    assert topic.topic_id == topic_id(1).bytes
    assert topic.partitions == {0: Partition((1, 2), (1, 2), 1, 0, 0)}

    change = {"partition_id": 0, "topic_id": topic_id(1)}
    log.write(record("partition_change", **change, isr=[1]))
    assert topic.partitions[0] == Partition((1, 2), (1,), 1, 0, 1)
    moving = {"replicas": [3, 1, 2], "adding_replicas": [3], "removing_replicas": [2]}
    log.write(record("partition_change", **change, **moving))
    assert topic.partitions[0] == Partition(
        (3, 1, 2), (1,), 1, 0, 2, adding_replicas=(3,), removing_replicas=(2,)
    )
    log.write(
        record("partition_change", **change, isr=[1, 3], leader=3, adding_replicas=[], removing_replicas=[])
    )
    assert topic.partitions[0] == Partition((3, 1, 2), (1, 3), 3, 1, 3)

    log.write(record("config", resource_type=TOPIC_RESOURCE, resource_name="orders", name="a", value="b"))
    log.write(record("remove_topic", topic_id=topic_id(1)))
    assert (log.image.topics, log.image.topic_ids, log.image.configs) == ({}, {}, {})


def test_electing_the_same_leader_is_a_new_leader_epoch() -> None:
    log = Log()
    log.write(record("topic", name="orders", topic_id=topic_id(1)), partition(0, 1, 1, 2))
    log.write(record("partition_change", partition_id=0, topic_id=topic_id(1), leader=1))
    assert log.image.topics[topic_id(1).bytes].partitions[0][3:5] == (1, 1)


def test_eligible_leaders_are_kept_and_cleared() -> None:
    log = Log()
    for number, name in ((1, "a"), (2, "b")):
        log.write(record("topic", name=name, topic_id=topic_id(number)), partition(0, number, 1, 2))
        change = {"partition_id": 0, "topic_id": topic_id(number), "isr": [], "leader": -1}
        log.write(record("partition_change", **change, eligible_leader_replicas=[1, 2], last_known_elr=[1]))

    def eligible() -> list[tuple[int, ...]]:
        partitions = (topic.partitions[0] for topic in log.image.topics.values())
        return [(*each.eligible_leader_replicas, *each.last_known_leaders) for each in partitions]

    assert eligible() == [(1, 2, 1), (1, 2, 1)]
    log.write(record("clear_elr", topic_name="a"))
    assert eligible() == [(), (1, 2, 1)]
    log.write(record("clear_elr", topic_name=""))
    assert eligible() == [(), ()]


def test_an_unclean_leader_recovers() -> None:
    log = Log()
    log.write(record("topic", name="a", topic_id=topic_id(1)), partition(0, 1, 1, leader_recovery_state=1))
    partitions = log.image.topics[topic_id(1).bytes].partitions
    assert partitions[0].is_recovering
    log.write(record("partition_change", partition_id=0, topic_id=topic_id(1), leader_recovery_state=0))
    assert not partitions[0].is_recovering


def test_what_is_not_there_is_not_changed() -> None:
    log = Log()
    log.write(
        partition(0, 1, 1, 2),
        record("partition_change", partition_id=0, topic_id=topic_id(1), isr=[1]),
        record("remove_topic", topic_id=topic_id(1)),
        record("remove_access_control_entry", id_=UUID(int=1)),
        record("remove_user_scram_credential", name="alice", mechanism=1),
        record("clear_elr", topic_name="a"),
    )
    assert (log.image.topics, log.image.offset, dict(log.image.unknown)) == ({}, 5, {})


def test_configs_are_those_of_topics_brokers_and_groups() -> None:
    log = Log()

    def write(kind: int, name: str, value: str | None) -> None:
        log.write(record("config", resource_type=kind, resource_name=name, name="x", value=value))

    for kind, name in (
        (TOPIC_RESOURCE, "t"),
        (BROKER_RESOURCE, ""),
        (BROKER_RESOURCE, "1"),
        (GROUP_RESOURCE, "g"),
    ):
        write(kind, name, f"{kind} {name}")
    image = log.image
    assert image.topic_configs("t") == {"x": "2 t"}
    assert image.broker_configs() == {"x": "4 "}
    assert image.broker_configs(1) == {"x": "4 1"}
    assert image.group_configs("g") == {"x": "32 g"}
    assert image.group_configs("other") == {}
    write(BROKER_RESOURCE, "1", None)
    assert image.broker_configs(1) == {}
    assert len(image.configs) == 3


def test_a_feature_at_level_0_is_none() -> None:
    log = Log()
    log.write(record("feature_level", name="group.version", feature_level=1))
    assert log.image.features == {"group.version": 1}
    assert log.write(record("feature_level", name="group.version", feature_level=0)).features == {}


def test_users_rights_quotas_and_tokens() -> None:
    log = Log()
    keys = {"salt": b"s", "stored_key": b"k", "server_key": b"v", "iterations": 4096}
    image = log.write(record("user_scram_credential", name="alice", mechanism=2, **keys))
    expected = ScramCredential("alice", "SCRAM-SHA-512", b"s", b"k", b"v", 4096)
    assert image.credentials == {("alice", "SCRAM-SHA-512"): expected}
    log.write(record("remove_user_scram_credential", name="alice", mechanism=1))
    assert len(image.credentials) == 1
    log.write(record("remove_user_scram_credential", name="alice", mechanism=2))
    assert image.credentials == {}

    rule = {
        "resource_type": 2,
        "resource_name": "t",
        "pattern_type": 3,
        "principal": "User:alice",
        "host": "*",
    }
    log.write(record("access_control_entry", id_=UUID(int=7), operation=3, permission_type=3, **rule))
    assert image.acls == {UUID(int=7).bytes: Acl(2, "t", 3, "User:alice", "*", 3, 3)}
    assert log.write(record("remove_access_control_entry", id_=UUID(int=7))).acls == {}

    entity = [{"entity_type": "user", "entity_name": None}, {"entity_type": "client-id", "entity_name": "c"}]
    for key, value in (("producer_byte_rate", 10.0), ("request_percentage", 50.0)):
        log.write(record("client_quota", entity=entity, key=key, value=value, remove=False))
    whom = (("client-id", "c"), ("user", None))
    assert image.quotas == {whom: {"producer_byte_rate": 10.0, "request_percentage": 50.0}}
    for key in ("producer_byte_rate", "request_percentage"):
        log.write(record("client_quota", entity=entity, key=key, value=0.0, remove=True))
    assert image.quotas == {}

    token = {"owner": "User:a", "requester": "User:a", "renewers": [], "issue_timestamp": 1}
    log.write(record("delegation_token", token_id="t", max_timestamp=2, expiration_timestamp=3, **token))
    assert image.delegation_tokens["t"].ends_ms == 3
    assert log.write(record("remove_delegation_token", token_id="t")).delegation_tokens == {}


def test_the_image_stands_at_the_last_batch() -> None:
    log = Log()
    assert log.image.offset == -1
    log.write(record("no_op"), record("producer_ids", broker_id=1, broker_epoch=1, next_producer_id=1_000))
    log.write(record("zk_migration_state", zk_migration_state=3), epoch=4)
    assert (log.image.offset, log.image.epoch) == (2, 4)
    assert (log.image.next_producer_id, log.image.zk_migration_state) == (1_000, 3)


def test_every_version_of_every_record_is_read() -> None:
    """The classes are made of the kept schemas: one that cannot be read fails when it is made."""
    log = Log()
    for name in sorted(record_names() - applying.TRANSACTIONS):
        least, most = schema(name)["versions"]
        for version in range(least, most + 1):
            log.write(record(name, version, **_least(name, version)))
    assert dict(log.image.unknown) == {}


def _least(name: str, version: int) -> dict[str, object]:
    """A value for each field that has no default, of the simplest kind."""
    plain: dict[str, object] = {"string": "a", "bytes": b"", "uuid": None, "bool": False, "float64": 0.0}
    found: dict[str, object] = {}
    for row in schema(name)["fields"]:
        if "default" not in row and row.get("versions", [0])[0] <= version:
            found[row["name"]] = [] if row.get("array") else plain.get(row["type"], 1)
    return found


@pytest.mark.parametrize(("at", "layout", "value"), [(16, ">b", 3), (8, ">i", 1), (8, ">i", 20)])
def test_bytes_that_are_no_batch_are_refused(at: int, layout: str, value: int) -> None:
    log = Log()
    with pytest.raises(LogError):
        log.apply(with_field(batch(0, record("no_op")), at, layout, value))
    assert log.image.offset == -1


def test_a_batch_that_does_not_match_its_crc_is_refused() -> None:
    log = Log()
    raw = batch(0, record("no_op"))
    with pytest.raises(LogError, match="CRC"):
        log.apply(raw[:-1] + bytes([raw[-1] ^ 1]))
