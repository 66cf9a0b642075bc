"""What an actor is told when it is made: plain values that travel through Ray once."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from actors.ground.carried import Rebuilding, by_name
from actors.ground.login import OPEN, Login
from actors.ground.settings import GroupSettings

PLAINTEXT = "PLAINTEXT"
SASL_PLAINTEXT = "SASL_PLAINTEXT"
"""A value of `listener.security.protocol`, as PLAINTEXT is: clients authenticate."""
SSL = "SSL"
"""A value of it: connections are encrypted by TLS."""
SASL_SSL = "SASL_SSL"
PROTOCOLS = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)
PEM = "PEM"
"""The one type of keystores and truststores that is read."""


def has_sasl(protocol: str) -> bool:
    """Return whether clients must authenticate by SASL where this is `listener.security.protocol`."""
    return protocol in (SASL_PLAINTEXT, SASL_SSL)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """One node of the tier: what clients see, and where its actors run."""

    node_id: int
    host: str
    """The host that clients are told and that the broker binds."""
    port: int
    """The port that the broker binds."""
    rack: str | None = None
    ray_node: str | None = None
    """The address of the machine of the Ray cluster on which the node's actors stay; None: there is only one
    machine."""
    machine: str | None = None
    """The address of the agent of the machine on which the node's actors stay, if each machine has a Ray of
    its own; None: there is one Ray."""
    advertised_port: int | None = None
    """The port that clients are told, if something passes their connections on to `port`; None: nothing
    does."""

    def __reduce__(self) -> Rebuilding:
        return by_name(self)

    @property
    def elsewhere(self) -> str | None:
        """Return what names the node's machine in calls; None: there is only one machine."""
        return self.machine or self.ray_node

    @property
    def clients_port(self) -> int:
        """Return the port at which clients find the node."""
        return self.port if self.advertised_port is None else self.advertised_port


class Copy(NamedTuple):
    """One replica of a Raft group and its place. A replica that moves to another node is a new one, with a
    number that its group has not had before."""

    replica_id: int
    node_id: int


Copies = tuple[Copy, ...]
"""All replicas of one group; the first is the preferred leader."""


def copies(node_ids: Sequence[int]) -> Copies:
    """Return the copies of a new group, numbered from 0."""
    return tuple(Copy(replica_id, node_id) for replica_id, node_id in enumerate(node_ids))


class RaftSettings(NamedTuple):
    """The settings of a Raft group. A killed leader's closed connections start an election at once; these
    times only judge the silent (frozen, cut off), so they are long enough for a machine whose processors are
    all busy."""

    heartbeat_ms: int = 160
    """The interval of heartbeats: nearly a third of the shortest election timeout, because beats are what an
    idle replica spends its time on."""
    election_timeout_min_ms: int = 500
    election_timeout_max_ms: int = 1_000
    journal_sync: bool = True
    """Whether every write is synced to disk. Without, the journal is safe against process crashes only."""
    journal_segment_bytes: int = 16 * 1024 * 1024
    snapshot_journal_bytes_min: int = 16 * 1024 * 1024
    """The journal size that is worth a snapshot. One is taken when the journal is larger than this and than
    twice the last snapshot."""
    tls_certificate: str = ""
    """The PEM file of the certificate for mutual TLS on Raft's TCP links. The TLS files have the same paths
    on every machine; empty: no TLS."""
    tls_key: str = ""
    tls_ca: str = ""
    faults_file: str = ""
    """The file that says what a chaos run does to replicas (`storage.raft.injected`); empty: it does
    nothing."""

    def __reduce__(self) -> Rebuilding:
        return by_name(self)


