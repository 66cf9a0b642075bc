"""Clusters as a plan sees them, made of records and answers and without any Kafka."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from actors.upstream.image import ClusterImage
from cluster.attaching.facts import (
    BROKER_CONFIGS,
    AskedBroker,
    Counted,
    Facts,
    GroupRow,
    OffsetsPartition,
    Quorum,
    Sample,
)
from tests.upstream.log import Log, partition, record, registered, topic_id

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
PARTITIONS = 4
FEATURES = {"metadata.version": 33, "group.version": 1, "transaction.version": 2, "share.version": 2}
_VALUES = (str(PARTITIONS), "PLAINTEXT", "", "true", "GSSAPI", "GSSAPI")
CONFIGS = dict(zip(BROKER_CONFIGS, _VALUES, strict=True))
LISTENER = {"name": "PLAINTEXT", "host": "one", "port": 9092, "security_protocol": 0}


def image(*further: bytes) -> ClusterImage:
    """The metadata of three brokers that have the offsets topic, and further records."""
    log = Log()
    for broker_id in (1, 2, 3):
        log.write(registered(broker_id, broker_id, fenced=False))
    log.write(record("topic", name="__consumer_offsets", topic_id=topic_id(1)))
    log.write(*(partition(number, 1, 1, 2, 3) for number in range(PARTITIONS)))
    if further:
        log.write(*further)
    return log.image


def facts(*further: bytes, **changes: Any) -> Facts:
    """A cluster in front of which a tier may stand, but for what is changed."""
    sizes = dict.fromkeys(range(PARTITIONS), 1_000_000)
    first = AskedBroker(1, "one", 9092, CONFIGS, (GroupRow("orders", "Consumer", "Stable"),), sizes)
    others = tuple(AskedBroker(number, "two", 9092, CONFIGS) for number in (2, 3))
    found = Facts(
        cluster_id=CLUSTER_ID,
        features=FEATURES,
        brokers=(first, *others),
        partitions=tuple(OffsetsPartition(number, 1, (1, 2, 3), (1, 2, 3)) for number in range(PARTITIONS)),
        counted=Counted(12, 1),
        quorum=Quorum(CLUSTER_ID, 4, "four:9093", (4, 5, 6)),
        image=image(*further),
        sample=Sample(2_000_000, 0.5),
    )
    return found._replace(**changes)


def with_configs(**configs: str) -> tuple[AskedBroker, ...]:
    """The brokers, the third of them with other configs: "_" stands for "." in their names."""
    *same, third = facts().brokers
    changed = {**CONFIGS, **{name.replace("_", "."): value for name, value in configs.items()}}
    return (*same, third._replace(configs=changed))


def with_mechanisms(enabled: str, among_brokers: str) -> tuple[AskedBroker, ...]:
    """The brokers, at which clients and other brokers log in by these mechanisms."""
    changed = {"sasl.enabled.mechanisms": enabled, "sasl.mechanism.inter.broker.protocol": among_brokers}
    return tuple(each._replace(configs={**each.configs, **changed}) for each in facts().brokers)


def with_groups(*rows: GroupRow) -> tuple[AskedBroker, ...]:
    first, *others = facts().brokers
    return (first._replace(groups=rows), *others)


def of_a_tier(broker_id: int, *, says_so: bool) -> bytes:
    """The registration of a tier's node, all of whose log directories are cordoned."""
    names = ["metadata.version", *(["groupd.version"] if says_so else [])]
    return registered(
        broker_id,
        900,
        fenced=False,
        features=[{"name": name, "min_supported_version": 0, "max_supported_version": 40} for name in names],
        log_dirs=[UUID(int=7)],
        cordoned_log_dirs=[UUID(int=7)],
    )


def listening(broker_id: int, *listeners: tuple[str, int]) -> bytes:
    """The registration of a broker with these listeners: (name, number of the security protocol)."""
    endpoints = [
        {**LISTENER, "name": name, "port": 9100 + number, "security_protocol": protocol}
        for number, (name, protocol) in enumerate(listeners)
    ]
    return registered(broker_id, 900, fenced=False, end_points=endpoints)
