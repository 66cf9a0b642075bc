"""A deterministic world for Raft: virtual time, links as TCP has them, disks that forget, faults by seed.

The same seed gives the same run, whatever PYTHONHASHSEED is: everything is sorted, and one source of chance
drives it all. The checkers live here, outside the code under test.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import Any

import msgpack
from crc32c import crc32c

from storage.core import RaftConfig
from storage.errors import Busy
from storage.journal import Identity, Journal
from storage.raft import Raft
from storage.skeleton import Node, RaftTransport
from storage.snapshot import SnapshotStore
from tests.simulation.disk import SaveExecutor, SimDisk, SyncExecutor
from tests.simulation.links import Links

CONFIG = RaftConfig(
    batch_bytes=600,
    window_bytes_max=2_000,
    entry_bytes_max=20_000,
    pending_bytes_max=20_000,
    snapshot_journal_bytes_min=6_000,
    snapshot_chunk_bytes=200,
)


class Violation(AssertionError):
    """A safety property does not hold."""


class Machine:
    """A state that tells everything ever applied by one checksum, and grows enough to make chunks."""

    def __init__(self, world: World, replica: Replica) -> None:
        self._world = world
        self._replica = replica
        self.index = 0
        self.digest = 0
        self.kept: list[bytes] = []
        self.leading = False

    def apply(self, index: int, term: int, command: bytes) -> None:
        if index <= self.index:
            raise Violation(f"entry {index} applied after entry {self.index}")
        self.index = index
        self.digest = crc32c(command, crc32c(b"%d %d" % (index, term), self.digest))
        self.kept = [*self.kept[-19:], command]
        self._world.applied(self._replica, index, term, command, self.digest)

    def snapshot(self) -> bytes:
        content: bytes = msgpack.packb((self.index, self.digest, self.kept))
        return content

    def restore(self, data: bytes) -> None:
        self.index, self.digest, self.kept = msgpack.unpackb(data)

    def on_leading(self, term: int) -> None:
        self.leading = True

    def on_fallen(self) -> None:
        self.leading = False
        self._replica.proposed.clear()


class SimTransport(RaftTransport):
    def __init__(self, links: Links, own_id: str) -> None:
        super().__init__(None, None, [])
        self._links = links
        self._own_id = own_id

    def send(self, node: Node, message: Any) -> bool:
        return self._links.send(self._own_id, node.id, tuple(message))

    def destroy(self) -> None:
        pass


class Replica:
    """One replica's place in the world: its disk and clock stay, its processes come and go."""

    def __init__(self, world: World, replica_id: str) -> None:
        self.world = world
        self.id = replica_id
        self.disk = SimDisk(world.chance)
        self.rate = world.chance.uniform(0.96, 1.04)
        self.offset = world.chance.uniform(0, 1_000)
        self.raft: Raft | None = None
        self.machine: Machine | None = None
        self.transport: SimTransport | None = None
        self.life = 0
        self.paused_until = 0.0
        self.proposed: dict[int, tuple[int, bytes]] = {}
        self._tick_at = float("inf")

    def clock(self) -> float:
        return self.world.now * self.rate + self.offset

    def start(self) -> None:
        world, life = self.world, self.life
        identity = Identity(tier_id="sim", replica_id=self.id)

        def later(delay: float, work: Callable[[], None]) -> None:
            world.at(world.now + delay, lambda: work() if self.life == life else None)

        executor = SyncExecutor(self.disk, world.chance, later) if world.sync else None
        journal = Journal(self.disk, "j", identity, executor=executor, notify=self.wake, segment_bytes=4_000)
        saver = SaveExecutor(world.chance, later)
        snapshots = SnapshotStore(self.disk, "s", identity, executor=saver, notify=self.wake)
        self.machine = Machine(world, self)
        self.transport = SimTransport(world.links, self.id)
        self.raft = world.raft_class(
            self_id=self.id,
            peer_ids=tuple(other for other in world.ids if other != self.id),
            transport=self.transport,
            journal=journal,
            snapshots=snapshots,
            machine=self.machine,
            clock=self.clock,
            random=world.chance,
            settings=CONFIG,
        )
        self.wake()

    def stop(self) -> None:
        """The process is gone, without a word."""
        self.life += 1
        self.raft = self.machine = self.transport = None
        self.proposed.clear()
        self.paused_until = 0.0
        self._tick_at = float("inf")

    def wake(self) -> None:
        """Tick in this very moment, once."""
        self._tick_by(max(self.world.now, self.paused_until))

    def _tick_by(self, at: float) -> None:
        if at < self._tick_at:
            self._tick_at = at
            life = self.life
            self.world.at(at, lambda: self._tick(at) if self.life == life and self._tick_at == at else None)

    def _tick(self, due: float) -> None:
        if self.paused_until > self.world.now:
            self._tick_at = float("inf")
            self._tick_by(self.paused_until)
            return
        assert self.raft is not None
        self._tick_at = float("inf")
        self.raft.tick()
        next_at = self.raft.next_tick_at
        if next_at != float("inf"):
            self._tick_by(max(self.world.now + 0.00001, (next_at - self.offset) / self.rate + 0.000001))


