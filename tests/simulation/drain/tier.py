"""A small tier in simulated time: its nodes, and the Raft groups whose replicas they hold.

There are more nodes than copies, so that one can be drained. What is wanted stands in the committed metadata
alone: whoever looks at it here reads the controller's log, not a replica's memory.
"""

from __future__ import annotations

import random
from functools import partial

from actors.ground.image import ACTIVE, DRAINING, NodeHome
from actors.ground.spec import CONTROLLER_GROUP, Copies, NodeSpec, TierSpec, copies, partition_group
from actors.metadata.records import GROUP_PLACEMENT, NODE_HOME, GroupPlacementValue
from storage.raft.members import Member, Members
from tests.simulation.hosts import Host
from tests.simulation.machines import COORDINATOR, LOG, METADATA, Kind
from tests.simulation.placement import Placement
from tests.simulation.together import Together
from tests.simulation.world import Code, Trace

SPARE_NODES = (1, 1, 2)
"""How many nodes more than copies of any group there are."""
AWAY_S = (0.2, 0.2, 0.8, 2.5)
"""How long a machine is away that dies, more or less."""


class Tier:
    """What is there, and what the controller has decided."""

    def __init__(self, seed: int, code: Code, trace: Trace | None) -> None:
        self.seed = seed
        self.chance = chance = random.Random(f"drains of {seed}")
        counts = [chance.choice((3, 3, 1))]
        counts += [chance.choice((3, 3, 3, 1, 5)) for _ in range(chance.choice((1, 1, 2)))]
        self.nodes = range(max(counts) + chance.choice(SPARE_NODES))
        names = [CONTROLLER_GROUP, *(partition_group(number) for number in range(len(counts) - 1))]
        kinds = [METADATA, *chance.sample((COORDINATOR, LOG), len(counts) - 1)]
        self.groups: dict[str, Group] = {}
        for number, (name, kind, count) in enumerate(zip(names, kinds, counts, strict=True)):
            self.groups[name] = Group(self, name, 3 * seed + number, kind, count, code, trace)
        self.spec = self._spec([copies(range(count)) for count in counts])
        self.controllers = self.groups[CONTROLLER_GROUP]
        self.away_until: dict[int, float] = {}
        """Node -> until when its machine is away."""
        self.dismissed_at: list[float] = []
        """When replicas that had moved were gone."""
        self.failure: Exception | None = None
        """What went wrong in work that nobody waits for."""

    def _spec(self, rows: list[Copies]) -> TierSpec:
        has_racks = self.chance.random() < 0.3
        return TierSpec(
            tier_id=f"sim-{self.seed}",
            secret="",
            data_dir="/data",
            run_dir="/run",
            nodes=tuple(
                NodeSpec(
                    node_id=node_id,
                    host=f"host-{node_id}",
                    port=9_092,
                    rack=f"rack-{node_id % 3}" if has_racks else None,
                    machine=f"host-{node_id}:7000",
                )
                for node_id in self.nodes
            ),
            placement=tuple(rows[1:]),
            controllers=rows[0],
            replica_lost_timeout_ms=0,
        )

    @property
    def worlds(self) -> list[Group]:
        return list(self.groups.values())

    @property
    def now(self) -> float:
        return self.controllers.now

    def note(self, what: str) -> None:
        self.controllers.note("controller", what)

    # What is decided.

    def placed(self, group: str) -> GroupPlacementValue:
        """Return where a group's replicas should be, as of the controller's newest committed entry."""
        value = self.controllers.state.live.get((GROUP_PLACEMENT, "", group))
        founding = self.spec.copies(group)
        return (
            GroupPlacementValue(founding, len(founding)) if value is None else GroupPlacementValue.of(value)
        )

    def draining(self) -> list[int]:
        """Return the nodes that are to give up what they hold."""
        live = self.controllers.state.live
        homes = {node_id: live.get((NODE_HOME, "", node_id)) for node_id in self.nodes}
        duties = {n: ACTIVE if home is None else NodeHome(*home).duty for n, home in homes.items()}
        return [node_id for node_id, duty in duties.items() if duty == DRAINING]

    # Machines.

    def is_away(self, node_id: int) -> bool:
        return self.away_until.get(node_id, 0.0) > self.now

    def lose_power(self, node_id: int) -> None:
        """A whole machine goes, with the replicas of every group, and comes back."""
        seconds = self.chance.choice(AWAY_S) * self.chance.uniform(0.7, 1.3)
        self.away_until[node_id] = self.now + seconds
        self.note(f"machine of node {node_id} is away for {seconds:.2f} s")
        for world in self.worlds:
            for host in list(world.hosts.values()):
                if world.node_of[host.number] == node_id:
                    host.stop(power_lost=world.sync, for_s=seconds)

    def schedule_faults(self, until: float) -> None:
        if self.chance.random() < 0.5:
            for _ in range(self.chance.randint(1, 3)):
                node_id = self.chance.choice(self.nodes)
                at = self.chance.uniform(0.6, until)
                self.controllers.at(at, partial(self._lose_power_once, node_id))

    def _lose_power_once(self, node_id: int) -> None:
        if not self.controllers.is_healed:
            self.lose_power(node_id)

    def heal(self) -> None:
        self.away_until.clear()
        for world in self.worlds:
            world.heal()

    # The end.

    def complaint(self, since: float) -> str | None:
        """Return what is still wrong; None when all is well, and drained nodes hold nothing any more."""
        for name, world in self.groups.items():
            complaint = world.complaint(since)
            if complaint is not None:
                return f"{name}: {complaint}"
        draining = self.draining()
        if not draining:
            return "no node is drained"
        for node_id in draining:
            held = self._held_on(node_id)
            if held:
                return f"node {node_id} is to give up what it holds, and has {held[0]}"
        return None

    def _held_on(self, node_id: int) -> list[str]:
        found = []
        for name, world in self.groups.items():
            placed = self.placed(name)
            found += [f"{copy} of {name}" for copy in (*placed.copies, *placed.leaving) if copy[1] == node_id]
            found += [f"member {each} of {name}" for each in world.checks.members if each.node_id == node_id]
            found += [
                f"the actor of {host.name} of {name}"
                for host in world.hosts.values()
                if world.node_of[host.number] == node_id and not host.retired
            ]
        return found

    def check_failure(self) -> None:
        """Raise what went wrong in work that nobody waits for."""
        if self.failure is not None:
            raise self.failure


