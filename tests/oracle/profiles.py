"""Sets of broker settings under which transcripts are played: the same on both sides.

One Kafka broker and one tier are started for each profile, so there are few. A setting that only one side
has stands in that side's own mapping, with its reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """`both` are the settings of either side, `kafka` and `groupd` those of one. `users` may log in, the
    first of them as administrator; without users nobody has to."""

    name: str
    both: Mapping[str, str]
    kafka: Mapping[str, str] = field(default_factory=dict)
    groupd: Mapping[str, str] = field(default_factory=dict)
    users: tuple[str, ...] = ()

    @property
    def login(self) -> str:
        """The user as whom connections log in, unless a transcript names another one."""
        return self.users[0] if self.users else ""

    def of_kafka(self) -> dict[str, str]:
        return {**_KAFKA, **self.both, **self.kafka}

    def of_groupd(self) -> dict[str, str]:
        return {**_GROUPD, **self.both, **self.groupd}


def password_of(user: str) -> str:
    """Return a user's password, which is the same on both sides."""
    return f"{user}-secret"


_SCRAM_JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
OFFSETS_PARTITIONS = 5
_BASE = {
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "30000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.assignment.interval.ms": "0",
    "auto.create.topics.enable": "false",
    "num.partitions": "3",
}
_KAFKA = {
    # One broker holds one copy of each internal topic.
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "5",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
_GROUPD = {
    "nodes": "1",
    "offsets.topic.replication.factor": "1",
    "journal.sync": "off",
    # Kafka takes joins and leaves together in a group's first rebalance only; the random transcripts are long
    # enough to be a storm of them.
    "group.rebalance.batch.max.ms": "0",
}


USERS = ("admin", "alice", "bob")
_JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_PASSWORDS = " ".join(f'user_{user}="{password_of(user)}"' for user in USERS)
_KAFKA_SECURITY = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
    "advertised.listeners": "SASL_PLAINTEXT://127.0.0.1:{port}",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{_JAAS} username="admin" password="{password_of("admin")}" {_PASSWORDS};'
    ),
    "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": _SCRAM_JAAS,
    "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": _SCRAM_JAAS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # Kafka's controller is asked by its brokers over a listener of its own, without authentication.
    "super.users": "User:admin;User:ANONYMOUS",
}
_ONE_PARTITION = {"offsets.topic.num.partitions": "1"}
"""No transcript outside of `base` sees how many offsets partitions there are, and each costs the start of a
process."""
_GROUPD_SECURITY = {**_ONE_PARTITION, "listener.security.protocol": "SASL_PLAINTEXT", "authorizer": "acl"}


def _profile(name: str, both: Mapping[str, str] = MappingProxyType({}), **changes: Any) -> Profile:
    return Profile(name=name, both={**_BASE, **both}, **changes)


_ALL = (
    _profile("base"),
    # Here topics come into being by themselves as well: no transcript of the delay minds.
    _profile(
        "delay",
        both={"group.initial.rebalance.delay.ms": "1500", "auto.create.topics.enable": "true"},
        groupd=_ONE_PARTITION,
    ),
    _profile(
        "small",
        both={
            "group.max.size": "2",
            "group.consumer.max.size": "2",
            "group.consumer.migration.policy": "disabled",
        },
        groupd=_ONE_PARTITION,
    ),
    _profile("downgrade", both={"group.consumer.migration.policy": "downgrade"}, groupd=_ONE_PARTITION),
    # Here classic groups can become consumer groups, and not the other way: no transcript of expiry minds.
    _profile(
        "expiry",
        both={
            "offsets.retention.minutes": "1",
            "offsets.retention.check.interval.ms": "500",
            "group.consumer.migration.policy": "upgrade",
        },
        groupd=_ONE_PARTITION,
    ),
    _profile(
        "classic_only",
        both={"group.coordinator.rebalance.protocols": "classic"},
        groupd=_ONE_PARTITION,
    ),
    _profile("security", kafka=_KAFKA_SECURITY, groupd=_GROUPD_SECURITY, users=USERS),
)
PROFILES: Mapping[str, Profile] = MappingProxyType({profile.name: profile for profile in _ALL})
