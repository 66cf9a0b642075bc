"""Every setting of a tier: its Kafka name if Kafka has it, its default, what is allowed, what it means.

Defaults of what the actors are told stand in `actors.ground.spec` and `actors.ground.settings`; a setting
`a.b` is the field `a_b` there (Raft's are `raft.a.b`). `python -m cluster.settings_table` prints the page
SETTINGS.md; a test fails when that is stale.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from actors.ground.kafka_settings import kafka_settings
from actors.ground.limits import FRAME_BYTES_MAX
from actors.ground.settings import POLICIES, GroupSettings
from actors.ground.spec import PLAINTEXT, PROTOCOLS, BrokerSettings, HistorySettings, RaftSettings
from actors.network.certificates import CLIENT_AUTH, TLS_VERSIONS
from actors.security.gate import ACLS, NO_AUTHORIZER
from actors.security.sasl import MECHANISMS

INT32 = 2**31 - 1
DEFAULT_LOST_TIMEOUT_MS = 300_000
INT64 = 2**63 - 1


class Setting(NamedTuple):
    """One row of the table."""

    name: str
    default: Any
    meaning: str
    low: int | None = None
    high: int | None = None
    choices: tuple[str, ...] = ()
    any_case: bool = False
    """Whether a choice may be written in capitals, as Kafka allows it."""

    @property
    def field(self) -> str:
        return self.name.replace(".", "_")

    @property
    def allowed(self) -> str:
        """Return what is allowed, in words, for errors and the table."""
        if self.choices:
            one = " or ".join(self.choices)
            return f"a list of {one}" if isinstance(self.default, tuple) else one
        if isinstance(self.default, bool):
            return "true or false"
        if isinstance(self.default, int):
            return f"a whole number from {self.low} to {self.high}"
        return "text"


def _actor_defaults() -> dict[str, Any]:
    defaults: dict[str, Any] = {}
    for cls, prefix in (
        (GroupSettings, ""),
        (BrokerSettings, ""),
        (HistorySettings, ""),
        (RaftSettings, "raft."),
    ):
        for name, default in cls._field_defaults.items():
            defaults[prefix + name.replace("_", ".")] = default
    return defaults


_DEFAULTS = _actor_defaults()


def _row(name: str, low: int | None, high: int | None, meaning: str) -> Setting:
    return Setting(name, _DEFAULTS[name], meaning, low, high)


_TIER = (
    Setting("nodes", 3, "Nodes of the tier: broker ids, each with a port of its own.", 1, 99),
    Setting("host", "127.0.0.1", "Address that the nodes bind and advertise to clients."),
    Setting("port", 9092, "Port of the first node; the others follow it.", 1, 65_535),
    Setting("advertised.port", 0,
            "First port that clients are told, of a proxy before each node. 0: what is bound.", 0, 65_535),
    Setting("data.dir", "./groupd-data", "Directory of journals, snapshots, logs and the tier's identity."),
    Setting("ray.address", "", "An existing Ray cluster, host:port. Empty: a Ray of our own, this machine."),
    Setting("machine.address", "", "A machine of `groupd machine up`, host:port. Empty: no such."),
    Setting("machine.secret", "", "Path of the machines' secret. Empty: a copy in the data directory."),
    Setting("racks", (), "Rack of each node, in order, as a list. Empty: none."),
    Setting("offsets.topic.num.partitions", 4, "Raft groups that share all consumer groups.", 1, 1_000),
    Setting("offsets.topic.replication.factor", 3, "Copies of each: 3 survives the loss of 1.", 1, 7),
    Setting("journal.sync", "batch",
            "batch: sync to disk before every answer. off: safe against process crashes only.",
            choices=("batch", "off")),
    Setting("accept.loss", False, "Let a group without a majority go on with what is left, for one start."),
    Setting("accept.ray.settings", False, "Take a Ray cluster whose settings would kill the tier."),
    Setting("replica.lost.timeout.ms", DEFAULT_LOST_TIMEOUT_MS,
            "Silence after which a replica gets a successor on another node. 0: never.", 0, INT32),
    Setting("replica.balance.enable", True,
            "Whether replicas and preferred leaders move so that nodes have equally many."),
    Setting("raft.port", 9192, "First TCP port of Raft links, if nodes are on several machines.", 1, 65_535),
)  # fmt: skip

_UPSTREAM = (
    Setting("upstream.bootstrap.servers", (),
            "Brokers of a Kafka cluster whose groups the tier is to coordinate, host:port, as a list."),
    Setting("upstream.controllers", (), "Controllers of that cluster, host:port, as a list."),
    Setting("upstream.config", "",
            "File of client properties (librdkafka's names) with which the tier logs in at brokers."),
    Setting("upstream.controllers.config", "",
            "File of client properties with which the tier logs in at controllers. Empty: as at brokers."),
    Setting("upstream.first.broker.id", 1001,
            "The first node's id as a broker of that cluster; the others follow it.", 0, 2_147_482_000),
    Setting("upstream.listener.name", PLAINTEXT,
            "The name that the nodes' listener has among the cluster's brokers: that of its clients."),
    Setting("upstream.other.listener.names", (),
            "Further names of brokers' listeners for the same port: that of brokers among themselves."),
    Setting("upstream.other.port", 0,
            "First node's second port, for the other listeners if brokers speak another protocol there; the "
            "other nodes' follow it. 0: none.", 0, 65_535),
)  # fmt: skip

_GROUPS = (
    Setting("group.coordinator.rebalance.protocols", _DEFAULTS["group.coordinator.rebalance.protocols"],
            "Protocols of groups that are served. Without consumer, KIP-848's requests are refused.",
            choices=kafka_settings()["group.coordinator.rebalance.protocols"].choices),
    _row("group.min.session.timeout.ms", 1, INT32, "Classic: smallest session timeout to ask for."),
    _row("group.max.session.timeout.ms", 1, INT32, "Classic: largest session timeout to ask for."),
    _row("group.initial.rebalance.delay.ms", 0, INT32, "Classic: wait for more members of a new group."),
    _row("group.max.size", 1, INT32, "Classic: members of one group."),
    _row("group.rebalance.batch.max.ms", 0, INT32,
         "Longest wait for more joins and leaves in a storm of them. 0: never, as Kafka."),
    _row("group.consumer.session.timeout.ms", 1, INT32, "KIP-848: silence after which a member is out."),
    _row("group.consumer.min.session.timeout.ms", 1, INT32, "Lower bound of the session timeout."),
    _row("group.consumer.max.session.timeout.ms", 1, INT32, "Upper bound of the session timeout."),
    _row("group.consumer.heartbeat.interval.ms", 1, INT32, "KIP-848: interval that members are told."),
    _row("group.consumer.min.heartbeat.interval.ms", 1, INT32, "Lower bound of the heartbeat interval."),
    _row("group.consumer.max.heartbeat.interval.ms", 1, INT32, "Upper bound of the heartbeat interval."),
    _row("group.consumer.max.size", 1, INT32, "KIP-848: members of one group."),
    Setting("group.consumer.assignors", _DEFAULTS["group.consumer.assignors"],
            "KIP-848 assignors, default first: uniform, range, uniform-rack, range-rack or a plug-in."),
    _row("group.consumer.assignor.timeout.ms", 1, INT32,
         "Longest time that a plug-in may take to assign a group."),
    _row("group.consumer.client.assignor.timeout.ms", 1, INT32,
         "Longest time that a member may take to assign its group, before another one is asked."),
    _row("group.consumer.assignment.interval.ms", 0, INT32, "KIP-848: least time between two assignments."),
    _row("group.consumer.min.assignment.interval.ms", 0, INT32, "Lower bound of the assignment interval."),
    _row("group.consumer.max.assignment.interval.ms", 0, INT32, "Upper bound of the assignment interval."),
    _row("group.consumer.regex.refresh.interval.ms", 10_000, INT32,
         "KIP-848: age at which a regular expression is matched against all topics again."),
    Setting("group.consumer.migration.policy", POLICIES[0],
            "KIP-848: may groups with members change between the two protocols, and which way.",
            choices=POLICIES, any_case=True),
    _row("group.heartbeat.hold.enable", None, None,
         "Hold the answers of heartbeats that say nothing until there is news for the member."),
    Setting("group.heartbeat.hold.clients", _DEFAULTS["group.heartbeat.hold.clients"],
            "Clients that bear held heartbeats: name or name/version of ApiVersions, * is anything;"
            " :classic behind it: "
            "only Heartbeat."),
    _row("group.heartbeat.lane.after", 0, INT32,
         "Compiled code takes heartbeats and commits that repeat once a leader had so many within five"
         " minutes: less processor, 75 MiB of memory; 0: never."),
    _row("group.heartbeat.lane.linger.ms", 0, 1_000,
         "How long that code lets heartbeats, and rare commits, gather: they are answered that much later."),
    _row("group.heartbeat.budget.per.second", 1, INT32,
         "KIP-848: members of one leader are told longer intervals rather than to send more than so many."),
    _row("group.push.pings.missed.max", 1, 1_000,
         "Push: so many requests in a row without an answer in time make a consumer a failed one."),
    _row("group.push.rebalance.retries.max", 0, 1_000,
         "Push: how often a rebalance is tried again before it has failed."),
    _row("group.push.rebalance.backoff.ms", 0, INT32, "Push: how long a rebalance waits before that."),
    _row("group.own.apis.advertised", None, None,
         "Tell all clients of requests that Kafka does not have, not only those named groupd-*."),
    _row("offset.metadata.max.bytes", 0, INT32, "Text that may be stored with an offset."),
    _row("offsets.retention.minutes", 1, INT32, "Offsets that nobody uses are kept for so long."),
    _row("offsets.retention.check.interval.ms", 1, INT64, "How often offsets and groups are looked through."),
    _row("transaction.max.timeout.ms", 1, INT32, "Longest transaction timeout to ask for."),
    _row("transactional.id.expiration.ms", 1, INT32, "How long an unused transactional id is kept."),
    _row("producer.id.expiration.ms", 1, INT32, "How long the end of a transaction is remembered."),
)  # fmt: skip

_BROKERS = (
    _row("auto.create.topics.enable", None, None, "Create a topic when a client asks for it."),
    _row("num.partitions", 1, 100_000, "Partitions of a topic created without a number."),
    _row("connections.max.idle.ms", 1_000, INT64, "Close connections that say nothing for so long."),
    _row("max.connections", 1, INT32, "Connections of one node."),
    _row("max.connections.per.ip", 1, INT32, "Connections of one node from one address."),
    _row("socket.request.max.bytes", 1_024, FRAME_BYTES_MAX, "Largest request."),
    _row("message.max.bytes", 1, INT32, "Largest record batch of the development log."),
    _row("log.retention.bytes", 0, INT64, "Development log: bytes kept of one partition, in memory."),
    _row("log.retention.ms", 1, INT64, "Development log: age at which records are removed."),
    _row("max.incremental.fetch.session.cache.slots", 0, INT32, "Fetch sessions that a broker keeps."),
    _row("topics.max", 1, 1_000_000, "Topics of the tier."),
    _row("partitions.max", 1, 10_000_000, "Partitions of all topics together."),
    _row("metrics.host", None, None, "Address of the nodes' HTTP endpoints for Prometheus."),
    _row(
        "metrics.port",
        -1,
        65_535,
        "Port of the first node's endpoint; the others follow it. 0: any. -1: none.",
    ),
)

_SECURITY = (
    Setting("listener.security.protocol", PLAINTEXT,
            "SASL_...: clients must authenticate. ...SSL: connections are encrypted by TLS.",
            choices=PROTOCOLS),
    Setting("sasl.enabled.mechanisms", _DEFAULTS["sasl.enabled.mechanisms"],
            "Mechanisms that clients may authenticate by.", choices=MECHANISMS),
    _row("connections.max.reauth.ms", 0, INT32, "Life of an authentication. 0: its connection's."),
    _row("admin.user", None, None, "First user of a tier with authentication, and a superuser."),
    Setting("authorizer", NO_AUTHORIZER, "acl: ACLs say who may do what.", choices=(NO_AUTHORIZER, ACLS)),
    _row("super.users", None, None, "Who may do everything: User:a;User:b."),
    _row("allow.everyone.if.no.acl.found", None, None, "Allow everybody what no ACL mentions."),
    _row("ssl.keystore.location", None, None, "PEM file of the nodes' private key and certificate chain."),
    _row("ssl.keystore.type", None, None, "Type of that file: PEM."),
    _row("ssl.key.password", None, None, "Password of the private key. Empty: it is not encrypted."),
    _row("ssl.truststore.location", None, None,
         "PEM file of the authorities that vouch for clients, and for the nodes to each other."),
    _row("ssl.truststore.type", None, None, "Type of that file: PEM."),
    Setting("ssl.client.auth", _DEFAULTS["ssl.client.auth"],
            "Whether clients are asked for a certificate, and must have one.", choices=CLIENT_AUTH),
    Setting("ssl.enabled.protocols", _DEFAULTS["ssl.enabled.protocols"],
            "Versions of TLS that are spoken.", choices=TLS_VERSIONS),
    _row("ssl.principal.mapping.rules", None, None,
         "With SSL: rules that make a user of a certificate's distinguished name. DEFAULT: as it is."),
    _row("ssl.endpoint.identification.algorithm", None, None,
         "https: a node's certificate must name its host, when others connect to it. Empty: any."),
)  # fmt: skip

_RAFT = (
    _row("raft.heartbeat.ms", 5, 60_000, "Interval of a leader's heartbeats to its followers."),
    _row("raft.election.timeout.min.ms", 20, 600_000, "Least silence after which a follower stands."),
    _row(
        "raft.election.timeout.max.ms",
        20,
        600_000,
        "Most silence after which it does; each time a value between the two is drawn.",
    ),
    _row("raft.journal.segment.bytes", 65_536, 2**30, "Size of one journal file."),
    _row("raft.snapshot.journal.bytes.min", 65_536, 2**40, "Journal size before a snapshot is worth it."),
    _row("raft.tls.certificate", None, None, "PEM file for mutual TLS of Raft's TCP links. Empty: no TLS."),
    _row("raft.tls.key", None, None, "PEM file of the certificate's key, not encrypted."),
    _row("raft.tls.ca", None, None, "PEM file of the authority that signed every replica's certificate."),
    _row("raft.faults.file", None, None, "Only for `groupd chaos`: a file of faults that replicas suffer."),
)

_HISTORY = (
    _row("history.enable", None, None, "Write what happens to groups to Parquet files."),
    _row("history.dir", None, None,
         "Where history is kept: a directory, or a URL that fsspec knows, as s3://bucket/history. Empty:"
         " below data.dir."),
    _row("history.segment.bytes", 65_536, 2**30, "A file is written when its rows take so much memory,"
         " or earlier."),
    _row("history.segment.ms", 100, INT32, "A file is written after so long: what a crash loses at most."),
    _row("history.retention.ms", -1, INT64, "Age at which a day's files are removed. -1: never."),
    _row("history.retention.bytes", -1, INT64,
         "Bytes of history kept of one offsets partition, newest first. -1: all."),
    _row("history.queue.max.events", 1, 10_000_000, "Events that wait to be written; more are dropped"
         " and counted."),
    _row("history.lag.interval.ms", 0, INT32, "How often groups' lag is sampled where the tier has the logs."
         " 0: never."),
)  # fmt: skip

SECTIONS: Mapping[str, tuple[Setting, ...]] = MappingProxyType(
    {
        "The tier": _TIER,
        "In front of a Kafka cluster": _UPSTREAM,
        "Groups, offsets and transactions": _GROUPS,
        "Nodes: connections, requests and topics": _BROKERS,
        "Users and rights": _SECURITY,
        "Raft": _RAFT,
        "History": _HISTORY,
    }
)
"""Heading in SETTINGS.md -> the settings below it."""
SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {setting.name: setting for section in SECTIONS.values() for setting in section}
)
"""Name -> setting."""
CONSTANTS = frozenset({"classic.new.member.join.timeout.ms", "raft.journal.sync"})
"""Fields of the actors' settings that are no setting of their own: a constant of Kafka's (C12), and what
`journal.sync` decides."""
_HEADING = """\
# Settings