class BrokerSettings(NamedTuple):
    """The settings of a broker. Each field `a_b` is the setting `a.b`, with Kafka's name and default if Kafka
    has it."""

    auto_create_topics_enable: bool = True
    num_partitions: int = 3
    connections_max_idle_ms: int = 600_000
    max_connections: int = 20_000
    max_connections_per_ip: int = 20_000
    socket_request_max_bytes: int = 104_857_600
    message_max_bytes: int = 1_048_588
    log_retention_bytes: int = 64 * 1024 * 1024
    """How many bytes of one partition's log are kept, in memory."""
    log_retention_ms: int = 3_600_000
    max_incremental_fetch_session_cache_slots: int = 1_000
    topics_max: int = 10_000
    partitions_max: int = 100_000
    """How many partitions all topics together may have."""
    listener_security_protocol: str = PLAINTEXT
    sasl_enabled_mechanisms: tuple[str, ...] = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    connections_max_reauth_ms: int = 0
    """How long an authentication holds, in ms (KIP-368); 0: as long as its connection."""
    admin_user: str = "admin"
    """The user that a new tier lets in first, and who is a superuser; its password is the tier's secret. "":
    nobody is, because a cluster upstream has the users."""
    authorizer: str = "none"
    super_users: str = ""
    allow_everyone_if_no_acl_found: bool = False
    metrics_host: str = "127.0.0.1"
    metrics_port: int = -1
    """The port of the first node's HTTP endpoint, which the others' follow; 0: any free port; -1: none."""
    group_own_apis_advertised: bool = False
    """A setting of our own: whether ApiVersions tells every client of requests that Kafka does not have, and
    not only those that say that they know them (`actors.catalog.api_versions`)."""
    ssl_keystore_location: str = ""
    """The PEM file of a node's private key and of its certificate with those that vouch for it."""
    ssl_keystore_type: str = PEM
    ssl_key_password: str = ""
    ssl_truststore_location: str = ""
    """The PEM file of the authorities whose certificates are believed: clients', and other nodes'."""
    ssl_truststore_type: str = PEM
    ssl_client_auth: str = "none"
    ssl_enabled_protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    ssl_principal_mapping_rules: str = "DEFAULT"
    ssl_endpoint_identification_algorithm: str = "https"
    """How nodes that connect to each other compare names with certificates; "": not at all."""

    def __reduce__(self) -> Rebuilding:
        return by_name(self)

    @property
    def has_sasl(self) -> bool:
        """Return whether clients must authenticate by SASL."""
        return has_sasl(self.listener_security_protocol)

    @property
    def has_tls(self) -> bool:
        """Return whether clients' connections are encrypted."""
        return self.listener_security_protocol in (SSL, SASL_SSL)


class HistorySettings(NamedTuple):
    """The settings of the history of one replica's events. Each field `a_b` is the setting `a.b`."""

    history_enable: bool = True
    history_dir: str = ""
    history_segment_bytes: int = 32 * 1024 * 1024
    """The size in memory at which a segment is written: on disk it is a tenth of that or less."""
    history_segment_ms: int = 30_000
    """The age at which a segment is written, which is what a crash loses at most."""
    history_retention_ms: int = 90 * 24 * 3_600 * 1_000
    history_retention_bytes: int = 1024 * 1024 * 1024
    """How many bytes of one offsets partition's segments are kept."""
    history_queue_max_events: int = 50_000
    """How many events may wait to be written: about 20 MB."""
    history_lag_interval_ms: int = 60_000
    """The interval at which groups' lag is sampled; 0: it is not sampled."""

    def __reduce__(self) -> Rebuilding:
        return by_name(self)


class UpstreamSpec(NamedTuple):
    """The Kafka cluster that the tier stands in front of: its nodes are brokers there."""

    cluster_id: str
    brokers: tuple[tuple[str, int], ...]
    """Addresses of brokers, (host, port), of which one has to be up when a node starts."""
    controllers: tuple[tuple[str, int], ...]
    """Addresses of controllers, of which one has to be up."""
    first_broker_id: int
    """The broker id of node 0; the others follow it."""
    listener: str = PLAINTEXT
    """The name that the listener of the tier's nodes has among the cluster's brokers: clients use it."""
    other_listeners: tuple[str, ...] = ()
    """Further names of brokers' listeners under which the same port is registered, such as that by which
    brokers reach each other."""
    protocol: str = PLAINTEXT
    """The security protocol of these listeners."""
    has_authorizer: bool = False
    """Whether the cluster's brokers ask its ACLs what a client may do: then nodes do as well."""
    creates_topics: bool = True
    """Whether the cluster's brokers create topics that clients ask for (`auto.create.topics.enable`)."""
    brokers_login: Login = OPEN
    """How nodes connect to brokers, and as whom."""
    controllers_login: Login = OPEN
    other_protocol: str = ""
    """The security protocol of the other listeners, which have a port of their own then; "": they share the
    one that there is."""
    other_port_shift: int = 0
    """How much higher that port is than the one that clients know."""

    def __reduce__(self) -> Rebuilding:
        return by_name(self)

    def broker_id(self, node_id: int) -> int:
        """Return the id that a node has as a broker of the cluster."""
        return self.first_broker_id + node_id

    @property
    def listeners(self) -> tuple[str, ...]:
        return (self.listener, *self.other_listeners)

    def protocol_of(self, listener: str) -> str:
        """Return the security protocol of one of the nodes' listeners."""
        return self.other_protocol if self.is_apart(listener) else self.protocol

    def port_of(self, listener: str, port: int) -> int:
        """Return at which port a listener is of a node that has `port` for the first of them."""
        return port + self.other_port_shift if self.is_apart(listener) else port

    def is_apart(self, listener: str) -> bool:
        """Return whether a listener has the nodes' second port."""
        return bool(self.other_protocol) and listener in self.other_listeners

    @property
    def knows_users(self) -> bool:
        """Return whether it matters to the cluster which user makes a request."""
        return self.has_authorizer or not {self.protocol, self.other_protocol} <= {PLAINTEXT, ""}


