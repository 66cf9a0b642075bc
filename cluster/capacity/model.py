"""What a tier of a given shape needs under a load. PURE; `cluster.capacity.plan` looks for the shape.

Every leader has an equal share of the load here. How unequal shares can be, and what is left of the tier when
machines are lost, is the business of the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from cluster.capacity.costs import Costs
from cluster.capacity.workload import Workload

MIB: Final = 2**20
US: Final = 1e-6
PAGE_BYTES: Final = 4_096
CONTROLLERS_MAX: Final = 3
JOURNAL_BYTES_MIN: Final = 16 * MIB
"""`raft.snapshot.journal.bytes.min` and `raft.journal.segment.bytes`, as they are by default."""
TAIL_SHARE: Final = 0.25
"""What a snapshot leaves of that much of the journal, for peers that lag."""
HEARTBEATS_PER_S: Final = 1 / 0.16
"""How often a leader lets each follower hear of it (`raft.heartbeat.ms`)."""


class Assumption(NamedTuple):
    value: float
    unit: str
    why: str


ASSUMED: Final[Mapping[str, Assumption]] = MappingProxyType(
    {
        "packet_bytes": Assumption(66, "bytes", "Ethernet, IP and TCP around each packet"),
        "packets": Assumption(2, "packets", "each way for a request: its data, and an acknowledgement"),
        "raft_frame_bytes": Assumption(150, "bytes", "a Raft message between two machines without entries"),
        "entry_memory_bytes": Assumption(170, "bytes", "Python's objects around an entry of the journal"),
        "history_bytes": Assumption(2**30, "bytes", "history of a partition: `history.retention.bytes`"),
    }
)
"""Numbers that nobody measured here."""


class Shape(NamedTuple):
    """How a tier is cut. Every node has a broker, and Ray runs once on a machine."""

    machines: int
    nodes: int
    partitions: int
    copies: int

    @property
    def controllers(self) -> int:
        """The controller's replicas, as `cluster.placement` has them: an odd number, three at most."""
        fewer = min(self.copies, CONTROLLERS_MAX)
        return fewer - 1 + fewer % 2


class Replica(NamedTuple):
    """What one copy of a partition needs; rates are per second."""

    cores: float
    memory_bytes: float
    disk_write_bytes_s: float
    disk_bytes: float


class Traffic(NamedTuple):
    """Bytes per second on the network, packets included: of a whole tier, or of a machine."""

    clients_in: float
    clients_out: float
    replication: float
    """What leaders send to followers and hear from them. It is sent once and received once."""

    @property
    def received(self) -> float:
        return self.clients_in + self.replication

    @property
    def sent(self) -> float:
        return self.clients_out + self.replication


class Needs(NamedTuple):
    """What a whole tier needs."""

    leader: Replica
    follower: Replica
    cores: float
    memory_bytes: float
    disk_write_bytes_s: float
    disk_bytes: float
    traffic: Traffic


class Share(NamedTuple):
    """One partition's share of a load, in requests per second and things kept."""

    heartbeats: float
    commits: float
    joins: float
    members: float
    groups: float
    offsets: float
    connections: float

    @classmethod
    def of(cls, load: Workload, partitions: float) -> Share:
        whole = (
            load.heartbeats_per_s,
            load.commits_per_s,
            load.joins_per_s,
            load.members,
            load.groups,
            load.stored_offsets,
            load.connections,
        )
        return cls(*(each / partitions for each in whole))


def needs(load: Workload, shape: Shape, costs: Costs) -> Needs:
    """Return what a tier of this shape needs for the load."""
    share = Share.of(load, shape.partitions)
    leader, follower = leader_of(share, load, costs), follower_of(share, load, costs)
    followers = shape.partitions * (shape.copies - 1)
    copies = shape.partitions * shape.copies
    around = base(shape, costs)
    return Needs(
        leader,
        follower,
        around.cores + shape.partitions * leader.cores + followers * follower.cores,
        around.memory_bytes + shape.partitions * leader.memory_bytes + followers * follower.memory_bytes,
        copies * leader.disk_write_bytes_s,
        copies * leader.disk_bytes + shape.partitions * ASSUMED["history_bytes"].value,
        traffic(load, shape, costs),
    )


class Base(NamedTuple):
    """What is there before any group is: controllers, brokers and Ray."""

    cores: float
    memory_bytes: float


def base(shape: Shape, costs: Costs) -> Base:
    controllers = costs["controller_leader_idle"]
    controllers += (shape.controllers - 1) * costs["controller_follower_idle"]
    cores = controllers + shape.nodes * costs["broker_idle"] + shape.machines * costs["machine_idle"]
    memory = (
        shape.controllers * costs["controller_bytes"]
        + shape.nodes * costs["broker_bytes"]
        + shape.machines * costs["machine_bytes"]
    )
    return Base(cores, memory)


