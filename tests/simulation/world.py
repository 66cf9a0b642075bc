"""A deterministic world for storage and coordination: virtual time, hosts, links, clients, checkers.

The classes under test are the production ones. Only socket, file, clock and randomness are replaced. The
same seed gives the same run, whatever PYTHONHASHSEED is: everything is ordered, and one source of chance
drives it.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from actors.assignors.registry import PlugIn
from actors.coordinator.ground.state import NO_HOME
from actors.coordinator.shard import CoordinatorShard
from actors.ground.image import MetadataImage
from actors.leader.held_heartbeats import HoldCounts
from actors.leader.lane.memory import Memory
from actors.replica.replica import Replica
from actors.replica.turn import Turns
from storage.raft.contract import RaftConfig
from storage.raft.journal import Journal
from storage.raft.raft import APPLY_LATER_MAX, Raft
from storage.raft.replication import LATER_ENTRIES_MAX
from storage.raft.snapshot import SnapshotStore
from tests.simulation.answers import Answers
from tests.simulation.checkers import Bounds, Checks, State, Violation, Votes
from tests.simulation.clients import Administrator, Committer, Flood, LogCommitter, Reader
from tests.simulation.evidence import Evidence
from tests.simulation.hosts import Host, Process
from tests.simulation.links import Links
from tests.simulation.machines import COORDINATOR, GROUP_SETTINGS, LOG, METADATA, Kind, image_of
from tests.simulation.members_client import ClassicMember, ConsumerMember, Member, is_stable
from tests.simulation.placement import Placement
from tests.simulation.plug_ins import Fickle
from tests.simulation.promises import Promises
from tests.simulation.releases import Releases
from tests.simulation.rests import Rests
from tests.simulation.rules import Rules

__all__ = ["CONFIG", "PRODUCTION", "Code", "Trace", "Violation", "World"]

CONFIG = RaftConfig(
    batch_bytes=600,
    window_bytes_max=2_000,
    entry_bytes_max=20_000,
    pending_bytes_max=20_000,
    snapshot_journal_bytes_min=6_000,
    snapshot_chunk_bytes=400,
)
"""Small: segments, snapshots and chunks come all the time."""

QUIET_S = 3.0
"""The simulated time, after a run, within which clients are forgotten and replicas become equal."""
LAG_MAX = APPLY_LATER_MAX + LATER_ENTRIES_MAX + 20
"""How many entries a replica may lag behind that is well: what it applies later, what it gets later, and what
is under way."""

Trace = Callable[[float, str, str], None]
"""Called with the simulated time in seconds, the replica (or client) and what it does."""


class Code(NamedTuple):
    """The classes under test."""

    raft: type[Any]
    replica: type[Any]
    journal: type[Any]
    snapshots: type[Any]
    plug_in: type[Any]
    turns: type[Any]
    shard: type[Any]
    memory: type[Any]


PRODUCTION = Code(Raft, Replica, Journal, SnapshotStore, PlugIn, Turns, CoordinatorShard, Memory)


class World:
    """Replicas of one group, their clients, and all that may happen to them."""

    home = NO_HOME
    """The offsets partition that the group replicates."""
    group_settings = GROUP_SETTINGS

    def __init__(
        self,
        seed: int,
        *,
        replicas: int | None,
        code: Code = PRODUCTION,
        trace: Trace | None = None,
        kind: Kind | None = None,
    ) -> None:
        """Make a world; what of `kind` and `replicas` is None the seed decides."""
        chance = self.chance = random.Random(seed)
        self.seed = seed
        self.code = code
        self.trace = trace
        self.rests = Rests(self, seed)
        self.config = replace(
            CONFIG,
            snapshot_chunk_bytes=chance.choice((200, 400, 400, 50_000)),
            rest_after_s=self.rests.after_s,
        )
        self.now = 0.0
        self.events = 0
        self.is_healed = False
        self.is_over = False
        self.quiet_until = 0.0
        """No commits before this time: with equal logs anybody can be elected."""
        self.sync = chance.random() < 0.8
        self.one_machine = chance.random() < 0.4
        """Whether all replicas are on one machine, and so have the same clock."""
        drawn_kind = chance.choices((COORDINATOR, LOG, METADATA), (50, 38, 12))[0]
        self.kind: Kind = drawn_kind if kind is None else kind
        drawn = chance.choices((1, 3, 5), (8, 72, 20))[0]
        self.founders = tuple(range(drawn if replicas is None else replicas))
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._ids = 0
        self.image_version = 1
        self._no_clients_until: dict[int, float] = {}
        self.state = State()
        self.checks = Checks(self)
        self.votes = Votes()
        self.promises = Promises()
        self.rules = Rules(self)
        self.evidence = Evidence()
        self.bounds = Bounds(self)
        self.links = Links(self)
        self.answers = Answers(self)
        self.holds = HoldCounts()
        self.plug_in_calls: Counter[str] = Counter()
        """How often plug-ins were called, by what they did."""
        self.hosts: dict[int, Host] = {}
        self.releases = Releases(self, seed)
        for number in self.founders:
            self.hosts[number] = Host(self, number, is_founder=True)
        self.placement = Placement(self)
        self.clients = self._clients()

    def _clients(self) -> list[Any]:
        if self.kind is LOG:
            names = [f"log-{number}" for number in range(3)]
            return [
                Flood(self),
                Reader(self, "reader", "log"),
                *(LogCommitter(self, name, "log", 0.01) for name in names),
            ]
        if self.kind is METADATA:
            return [Administrator(self, "admin-0"), Administrator(self, "admin-1")]
        number = self.chance.randint(2, 3)
        assignor = self.chance.choice((None, Fickle.name, Fickle.name))
        return [
            Reader(self, "reader", "simple"),
            *(Committer(self, f"committer-{each}", "simple", 0.015) for each in range(2)),
            *(ClassicMember(self, f"classic-{each}", "classic") for each in range(number)),
            *(ConsumerMember(self, f"consumer-{each}", "consumer", assignor) for each in range(number)),
        ]

    # -- time ---------------------------------------------------------------------------------------

    def at(self, when: float, work: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._queue, (when, self._count, work))

    def after(self, seconds: float, work: Callable[[], None]) -> None:
        self.at(self.now + seconds, work)

    def every(self, period: float, work: Callable[[], None]) -> None:
        """Do this again and again until the run is over."""

        def again() -> None:
            work()
            self.after(self.chance.uniform(0.5, 1.5) * period, again)

        self.after(0.0, again)

    def run_until(self, end: float) -> None:
        queue = self._queue
        while queue and queue[0][0] <= end:
            when, _, work = heapq.heappop(queue)
            self.now = max(self.now, when)
            self.events += 1
            work()
        self.now = max(self.now, end)

    def note(self, name: str, what: str) -> None:
        if self.trace is not None:
            self.trace(self.now, name, what)

    # -- who is there -------------------------------------------------------------------------------

    def processes(self) -> list[Process]:
        """Return the processes that are alive, by number; those that are paused are among them."""
        return [host.process for host in self.hosts.values() if host.process is not None]

    def members(self) -> list[Process]:
        """The processes that are members of the group as it should be."""
        wanted = self.placement.target() or {}
        return [process for process in self.processes() if process.member_id in wanted]

    def leader(self) -> Process | None:
        """Return the process that may answer clients now; None if there is none."""
        for process in self.processes():
            if process.raft.holds_lease and process.host.paused_until <= self.now:
                return process
        return None

    def add_host(self) -> Host:
        """Add a host with a number that no host had."""
        number = len(self.hosts)
        host = self.hosts[number] = Host(self, number, is_founder=False)
        host.start()
        return host

    def image(self) -> MetadataImage:
        """Return what the controller would tell now."""
        return image_of(self.image_version, self.releases.level)

    def on_event(self, process: Process, event: Any) -> None:
        """Take an event of a process that is not one of plug-ins: nobody waits for any here."""

    def change_topics(self) -> None:
        """Coordinators hear of a topic that came or went, each in its own time."""
        self.image_version += 1
        image = self.image()
        if self.kind is COORDINATOR:
            for process in self.processes():
                self.after(self.chance.uniform(0, 0.3), partial(process.on_metadata, image))

    def new_id(self) -> str:
        self._ids += 1
        return f"{self._ids:012}"

    def reaches(self, process: Process) -> bool:
        """Whether clients can reach this replica."""
        return self._no_clients_until.get(process.number, 0.0) <= self.now

    def cut_clients(self, number: int, seconds: float) -> None:
        self._no_clients_until[number] = self.now + seconds

    # -- the end ------------------------------------------------------------------------------------

    def start(self) -> None:
        for host in list(self.hosts.values()):
            self.after(self.chance.uniform(0, 0.05), host.start)
        for client in self.clients:
            self.after(self.chance.uniform(0.3, 0.8), client.start)
        self.every(0.06, self.links.connect_all)
        self.every(0.006, self.checks.leases)
        self.every(0.07, self.checks.arrays)
        self.every(0.1, self.placement.step)
        self.releases.start()
        self.rests.start()
        self.every(0.25, self._look_after)

    def _look_after(self) -> None:
        """Do what an operator or Ray does: start a replica anew that stopped because of its disk."""
        self.answers.overdue()
        for process in self.processes():
            if process.raft.status()["failure"] is not None:
                process.host.stop(for_s=0.05)

    def heal(self) -> None:
        self.is_healed = True
        self.votes.on_granted = None
        self.quiet_until = 0.0
        self._no_clients_until.clear()
        for host in list(self.hosts.values()):
            host.disk.full = host.disk.failing = False
            host.disk.calm()
            host.disk.operations_left = None
            host.paused_until = min(host.paused_until, self.now)
            if host.process is None:
                host.start()
            else:
                host.process.wake()
        self.links.unblock()

    def complaint(self, since: float) -> str | None:
        """Return what is still wrong in a world that was healed at `since`; None when all is well."""
        wanted = self.placement.target()
        if wanted is None or self.checks.members != self.placement.members():
            return f"the members are {self.checks.members}, wanted are {wanted}"
        states = [
            (p.name, p.raft.applied_index, p.raft.commit_index, p.raft.last_index) for p in self.members()
        ]
        if len(states) < len(wanted) or self.leader() is None:
            return f"of {sorted(wanted)} there are {states}; the leader is {self.leader()}"
        if min(state[1] for state in states) < self.checks.committed_index - LAG_MAX:
            return f"some lag: {states}, committed is entry {self.checks.committed_index}"
        late = [client.name for client in self.clients if not client.is_well(since)]
        if late:
            return f"{late} get nothing done"
        for cls in (ClassicMember, ConsumerMember):
            group: list[Member] = [client for client in self.clients if isinstance(client, cls)]
            if group and not is_stable(group):
                return f"{[(m.name, m.epoch, m.owned, m.is_settled) for m in group]} are not stable"
        return None

    def finish(self) -> None:
        """Clients fall silent, their sessions end, and all replicas come to the same state. Raises
        Violation."""
        self.is_over = True
        deadline = self.now + QUIET_S
        while (complaint := self._unequal()) is not None:
            if self.now > deadline:
                raise Violation(f"progress: {complaint}")
            self.run_until(self.now + 0.1)
        for process in self.members():
            self.checks.compare(process, process.raft.applied_index)
        self.bounds.journals()
        self.answers.judge()

    def _unequal(self) -> str | None:
        processes = self.members()
        indexes = {process.raft.applied_index for process in processes}
        if len(indexes) != 1 or min(indexes) < self.checks.committed_index:
            return f"the replicas end at entries {sorted(indexes)}"
        waiting = [process.name for process in processes if not process.machine.is_committed]
        return f"{waiting} still wait for commits" if waiting else None