class TierSpec(NamedTuple):
    """One tier, as all its actors know it."""

    tier_id: str
    """The tier's id, which is also the Kafka cluster id and part of the Ray namespace."""
    secret: str
    """The secret that the tier's actors share. It proves a peer's identity on Raft links and node sockets."""
    data_dir: str
    """The folder of journals and snapshots: `<data_dir>/node-<n>/<group>/`."""
    run_dir: str
    """The folder of Unix sockets. It is short, because their paths may have at most 107 bytes."""
    nodes: tuple[NodeSpec, ...]
    placement: tuple[Copies, ...]
    """The replicas of each offsets partition. Two may share a node (one machine, one port, three copies)."""
    controllers: Copies
    """The replicas of the controller."""
    raft_port_base: int | None = None
    """The lowest of the TCP ports of Raft links, which are `host:base + index`; None: the links are Unix
    sockets in `run_dir` (one machine)."""
    formed: bool = False
    """Whether the tier was ready before: then a replica without a journal has lost one, and with it promises
    it made."""
    leaving: tuple[tuple[str, Copy], ...] = ()
    """The replicas that are in no row above and still run until their group has let them go: (group,
    replica)."""
    alone: tuple[str, int] | None = None
    """The replica that, at its first start in this life of the tier, is to go on as its group's only member:
    (group, replica). The majority is gone, and the loss of what only they knew is accepted."""
    reconciler: str | None = None
    """The `module:class` that the controller's leader makes with (spec, submit) and steps once a second."""
    replica_lost_timeout_ms: int = 300_000
    """How long, in ms, a replica may not answer before it is replaced on another node; 0: for ever."""
    agent: tuple[str, str] | None = None
    """The address of the agent of the machine on which this actor is, and the machines' secret; None: there
    is one Ray. The agent itself fills it in."""
    admin_password: str = ""
    """The password of `admin.user`, if clients must authenticate."""
    groups: GroupSettings = GroupSettings()
    raft: RaftSettings = RaftSettings()
    broker: BrokerSettings = BrokerSettings()
    history: HistorySettings = HistorySettings()
    # Machines keep the specs of their actors in the order of the fields: new ones stand at the end.
    draining: tuple[int, ...] = ()
    """The nodes that are to give up what they hold."""
    lost: tuple[int, ...] = ()
    """The nodes whose machines are gone for good: they are replaced, and forgotten when nothing is left
    there."""
    replica_balance_enable: bool = True
    """Whether replicas and preferred leaders are moved so that nodes have equally many."""
    started_partitions: int = 0
    """How many offsets partitions there were when the tier was started this time; 0: as many as in
    `placement`."""
    unmoved: tuple[int, ...] = ()
    """The offsets partitions that are being split and whose groups have not moved yet."""
    undropped: tuple[int, ...] = ()
    """The offsets partitions that are being split; (): no split runs."""
    upstream: UpstreamSpec | None = None
    """The Kafka cluster whose groups the tier coordinates; None: it has groups of its own."""

    def __reduce__(self) -> Rebuilding:
        return by_name(self)

    @property
    def namespace(self) -> str:
        return f"groupd-{self.tier_id}"

    @property
    def sasl_settings(self) -> BrokerSettings:
        """Return the broker's settings with the protocol of a port at which clients authenticate by SASL, if
        a node has one."""
        if self.upstream is None or self.broker.has_sasl or not has_sasl(self.upstream.other_protocol):
            return self.broker
        return self.broker._replace(listener_security_protocol=self.upstream.other_protocol)

    @property
    def offsets_partitions(self) -> int:
        return len(self.placement)

    def node(self, node_id: int) -> NodeSpec:
        """Return what is known of a node. Raises LookupError."""
        for node in self.nodes:
            if node.node_id == node_id:
                return node
        raise LookupError(f"the tier has no node {node_id}")

    def hub_path(self, node_id: int) -> str:
        """Return the path of the Unix socket on which a node's broker meets its replicas."""
        return f"{self.run_dir}/hub-{node_id}.sock"

    def copies(self, group: str) -> Copies:
        """Return the replicas of `group` ("controller" or "partition-<p>")."""
        if group == CONTROLLER_GROUP:
            return self.controllers
        return self.placement[int(group.removeprefix(PARTITION_GROUP))]

    def node_of(self, group: str, replica_id: int) -> int:
        """Return the node on which a replica of `group` lives."""
        leaving = (copy for name, copy in self.leaving if name == group)
        return dict((*leaving, *self.copies(group)))[replica_id]

    def directory(self, group: str, replica_id: int, node_id: int) -> str:
        """Return the folder of a replica's journal and snapshot."""
        return f"{self.data_dir}/node-{node_id}/{group}-{replica_id}"

    def began(self, group: str, replica_id: int) -> str:
        """Return the path of a file that is there from a replica's first start in this life of the tier on,
        apart from its data: a replica that lost its data is known by it."""
        return f"{self.run_dir}/{group}-{replica_id}.began"

    def raft_address(self, group: str, replica_id: int, node_id: int) -> str:
        """Return where a replica of `group` listens for its peers: "unix:<path>" or "host:port". Raises
        LookupError."""
        if self.raft_port_base is None:
            return f"unix:{self.run_dir}/{group}-{replica_id}.sock"
        index = 0 if group == CONTROLLER_GROUP else 1 + int(group.removeprefix(PARTITION_GROUP))
        # The addresses stay as they are when partitions are split: those of the new ones come after them.
        stride = (self.started_partitions or self.offsets_partitions) + 1
        port = self.raft_port_base + index // stride * stride * PORTS_A_GROUP
        port += replica_id % PORTS_A_GROUP * stride + index % stride
        return f"{self.node(node_id).host}:{port}"

    def link_slot(self, partition: int, replica_id: int) -> int:
        """Return the number of a replica's link to its node's broker."""
        return partition << REPLICA_BITS | replica_id

    def raft_secret(self, group: str) -> bytes:
        return hashlib.sha256(f"{self.secret}/{group}".encode()).digest()


def replica_of_slot(slot: int) -> tuple[int, int]:
    """Return the partition and the replica number of a link to a node's broker."""
    return slot >> REPLICA_BITS, slot & ((1 << REPLICA_BITS) - 1)


REPLICA_BITS = 16
"""How many bits a replica's number has, which grows by one each time a replica of its group moves."""
PORTS_A_GROUP = 16
"""How many ports a group's replicas share on a machine: replicas whose numbers differ by a multiple of this
may not share one."""
CONTROLLER_GROUP = "controller"
PARTITION_GROUP = "partition-"


def partition_group(partition: int) -> str:
    """Return the name of the Raft group of an offsets partition."""
    return f"{PARTITION_GROUP}{partition}"


def broker_name(node_id: int) -> str:
    return f"broker-{node_id}"


def controller_name(replica: int) -> str:
    return f"{CONTROLLER_GROUP}-{replica}"


def controller_of(name: str) -> int | None:
    """Return the replica's number in the name of a controller's actor; None for another actor's name."""
    group, _, replica = name.rpartition("-")
    return int(replica) if group == CONTROLLER_GROUP else None


def partition_name(partition: int, replica: int) -> str:
    return f"partition-{partition}-{replica}"
