"""What becomes of Kafka's settings that the tier has under another name, or not at all.

A name of Kafka's that is a row of `cluster.settings_table` is the tier's own and needs nothing from here. Of
the others a few are taken for a setting of the tier (`TRANSLATED`), and the rest are accepted without effect,
with a reason in a few words: the longest beginning of the name in `REASONS` says it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from actors.ground.kafka_settings import allowed_values, is_allowed, kafka_settings
from actors.security.gate import ACLS, NO_AUTHORIZER
from cluster.settings_table import SETTINGS

OF_A_LISTENER = "listener.name."
"""How a name begins that gives one listener a setting of its own: `listener.name.client.ssl.key.password`."""
_STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_AUTHORIZERS = MappingProxyType({"": NO_AUTHORIZER, _STANDARD_AUTHORIZER: ACLS})
_MINUTE_MS = 60_000


class Ignored(NamedTuple):
    """A setting of Kafka's that was given and has no effect."""

    name: str
    value: str
    origin: str
    why: str


class Translation(NamedTuple):
    """How a setting of Kafka's is a setting of the tier."""

    name: str
    """The tier's name of it."""
    translate: Callable[[str], str | None]
    """Takes the value in Kafka's words; returns it in the tier's, None if the tier cannot have it."""
    allowed: str
    """What is allowed, in words."""


TRANSLATED: Mapping[str, Translation] = MappingProxyType(
    {
        "log.retention.hours": Translation(
            "log.retention.ms", lambda hours: str(int(hours) * 60 * _MINUTE_MS), "a whole number of hours"
        ),
        "log.retention.minutes": Translation(
            "log.retention.ms", lambda minutes: str(int(minutes) * _MINUTE_MS), "a whole number of minutes"
        ),
        "authorizer.class.name": Translation(
            "authorizer", _AUTHORIZERS.get, f"nothing or {_STANDARD_AUTHORIZER}"
        ),
    }
)
"""Kafka's name -> what it is here. Of two that are one setting the later row wins, as in Kafka."""

_NO_LOGS = "topics' logs are in memory"
_OPENSSL = "OpenSSL's own choice"
_PEM_FILES = "PEM files hold keys and certificates"
_NO_THREADS = "actors have no thread pools"
_RAFT = "replicas agree by Raft"
_ONE_LISTENER = "host, port and listener.security.protocol say it"
_NO_PLUG_INS = "no Java classes are loaded"
_NO_QUOTAS = "no quotas"
_PROMETHEUS = "metrics.port says it"
_SHARED = "transactional ids live in the offsets partitions"
_PURGATORY = "parked answers need no purge"

