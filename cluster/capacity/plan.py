"""Looks for the smallest tier that carries a load, with machines lost. PURE.

Rules, each with its limit below: a leader is one thread and keeps half of a core free; the machines that are
left after a loss carry all leaders and copies, and are not full; every machine has one node.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from cluster.capacity import model
from cluster.capacity.costs import Costs
from cluster.capacity.model import Needs, Shape, Share
from cluster.capacity.workload import Machine, Safety, Workload, check

NODES_MAX: Final = 99
PARTITIONS_MAX: Final = 1_000
CONNECTIONS_DEFAULT: Final = 20_000
"""`max.connections`, as it is by default."""


class Limit(NamedTuple):
    value: float
    why: str


LIMITS: Final[Mapping[str, Limit]] = MappingProxyType(
    {
        "leader_cores": Limit(0.5, "cores of one leader at most: it is one thread, and bursts have to fit"),
        "machine_cores": Limit(0.6, "of the processors of the machines that are left after a loss"),
        "machine_memory": Limit(0.7, "of their memory; the rest is the system's and its cache of files"),
        "leader_members": Limit(
            100_000,
            "members of one leader: so many were measured, and all connect anew at once",
        ),
        "leader_heartbeats": Limit(10_000, "heartbeats a second: `group.heartbeat.budget.per.second`"),
        "spread": Limit(3, "standard deviations by which the fullest partition may exceed the mean"),
    }
)


class TooLargeError(ValueError):
    """No tier carries the load; the text says what stands in the way and what to change."""


class PerMachine(NamedTuple):
    """What one machine needs: its share of everything."""

    cores: float
    memory_bytes: float
    disk_write_bytes_s: float
    disk_bytes: float
    received_bytes_s: float
    sent_bytes_s: float


class Tier(NamedTuple):
    """A tier that carries the load."""

    shape: Shape
    needs: Needs
    whole: PerMachine
    """What a machine needs while all are there."""
    lost: PerMachine
    """What each of the others needs when machines are lost."""
    fullest_leader_cores: float
    connections_per_node: int
    """What `max.connections` has to allow each node, machines being lost."""
    decided_by: str
    """What would have to be less for a smaller tier."""


def plan(load: Workload, machine: Machine, safety: Safety, costs: Costs) -> Tier:
    """Return the smallest tier. Raises NonsenseError, TooLargeError."""
    check(load, machine, safety)
    least, partitions_by = _partitions(load, costs)
    machines_by = f"{safety.copies} copies on machines of their own"
    for machines in range(safety.copies, NODES_MAX + 1):
        # Leaders are spread evenly if there are as many on every machine.
        partitions = min(-(-least // machines) * machines, max(PARTITIONS_MAX, least))
        shape = Shape(machines, machines, partitions, safety.copies)
        tier = _tier(load, shape, safety, costs)
        full = _full(tier, machine)
        if not full:
            return tier._replace(decided_by=f"{partitions_by}; {machines_by}")
        machines_by = full
    raise TooLargeError(
        f"{NODES_MAX} machines of {machine.cores} cores and {machine.memory_bytes / 2**30:g} GiB are not "
        f"enough ({machines_by}): take larger machines, or several tiers"
    )


def _partitions(load: Workload, costs: Costs) -> tuple[int, str]:
    """Return the least number of partitions whose fullest leader is within its limits, and which limit
    decides. Raises TooLargeError."""
    exceeded = "one leader would do"
    for partitions in range(1, PARTITIONS_MAX + 1):
        over = _over(load, partitions, costs)
        if over is None:
            return partitions, exceeded
        exceeded = over
    raise TooLargeError(
        f"{PARTITIONS_MAX:,} offsets partitions are not enough ({exceeded}): take several tiers"
    )


def _over(load: Workload, partitions: int, costs: Costs) -> str | None:
    """Return which limit the fullest of so many leaders exceeds."""
    share = _fullest(load, partitions)
    if share.members > LIMITS["leader_members"].value and share.groups > 1:
        return f"a leader's members, {share.members:,.0f}"
    if share.heartbeats > LIMITS["leader_heartbeats"].value and share.groups > 1:
        return f"a leader's heartbeats, {share.heartbeats:,.0f} a second"
    cores = model.leader_of(share, load, costs).cores
    return f"a leader's thread, {cores:.2f} cores" if cores > LIMITS["leader_cores"].value else None


def _fullest(load: Workload, partitions: int) -> Share:
    """The share of the fullest partition: groups fall into partitions by a hash, so the numbers of groups
    scatter as those of balls in boxes. No partition has more than the whole load."""
    mean = load.groups / partitions
    most = min(float(load.groups), mean + LIMITS["spread"].value * math.sqrt(mean))
    return Share.of(load, load.groups / max(most, 1.0))


def _tier(load: Workload, shape: Shape, safety: Safety, costs: Costs) -> Tier:
    found = model.needs(load, shape, costs)
    left = shape.machines - safety.lost
    return Tier(
        shape,
        found,
        _per_machine(found, shape, shape.machines, costs),
        _per_machine(found, shape, left, costs),
        model.leader_of(_fullest(load, shape.partitions), load, costs).cores,
        math.ceil(load.connections / left),
        "",
    )


def _per_machine(found: Needs, shape: Shape, left: int, costs: Costs) -> PerMachine:
    """Return what each of `left` machines needs when they have all leaders, and all copies too, as far as no
    machine then has two copies of a partition."""
    copies = min(shape.copies, left)
    own = model.base(shape._replace(machines=1, nodes=1, copies=1), costs)
    leaders, followers = shape.partitions / left, shape.partitions * (copies - 1) / left
    replication = found.traffic.replication * (copies - 1) / max(1, shape.copies - 1)
    return PerMachine(
        own.cores + leaders * found.leader.cores + followers * found.follower.cores,
        own.memory_bytes + leaders * found.leader.memory_bytes + followers * found.follower.memory_bytes,
        (leaders + followers) * found.leader.disk_write_bytes_s,
        (leaders + followers) * found.leader.disk_bytes + leaders * model.ASSUMED["history_bytes"].value,
        (found.traffic.clients_in + replication) / left,
        (found.traffic.clients_out + replication) / left,
    )


def _full(tier: Tier, machine: Machine) -> str:
    """Say what does not fit on the machines that are left; empty if all fits."""
    cores = LIMITS["machine_cores"].value * machine.cores
    memory = LIMITS["machine_memory"].value * machine.memory_bytes
    if tier.lost.cores > cores:
        return f"a machine's processors after the loss, {tier.lost.cores:.1f} cores"
    if tier.lost.memory_bytes > memory:
        return f"a machine's memory after the loss, {tier.lost.memory_bytes / 2**30:.1f} GiB"
    return ""
