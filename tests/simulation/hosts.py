"""Hosts and the processes that come and go on them: what actors/replica/host.py is in a tier.

A host has one replica number, a disk and clocks that stay. A process is one life of the replica, which turns
as in a tier (actors/replica/turn.py) on a simulated loop; while it is paused nothing of it moves, and what
came meanwhile (messages, timers) is there all at once when it goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.ground.image import MetadataImage
from actors.replica.log_level import REST_LEVEL
from actors.replica.turn import Turns
from storage.raft.errors import RaftFatal, StorageError
from storage.raft.journal import Genesis, Identity
from storage.raft.members import FOUNDING_INCARNATION, Members, founders, member_id
from storage.raft.skeleton import Node
from tests.simulation.asked import Asked
from tests.simulation.checkers import Violation
from tests.simulation.connections import Connections
from tests.simulation.disk import PowerLost, SaveExecutor, SimDisk, SyncExecutor
from tests.simulation.links import SimTransport
from tests.simulation.loop import SimLoop
from tests.simulation.machines import Watch
from tests.simulation.parts import World
from tests.simulation.plug_ins import PlugIns

START_MS = 1_700_000_000_000
RATES = (0.95, 1.05)
"""Clocks run at rates within 10 % of each other: the extremes are drawn often."""


class Host:
    def __init__(self, world: World, number: int, *, is_founder: bool) -> None:
        chance = world.chance
        self.world = world
        self.number = number
        self.name = f"r{number}"
        self.disk = SimDisk(chance)
        if world.one_machine:
            self.rate, self.offset = 1.0, 500.0
        else:
            self.rate = chance.choice((*RATES, chance.uniform(*RATES)))
            self.offset = chance.uniform(0, 1_000)
        self.wall_ms = START_MS + chance.randint(-500, 500)
        """What the host's wall clock shows at time 0; a fault may set it."""
        self.paused_until = 0.0
        self.process: Process | None = None
        self.member_id: str | None = None
        """The member id of the directory, as far as a process has told."""
        self.refused: str | None = None
        """Why the replica does not start any more; None while it does."""
        self.retired = False
        self.is_damaged = False
        """Whether its disk was damaged on purpose: only then may it refuse to start."""
        self.directory = 0
        """The number of the directory in use: it rises with each one that replaces another."""
        self._began = not is_founder

    def clock(self) -> float:
        return self.world.now * self.rate + self.offset

    def genesis(self) -> Genesis:
        """Return how an empty directory begins: only the first one of a founder makes a founder."""
        if not self._began:
            return Genesis(FOUNDING_INCARNATION, founders({n: n for n in self.world.founders}))
        return Genesis(self.world.chance.randrange(2**32, 2**62), ())

    def start(self) -> None:
        if self.process is not None or self.refused is not None or self.retired:
            return
        self.disk.full = self.disk.failing = False
        self.disk.calm()
        self.world.releases.started(self.number)
        try:
            self.process = Process(self)
        except PowerLost:
            self._end_power()
        except OSError as error:
            self.world.note(self.name, f"does not start: {error}")
            self.world.after(0.2, self.start)
        except StorageError as error:
            # The damage cannot be told from what was acknowledged: somebody else has to take its place.
            if isinstance(error.__cause__, Violation):
                raise error.__cause__ from error
            self.refused = str(error)
            self.world.note(self.name, f"refuses to start: {error}")
            if not self.is_damaged:
                raise Violation(
                    f"disk: {self.name} refuses to start, nothing was damaged: {error}"
                ) from error
        else:
            self._began = True
            self.world.checks.started(self.process, self.directory)
            self.world.promises.started(self.process)
            self.member_id = self.process.member_id
            self.world.note(self.name, f"starts as {self.member_id}")
            self.process.wake()

    def stop(self, *, power_lost: bool = False, for_s: float | None = None) -> None:
        """The process is gone, without a word; another one comes in a while (`for_s` None: not by itself)."""
        process, self.process = self.process, None
        if process is None:
            return
        self.paused_until = 0.0
        self.disk.operations_left = None
        self.world.promises.ended(process)
        self.world.rules.ended(process)
        self.world.evidence.ended(process)
        if power_lost:
            self.disk.lose_power()
        else:
            self.disk.process_ended()
        self.world.note(self.name, "loses power" if power_lost else "is killed")
        self.world.links.stopped(process, power_lost=power_lost)
        self.world.answers.closed(process, power_lost=power_lost)
        if for_s is not None:
            self.world.after(for_s, self.start)

    def pause(self, seconds: float) -> None:
        self.paused_until = max(self.paused_until, self.world.now + seconds)
        self.world.note(self.name, f"is paused for {seconds} s")

    def vanish(self) -> None:
        """The directory goes, under the process or without one; the next start makes another."""
        self.directory += 1
        self.disk.vanish()
        self.world.note(self.name, "loses its directory")

    def guard(self, work: Callable[[], None]) -> None:
        """Run something of the process. The machine may end in the middle of it. What a checker raised inside
        of Raft is the checker's."""
        try:
            work()
        except PowerLost:
            self._end_power()
        except RaftFatal as fatal:
            cause: BaseException | None = fatal
            while cause is not None and not isinstance(cause, Violation):
                cause = cause.__cause__
            if cause is None:
                raise
            raise cause from None

    def _end_power(self) -> None:
        """End the power. Without syncs only the process ends: what it promised is no promise against a power
        loss."""
        self.disk.operations_left = None
        if self.process is None:
            if self.world.sync:
                self.disk.lose_power()
            self.world.after(0.1, self.start)
        else:
            self.stop(power_lost=self.world.sync, for_s=0.1)