class Group(Together):
    """One of the tier's Raft groups."""

    def __init__(
        self, tier: Tier, name: str, seed: int, kind: Kind, count: int, code: Code, trace: Trace | None
    ) -> None:
        self.tier = tier
        self.name = name
        self.initial = "k" if name == CONTROLLER_GROUP else "rs"[len(tier.groups) - 1]
        self.node_of = {number: number for number in range(count)}
        """Replica's number -> its node."""
        others = list(tier.groups.values())
        super().__init__(seed, others, replicas=count, code=code, trace=trace, kind=kind)  # type: ignore[arg-type]
        self.placement = Placed(self)

    def complaint(self, since: float) -> str | None:
        for copy in self.tier.placed(self.name).copies:
            if copy.replica_id not in self.hosts:
                return f"there is no replica {copy}"
        return super().complaint(since)

    def replace_host(self, number: int, node_id: int) -> Host:
        """Make the actor of a replica, which may have been there before."""
        host = self.hosts.get(number)
        if host is None:
            self.node_of[number] = node_id
            return self.add_replica(number)
        assert host.retired, "the caller has looked"
        host.retired = False
        host.start()
        return host


class Placed(Placement):
    """The replicas that the controller wants."""

    def __init__(self, world: Group) -> None:
        self._world = world
        self._group = world

    @property
    def wanted(self) -> list[int]:  # type: ignore[override]
        return [copy.replica_id for copy in self._group.tier.placed(self._group.name).copies]

    def target(self) -> dict[str, int] | None:
        hosts = [self._group.hosts.get(number) for number in self.wanted]
        if any(host is None or host.member_id is None or host.refused is not None for host in hosts):
            return None
        return {host.member_id: self._group.node_of[host.number] for host in hosts if host is not None}

    def members(self) -> Members:
        target = self.target() or {}
        return tuple(sorted(Member(name, node_id, True) for name, node_id in target.items()))

    def is_whole(self) -> bool:
        return self._group.hosts.keys() >= set(self.wanted) and super().is_whole()

    def resize(self, size: int) -> None:
        """Do nothing: here it is nodes that come and go."""

    def step(self) -> None:
        """Do nothing: the controller's leader sees to that."""
