"""What an actor is told when it is made: plain values that travel through Ray once."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from actors.ground.settings import GroupSettings

PLAINTEXT = "PLAINTEXT"
SASL_PLAINTEXT = "SASL_PLAINTEXT"
"""Values of `listener.security.protocol`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """One node of the tier: what clients see, and where its actors run."""

    node_id: int
    host: str
    """Advertised to clients and bound by the broker."""
    port: int
    """Bound by the broker."""
    rack: str | None = None
    ray_node: str | None = None
    """Address of the machine of the Ray cluster on which the node's actors stay; None: there is only one."""
    advertised_port: int | None = None
    """Told to clients: of whatever passes their connections on to `port`; None: there is nobody between."""

    @property
    def clients_port(self) -> int:
        """Where clients find the node."""
        return self.port if self.advertised_port is None else self.advertised_port


class Copy(NamedTuple):
    """One replica of a Raft group and its place. A replica that moves to another node is a new one, with a
    number that its group has not had before."""

    replica_id: int
    node_id: int


Copies = tuple[Copy, ...]
"""All replicas of one group; the first is the preferred leader."""


def copies(node_ids: Sequence[int]) -> Copies:
    """Those of a new group: numbered from 0."""
    return tuple(Copy(replica_id, node_id) for replica_id, node_id in enumerate(node_ids))


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftSettings:
    """A killed leader's closed connections start an election at once; these times only judge the silent
    (frozen, cut off), so they are long enough for a machine whose processors are all busy."""

    heartbeat_ms: int = 160
    """Nearly a third of the shortest election timeout: beats are what an idle replica spends its time on."""
    election_timeout_min_ms: int = 500
    election_timeout_max_ms: int = 1_000
    journal_sync: bool = True
    """False: safe against process crashes only."""
    journal_segment_bytes: int = 16 * 1024 * 1024
    snapshot_journal_bytes_min: int = 16 * 1024 * 1024
    """A snapshot is taken when the journal is larger than this and than twice the last snapshot."""
    tls_certificate: str = ""
    """PEM files of mutual TLS on Raft's TCP links, the same paths on every machine; empty: no TLS."""
    tls_key: str = ""
    tls_ca: str = ""
    faults_file: str = ""
    """What a chaos run does to replicas (`storage.raft.injected`); empty: nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """Each field `a_b` is the setting `a.b`; Kafka's names and defaults where Kafka has it."""

    auto_create_topics_enable: bool = True
    num_partitions: int = 3
    connections_max_idle_ms: int = 600_000
    max_connections: int = 20_000
    max_connections_per_ip: int = 20_000
    socket_request_max_bytes: int = 104_857_600
    message_max_bytes: int = 1_048_588
    log_retention_bytes: int = 64 * 1024 * 1024
    """Per partition, in memory."""
    log_retention_ms: int = 3_600_000
    topics_max: int = 10_000
    partitions_max: int = 100_000
    """Of all topics together."""
    listener_security_protocol: str = PLAINTEXT
    sasl_enabled_mechanisms: tuple[str, ...] = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    connections_max_reauth_ms: int = 0
    """How long an authentication holds (KIP-368); 0: as long as its connection."""
    admin_user: str = "admin"
    """Whom a new tier lets in first, and who is a superuser; its password is the tier's secret."""
    authorizer: str = "none"
    super_users: str = ""
    allow_everyone_if_no_acl_found: bool = False
    metrics_host: str = "127.0.0.1"
    metrics_port: int = -1
    """Of the first node's HTTP endpoint, the others' follow; 0: any free port; -1: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySettings:
    """Each field `a_b` is the setting `a.b`; of one replica's events and the segments they become."""

    history_enable: bool = True
    history_dir: str = ""
    history_segment_bytes: int = 32 * 1024 * 1024
    """In memory: on disk it is a tenth or less."""
    history_segment_ms: int = 30_000
    """What a crash loses at most."""
    history_retention_ms: int = 90 * 24 * 3_600 * 1_000
    history_retention_bytes: int = 1024 * 1024 * 1024
    """Of one offsets partition."""
    history_queue_max_events: int = 50_000
    """About 20 MB."""
    history_lag_interval_ms: int = 60_000
    """0: lag is not sampled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierSpec:
    """One tier, as all its actors know it."""

    tier_id: str
    """Also the Kafka cluster id, and part of the Ray namespace."""
    secret: str
    """Shared by the tier's actors; proves a peer's identity on Raft links and node sockets."""
    data_dir: str
    """Journals and snapshots: `<data_dir>/node-<n>/<group>/`."""
    run_dir: str
    """Unix sockets; short, because their paths may have at most 107 bytes."""
    nodes: tuple[NodeSpec, ...]
    placement: tuple[Copies, ...]
    """The replicas of each offsets partition. Two may share a node (one machine, one port, three copies)."""
    controllers: Copies
    """The replicas of the controller."""
    raft_port_base: int | None = None
    """None: Raft links are Unix sockets in `run_dir` (one machine). Else TCP on `host:base + index`."""
    formed: bool = False
    """The tier was ready before: a replica without a journal has lost one, and with it promises it made."""
    leaving: tuple[tuple[str, Copy], ...] = ()
    """(group, replica) of those that are in no row above and still run until their group has let them go."""
    alone: tuple[str, int] | None = None
    """(group, replica) of the one that, at its first start in this life of the tier, is to go on as its
    group's only member: the majority is gone, and the loss of what only they knew is accepted."""
    reconciler: str | None = None
    """`module:class` that the controller's leader makes with (spec, submit) and steps once a second."""
    replica_lost_timeout_ms: int = 300_000
    """A replica that has not answered for so long is replaced on another node; 0: never."""
    admin_password: str = ""
    """Of `admin.user`, where clients must authenticate."""
    groups: GroupSettings = field(default_factory=GroupSettings)
    raft: RaftSettings = field(default_factory=RaftSettings)
    broker: BrokerSettings = field(default_factory=BrokerSettings)
    history: HistorySettings = field(default_factory=HistorySettings)

    @property
    def namespace(self) -> str:
        return f"groupd-{self.tier_id}"

    @property
    def offsets_partitions(self) -> int:
        return len(self.placement)

    def node(self, node_id: int) -> NodeSpec:
        return next(node for node in self.nodes if node.node_id == node_id)

    def hub_path(self, node_id: int) -> str:
        """The Unix socket on which a node's broker meets its replicas."""
        return f"{self.run_dir}/hub-{node_id}.sock"

    def copies(self, group: str) -> Copies:
        """The replicas of `group` ("controller" or "partition-<p>")."""
        if group == CONTROLLER_GROUP:
            return self.controllers
        return self.placement[int(group.removeprefix(PARTITION_GROUP))]

    def node_of(self, group: str, replica_id: int) -> int:
        """The node on which a replica of `group` lives."""
        leaving = (copy for name, copy in self.leaving if name == group)
        return dict((*leaving, *self.copies(group)))[replica_id]

    def directory(self, group: str, replica_id: int, node_id: int) -> str:
        """Of a replica's journal and snapshot."""
        return f"{self.data_dir}/node-{node_id}/{group}-{replica_id}"

    def began(self, group: str, replica_id: int) -> str:
        """A file that is there from a replica's first start in this life of the tier on, apart from its
        data: who lost that is known for it."""
        return f"{self.run_dir}/{group}-{replica_id}.began"

    def raft_address(self, group: str, replica_id: int, node_id: int) -> str:
        """Where a replica of `group` listens for its peers: "unix:<path>" or "host:port"."""
        if self.raft_port_base is None:
            return f"unix:{self.run_dir}/{group}-{replica_id}.sock"
        index = 0 if group == CONTROLLER_GROUP else 1 + int(group.removeprefix(PARTITION_GROUP))
        stride = self.offsets_partitions + 1
        port = self.raft_port_base + replica_id % PORTS_A_GROUP * stride + index
        return f"{self.node(node_id).host}:{port}"

    def link_slot(self, partition: int, replica_id: int) -> int:
        """Number of a replica's link to its node's broker."""
        return partition << REPLICA_BITS | replica_id

    def raft_secret(self, group: str) -> bytes:
        return hashlib.sha256(f"{self.secret}/{group}".encode()).digest()


def replica_of_slot(slot: int) -> tuple[int, int]:
    """The partition and the replica number of a link to a node's broker."""
    return slot >> REPLICA_BITS, slot & ((1 << REPLICA_BITS) - 1)


REPLICA_BITS = 16
"""Of a replica's number, which grows by one each time a replica of its group moves."""
PORTS_A_GROUP = 16
"""Replicas of a group whose numbers differ by a multiple of this may not share a machine."""
CONTROLLER_GROUP = "controller"
PARTITION_GROUP = "partition-"


def partition_group(partition: int) -> str:
    """The Raft group of an offsets partition."""
    return f"{PARTITION_GROUP}{partition}"


def broker_name(node_id: int) -> str:
    return f"broker-{node_id}"


def controller_name(replica: int) -> str:
    return f"{CONTROLLER_GROUP}-{replica}"


def controller_of(name: str) -> int | None:
    """The replica's number in the name of a controller's actor; None: another actor's name."""
    group, _, replica = name.rpartition("-")
    return int(replica) if group == CONTROLLER_GROUP else None


def partition_name(partition: int, replica: int) -> str:
    return f"partition-{partition}-{replica}"