Made by `python -m cluster.settings_table > cluster/SETTINGS.md`; a test compares them.

`groupd config` lists the same with the value that each setting has and where the value comes from. Settings
that Kafka knows have Kafka's names. Later sources win: defaults, `--config FILE` (TOML, or a file whose name
ends as that of Kafka's `server.properties`), the environment (`GROUPD_GROUP_INITIAL_REBALANCE_DELAY_MS=0`),
flags (`--set group.initial.rebalance.delay.ms=0`).

Any other setting of a Kafka 4.4.0 broker may be given too, within Kafka's own bounds. It has no effect, and
`groupd up` says in one line which these are and why; `groupd config --all` lists them. Three are taken for a
setting of the tier: `log.retention.hours` and `log.retention.minutes` for `log.retention.ms`, and
`authorizer.class.name` for `authorizer`. A name that neither has is an error.
"""


def as_text(value: Any) -> str:
    """Return a value as a user writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)


def markdown() -> str:
    """Return the page SETTINGS.md: a table for each section."""
    lines = [_HEADING.rstrip("\n")]
    for title, settings in SECTIONS.items():
        lines += ["", f"## {title}", "", "| setting | default | allowed | meaning |", "|---|---|---|---|"]
        for each in settings:
            default = f"`{as_text(each.default)}`" if as_text(each.default) else ""
            lines.append(f"| `{each.name}` | {default} | {each.allowed} | {each.meaning} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")