class Process:
    """One life of a replica; what it holds is gone when it ends. Raises what the journal or Raft raise."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.world = world = host.world
        self.number = host.number
        self.name = host.name
        self.directory = host.directory
        self._wall_offset_ms = host.wall_ms + int(world.now * 1_000) - int(host.clock() * 1_000)
        self.turns: Turns | None = None
        """It is None until the process is made: its first turn finds what was to wake it before."""
        code, chance = world.code, world.chance
        identity = Identity(tier_id="sim", replica_id=host.name)
        self.journal = code.journal(
            host.disk,
            "journal",
            identity,
            executor=SyncExecutor(host.disk, chance, self._later) if world.sync else None,
            notify=self.wake,
            segment_bytes=4_000,
            genesis=host.genesis(),
            clock=host.clock,
        )
        self.snapshots = code.snapshots(
            host.disk, "snapshot", identity, executor=SaveExecutor(chance, self._later), notify=self.wake
        )
        self.member_id = member_id(self.number, self.journal.incarnation)
        self.connections = Connections(self)
        self.plug_ins = PlugIns(self)
        self.machine = world.kind.machine(self)
        self.watch = Watch(self)
        self.transport = SimTransport(world.links, self)
        self.raft = code.raft(
            self_id=self.member_id,
            transport=self.transport,
            journal=self.journal,
            snapshots=self.snapshots,
            machine=self.watch,
            clock=host.clock,
            random=chance,
            settings=world.config,
        )
        self.machine.log = self.raft
        self.looked_index = self.raft.commit_index
        """Up to here its log has been compared with what others committed."""
        self.applied_index = self.raft.applied_index
        self.looked_last = (0, 0)
        self.turns = code.turns(SimLoop(self), self.raft, self.machine, self.now_ms, self._run)

    @property
    def is_alive(self) -> bool:
        return self.host.process is self

    @property
    def members(self) -> Members:
        members: Members = self.raft.members
        return members

    def now_ms(self) -> int:
        """The time as actors/ground/clock.py tells it: the wall clock at the start, and the monotonic clock
        from there on."""
        return int(self.host.clock() * 1_000) + self._wall_offset_ms

    def _later(self, delay: float, work: Callable[[], None]) -> None:
        self.world.after(delay, lambda: self.host.guard(work) if self.is_alive else None)

    def later(self, delay: float, work: Callable[[], None]) -> None:
        """Run a thread's result in the loop; a process that is paused runs it when it goes on."""
        if self.is_alive and self.host.paused_until > self.world.now + delay:
            delay = self.host.paused_until - self.world.now

        def arrive() -> None:
            if self.is_alive and self.host.paused_until > self.world.now:
                self.later(0.0, work)
            elif self.is_alive:
                self.host.guard(work)

        self.world.after(delay, arrive)

    # -- what arrives -------------------------------------------------------------------------------

    def receive(self, sender_id: str, message: Any) -> None:
        self.world.promises.received(self, sender_id, message)
        self.world.releases.received(self, message)
        self.world.evidence.received(self, sender_id, message)
        is_done: list[Any] = []
        self.host.guard(lambda: is_done.append(self.transport._arrived(Node(sender_id), message)))
        if self.is_alive and self.turns is not None and is_done != [True]:
            self.turns.heard()

    def connected(self, peer_id: str) -> None:
        self.host.guard(lambda: self.transport._connected(Node(peer_id)))
        self.wake()

    def disconnected(self, peer_id: str, *, closed_by_host: bool) -> None:
        self.world.promises.disconnected(self, peer_id, closed_by_host=closed_by_host)
        self.world.evidence.disconnected(self, peer_id)

        def tell() -> None:
            self.transport._disconnected(Node(peer_id))
            if closed_by_host and self.transport.on_peer_lost is not None:
                self.transport.on_peer_lost(peer_id)

        self.host.guard(tell)
        self.wake()

    def on_metadata(self, image: MetadataImage) -> None:
        if self.is_alive and self.host.paused_until > self.world.now:
            self.world.at(self.host.paused_until, lambda: self.on_metadata(image))
        elif self.is_alive:
            self.host.guard(lambda: self.machine.on_metadata(image, self.now_ms()))
            self.wake()

    def submit(self, asked: Asked) -> None:
        """Take a request of a client."""
        host = self.host
        if self.is_alive and host.paused_until > self.world.now:
            self.world.at(host.paused_until, lambda: self.submit(asked))
            return
        if not self.is_alive:
            self.world.answers.lost(asked)
            return

        def decide() -> None:
            self.world.answers.arrived(asked)
            body = self.connections.submit(asked)
            if body is not None:
                self.world.answers.given(self, asked.request.token, body)

        host.guard(decide)
        self.wake()

    def closed(self, asked: Asked) -> None:
        """The client waits no longer for this answer, and has closed its connection."""
        if self.is_alive and self.host.paused_until > self.world.now:
            self.world.at(self.host.paused_until, lambda: self.closed(asked))
        elif self.is_alive:
            self.connections.closed(asked)

    def release(self, token: int, body: Any) -> None:
        if token < 0:
            self.plug_ins.answered(token, body)
        else:
            self.world.answers.given(self, token, body)

    # -- turns --------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Ask for a turn in this very moment, once."""
        if self.turns is not None:
            self.turns.wake()

    def _run(self, turn: Callable[[], None]) -> bool:
        self.host.guard(turn)
        if self.is_alive:
            if not self.world.releases.are_mixed or self.machine.level.known >= REST_LEVEL:
                self.raft.learn_to_rest()
            self.world.checks.turned(self)
            self.world.rules.turned(self)
            self.world.evidence.turned(self)
            self.connections.turned()
        return self.is_alive