class World:
    """Three (or five) replicas, a client, and faults. `run` raises Violation, or what the code raised."""

    def __init__(self, seed: int, replicas: int = 3, raft_class: type[Raft] = Raft) -> None:
        self.chance = random.Random(seed)
        self.raft_class = raft_class
        self.now = 0.0
        self.sync = self.chance.random() < 0.75
        self.ids = tuple(f"r{number}" for number in range(replicas))
        self.links = Links(self)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self.replicas = {replica_id: Replica(self, replica_id) for replica_id in self.ids}
        self.committed: dict[int, tuple[int, bytes]] = {}
        self.digests: dict[int, int] = {}
        self.acknowledged_index = 0
        self.acknowledged = 0
        self.lease_reads = 0
        self.events = 0
        self._serial = 0
        self.quiet_until = 0.0
        """No client writes before this time: with equal logs anybody can be elected."""

    def at(self, when: float, work: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (when, self._count, work))

    def run_until(self, end: float) -> None:
        while self._events and self._events[0][0] <= end:
            when, _, work = heapq.heappop(self._events)
            self.now = max(self.now, when)
            self.events += 1
            work()
        self.now = max(self.now, end)

    def alive(self) -> list[Replica]:
        return [replica for replica in self.replicas.values() if replica.raft is not None]

    # -- checkers -----------------------------------------------------------------------------------

    def applied(self, replica: Replica, index: int, term: int, command: bytes, digest: int) -> None:
        if self.committed.setdefault(index, (term, command)) != (term, command):
            raise Violation(f"{replica.id} applied another entry {index} than was committed")
        if self.digests.setdefault(index, digest) != digest:
            raise Violation(f"{replica.id} differs from others after entry {index}")
        if replica.proposed.pop(index, None) == (term, command):
            self.acknowledged_index = max(self.acknowledged_index, index)
            self.acknowledged += 1

    def check_leases(self) -> None:
        holders = [
            replica for replica in self.alive() if replica.raft is not None and replica.raft.has_lease()
        ]
        if len(holders) > 1:
            raise Violation(f"{[replica.id for replica in holders]} hold leases at {self.now}")
        for replica in holders:
            assert replica.raft is not None
            self.lease_reads += 1
            if replica.raft.applied_index < self.acknowledged_index:
                raise Violation(f"{replica.id} would read without entry {self.acknowledged_index}")

    def converged(self) -> bool:
        """All replicas are alive and have applied the same, all that was acknowledged included."""
        rafts = [replica.raft for replica in self.alive()]
        if len(rafts) < len(self.ids):
            return False
        indexes = {raft.applied_index for raft in rafts if raft is not None}
        leads = [raft for raft in rafts if raft is not None and raft.serving and raft.has_lease()]
        return len(indexes) == 1 and len(leads) == 1 and min(indexes) >= self.acknowledged_index

    # -- client -------------------------------------------------------------------------------------

    def propose(self) -> None:
        """Propose a few commands to whoever believes to lead."""
        if self.now < self.quiet_until:
            return
        for replica in self.alive():
            raft, machine = replica.raft, replica.machine
            if raft is None or machine is None or not machine.leading or replica.paused_until > self.now:
                continue
            for _ in range(self.chance.randint(1, 4)):
                self._serial += 1
                size = self.chance.choice((10, 40, 40, 150, 900))
                command = (b"%d " % self._serial).ljust(size, b".")
                try:
                    index = raft.propose(command)
                except Busy:
                    break
                replica.proposed[index] = (raft.term, command)
            replica.wake()