def leader_of(share: Share, load: Workload, costs: Costs) -> Replica:
    """What the leader of a partition needs."""
    together = share.heartbeats + share.commits
    cores = (
        costs["leader_idle"]
        + share.heartbeats * costs.curves[_heartbeat(load)].each(together) * US
        + share.commits * costs.curves["commit_leader"].each(together) * US
        + share.commits * (load.offsets - 1) * costs["offset_leader_us"] * US
        + share.joins * costs["join_leader_us"] * US
    )
    kept = (
        costs["leader_bytes"]
        + share.members * costs["member_leader_bytes"]
        + share.groups * costs["group_leader_bytes"]
        + share.connections * costs["connection_bytes"]
    )
    return _replica(cores, kept, share, load, costs)


def follower_of(share: Share, load: Workload, costs: Costs) -> Replica:
    """What a follower of a partition needs."""
    cores = (
        costs["follower_idle"]
        + share.commits * costs.curves["commit_follower"].each(share.commits) * US
        + share.commits * (load.offsets - 1) * costs["offset_follower_us"] * US
        + share.joins * costs["join_follower_us"] * US
    )
    kept = (
        costs["follower_bytes"]
        + share.members * costs["member_follower_bytes"]
        + share.groups * costs["group_follower_bytes"]
    )
    return _replica(cores, kept, share, load, costs)


def _heartbeat(load: Workload) -> str:
    """The curve of the load's heartbeats. A held classic one is taken for as dear as a held KIP-848 one."""
    if load.is_held:
        return "held_heartbeat"
    return "heartbeat" if load.protocol == "consumer" else "classic_heartbeat"


def _replica(cores: float, kept_bytes: float, share: Share, load: Workload, costs: Costs) -> Replica:
    """Add the journal, the snapshot and the offsets, which are the same in each copy."""
    commit_bytes = _commit_bytes(load, costs)
    disk = costs.curves["commit_disk"]
    snapshot = share.members * costs["member_snapshot_bytes"] + share.offsets * costs["offset_snapshot_bytes"]
    full = max(JOURNAL_BYTES_MIN, 2 * snapshot)
    journal = min(full, share.commits * commit_bytes * load.age_s)
    written = share.commits * (disk.each(share.commits) + (load.offsets - 1) * costs["offset_journal_bytes"])
    if journal == full:
        written += share.commits * commit_bytes * snapshot / (full - TAIL_SHARE * JOURNAL_BYTES_MIN)
    entries = journal / commit_bytes * _syncs(share.commits, costs)
    memory = (
        kept_bytes
        + share.offsets * costs["offset_bytes"]
        + journal
        + entries * ASSUMED["entry_memory_bytes"].value
        + (snapshot if journal == full else 0.0)  # while the next one is built
    )
    # On disk the old snapshot stays until the new one is whole, and a segment until all of it is behind.
    return Replica(cores, memory, written, journal + JOURNAL_BYTES_MIN + 2 * snapshot)


def _syncs(commits_per_s: float, costs: Costs) -> float:
    """How many syncs, and entries of the log, there are for each commit of a partition: by what the disk
    writes beyond the journal's own bytes, which is the rest of a page for each sync."""
    beyond = costs.curves["commit_disk"].each(commits_per_s) - costs["commit_journal_bytes"]
    return min(1.0, max(0.0, beyond / PAGE_BYTES))


def _commit_bytes(load: Workload, costs: Costs) -> float:
    return costs["commit_journal_bytes"] + (load.offsets - 1) * costs["offset_journal_bytes"]


def traffic(load: Workload, shape: Shape, costs: Costs) -> Traffic:
    """Return what the whole tier and its clients say to each other, and its replicas among themselves."""
    packets = ASSUMED["packets"].value * ASSUMED["packet_bytes"].value
    further = load.offsets - 1
    longer = load.name_bytes - costs["name_bytes"]
    # A request names its client and its group; a commit its topic as well, and so does its answer.
    beat_in = costs["heartbeat_in_bytes"] + 2 * longer
    commit_in = costs["commit_in_bytes"] + further * costs["offset_in_bytes"] + 3 * longer
    commit_out = costs["commit_out_bytes"] + further * costs["offset_out_bytes"] + longer
    received = load.heartbeats_per_s * (beat_in + packets) + load.commits_per_s * (commit_in + packets)
    sent = load.heartbeats_per_s * (costs["heartbeat_out_bytes"] + packets)
    sent += load.commits_per_s * (commit_out + packets)
    commits = load.commits_per_s / shape.partitions
    messages = commits * _syncs(commits, costs) + HEARTBEATS_PER_S
    around = 2 * (ASSUMED["raft_frame_bytes"].value + ASSUMED["packet_bytes"].value)
    of_copy = commits * _commit_bytes(load, costs) + messages * around
    return Traffic(received, sent, shape.partitions * (shape.copies - 1) * of_copy)