REASONS: Mapping[str, str] = MappingProxyType(
    {
        "add.partitions.to.txn.": "partitions' leaders ask no transaction coordinator",
        "advertised.listeners": "host and advertised.port say it",
        "alter.config.policy.class.name": _NO_PLUG_INS,
        "alter.log.dirs.": _NO_LOGS,
        "auto.leader.rebalance.enable": "groupd leaders moves leaders",
        "background.threads": _NO_THREADS,
        "broker.heartbeat.interval.ms": _RAFT,
        "broker.id": "nodes are numbered from 1",
        "broker.rack": "racks says it",
        "broker.session.timeout.ms": _RAFT,
        "client.quota.callback.class": _NO_PLUG_INS,
        "compression.": _NO_LOGS,
        "config.providers": _NO_PLUG_INS,
        "connection.failed.authentication.delay.ms": "a failed login is not delayed",
        "controlled.shutdown.enable": "groupd down always hands over",
        "controller.": _RAFT,
        "controller.quota.": _NO_QUOTAS,
        "cordoned.log.dirs": "data.dir says it",
        "create.topic.policy.class.name": _NO_PLUG_INS,
        "default.replication.factor": _NO_LOGS,
        "delegation.token.": "no delegation tokens",
        "delete.records.purgatory.": _PURGATORY,
        "delete.topic.enable": "topics can always be deleted",
        "early.start.listeners": _ONE_LISTENER,
        "errors.deadletterqueue.": "no share groups",
        "fetch.max.bytes": "a fetch's bound is fixed",
        "fetch.purgatory.": _PURGATORY,
        "follower.fetch.": _NO_LOGS,
        "group.consumer.assignor.offload.enable": "plug-ins always run beside the coordinator",
        "group.coordinator.append.linger.ms": "each turn is written at once",
        "group.coordinator.background.threads": _NO_THREADS,
        "group.coordinator.cached.buffer.max.bytes": "no buffers are kept",
        "group.coordinator.threads": "each offsets partition is an actor",
        "group.share.": "no share groups",
        "group.streams.": "no streams groups",
        "initial.broker.registration.timeout.ms": _RAFT,
        "inter.broker.": _ONE_LISTENER,
        "internal.metadata.": _RAFT,
        "kafka.metrics.": _PROMETHEUS,
        "leader.imbalance.": "groupd leaders moves leaders",
        OF_A_LISTENER: _ONE_LISTENER,
        "listener.security.protocol.map": _ONE_LISTENER,
        "listeners": _ONE_LISTENER,
        "log.": _NO_LOGS,
        "log.dir": "data.dir says it",
        "log.dirs": "data.dir says it",
        "max.connection.creation.rate": _NO_QUOTAS,
        "max.connections.per.ip.overrides": "max.connections.per.ip holds for all",
        "max.decompressed.message.bytes": _NO_LOGS,
        "max.incremental.fetch.session.": "no fetch sessions",
        "max.request.partition.size.limit": "socket.request.max.bytes bounds requests",
        "metadata.": _RAFT,
        "metadata.log.dir": "data.dir says it",
        "metric.reporters": _NO_PLUG_INS,
        "metrics.": _PROMETHEUS,
        "min.insync.replicas": _NO_LOGS,
        "node.id": "nodes are numbered from 1",
        "num.": _NO_THREADS,
        "offsets.commit.timeout.ms": "a commit waits for its majority",
        "offsets.load.buffer.size": "nothing is loaded at a failover",
        "offsets.topic.compression.codec": "journals are not compressed",
        "offsets.topic.segment.bytes": "raft.journal.segment.bytes says it",
        "principal.builder.class": _NO_PLUG_INS,
        "process.roles": "each node is both",
        "producer.id.expiration.check.interval.ms": "each producer has a timer",
        "producer.purgatory.": _PURGATORY,
        "queued.": "the bounds of queues are fixed",
        "quota.": _NO_QUOTAS,
        "remote.": "no tiered storage",
        "replica.": _NO_LOGS,
        "replica.selector.class": _NO_PLUG_INS,
        "replication.quota.": _NO_QUOTAS,
        "request.timeout.ms": "no requests between brokers",
        "sasl.": "PLAIN and SCRAM with users of the tier",
        "security.inter.broker.protocol": _ONE_LISTENER,
        "security.providers": _NO_PLUG_INS,
        "server.max.startup.time.ms": "groupd up waits as long as it takes",
        "share.": "no share groups",
        "socket.": "the system's own",
        "ssl.": _OPENSSL,
        "ssl.allow.": "any certificate that is good may follow another",
        "ssl.engine.factory.class": _NO_PLUG_INS,
        "ssl.keystore.": _PEM_FILES,
        "ssl.truststore.": _PEM_FILES,
        "telemetry.": "no telemetry",
        "transaction.": "fixed here",
        "transaction.state.log.": _SHARED,
        "transaction.two.phase.commit.enable": "no two-phase commit",
        "unclean.leader.": _RAFT,
        "unstable.": "no unstable versions",
    }
)
"""How a name begins (or the whole name) -> why it has no effect here. "... says it" names the tier's own
setting for it."""
_RETIRED = frozenset(
    {
        "auto.include.jmx.reporter",
        "broker.id.generation.enable",
        "control.plane.listener.name",
        "group.coordinator.new.enable",
        "inter.broker.protocol.version",
        "log.message.downconversion.enable",
        "log.message.format.version",
        "log.message.timestamp.difference.max.ms",
        "offsets.commit.required.acks",
        "reserved.broker.max.id",
    }
)
"""Settings of Kafka before 4.0 that older server.properties still hold."""
_RETIRED_BEGINNINGS = ("zookeeper.", "password.encoder.")


def why_ignored(name: str) -> str | None:
    """Return why the tier heeds no setting of this name; None if it does, or if Kafka has no such name."""
    if name in _RETIRED or name.startswith(_RETIRED_BEGINNINGS):
        return "Kafka 4 has it no more"
    known = name in kafka_settings() or name.startswith(OF_A_LISTENER)
    if not known or name in TRANSLATED or name in SETTINGS:
        return None
    begun = [beginning for beginning in REASONS if name.startswith(beginning)]
    return REASONS[max(begun, key=len)] if begun else None


def names() -> tuple[str, ...]:
    """Return Kafka's names of all settings that are no rows of the tier's own table."""
    return tuple(name for name in kafka_settings() if name not in SETTINGS)


def meaning(name: str) -> str:
    """Return in a sentence what becomes of a setting of `names`, or of any other that is ignored."""
    if name in TRANSLATED:
        return f"Taken for {TRANSLATED[name].name}."
    return f"Ignored: {why_ignored(name)}."


def is_secret(name: str) -> bool:
    """Return whether a setting's value is not to be shown."""
    own = [setting for setting in kafka_settings().values() if name == setting.name]
    if not own and name.startswith(OF_A_LISTENER):
        own = [setting for setting in kafka_settings().values() if name.endswith(f".{setting.name}")]
    return any(setting.sensitive for setting in own)


def refused_by_kafka(name: str, value: str) -> str | None:
    """Return what is allowed, in words, if Kafka would not start with this value; None if it would."""
    setting = kafka_settings().get(name)
    if setting is None or is_allowed(setting, value):
        return None
    return allowed_values(setting)
