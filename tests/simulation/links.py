"""Links as TCP has them: FIFO while a connection lasts, lost only with it, cut or closed by a host.

A link is between two processes, and each knows the other by its member id. Whoever has the other in its
membership dials; a listener that turns out to be somebody else (its directory is another) is not linked.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from storage.raft.members import Members, replica_of
from storage.raft.skeleton import Node, RaftTransport
from tests.simulation.parts import Process, World

CLOSED = ("closed by host",)


class SimTransport(RaftTransport):
    """A transport that sends Raft's messages over the links of the world."""

    def __init__(self, links: Links, process: Process) -> None:
        super().__init__(None, None, [])
        self.known: frozenset[str] = frozenset()
        self._links = links
        self._process = process

    def send(self, node: Node, message: Any) -> bool:
        return self._links.send(self._process, node.id, tuple(message))

    def set_members(self, members: Members) -> None:
        self.known = frozenset(member.member_id for member in members)
        self._process.world.rules.set_members(self._process, members)

    def destroy(self) -> None:
        pass


class Way:
    """One direction of one connection."""

    __slots__ = ("_links", "_world", "connection", "queue", "source", "target")

    def __init__(self, links: Links, connection: Connection, source: Process, target: Process) -> None:
        self.connection = connection
        self.source = source
        self.target = target
        self.queue: deque[tuple[float, Any]] = deque()
        """The messages that are under way, each with the time at which it is due."""
        self._links = links
        self._world = links.world

    def carry(self, message: Any) -> None:
        chance = self._world.chance
        delay = chance.uniform(0.0001, 0.002) * self._links.slow
        if chance.random() < 0.01:
            delay += chance.uniform(0, 0.08)
        due = self._world.now + delay
        if self.queue:
            due = max(due, self.queue[-1][0])
        self.queue.append((due, message))
        self._world.at(due, self.pump)

    def pump(self) -> None:
        """Deliver what is due, in order; what a block or a pause holds back comes when it ends."""
        world, queue, target = self._world, self.queue, self.target
        while queue and queue[0][0] <= world.now:
            held_until = max(
                self._links.blocked_until(self.source.number, target.number), target.host.paused_until
            )
            if held_until > world.now:
                world.at(held_until, self.pump)
                return
            _, message = queue.popleft()
            if not self.connection.is_up(target):
                continue
            if message is CLOSED:
                self._links.down(self.connection, target, closed_by_host=True)
            else:
                target.receive(self.source.member_id, message)


class Connection:
    """Between two processes; each has its own view of whether it is up."""

    __slots__ = ("_up", "number", "ways")

    def __init__(self, number: int, links: Links, one: Process, other: Process) -> None:
        self.number = number
        self.ways = {one.number: Way(links, self, one, other), other.number: Way(links, self, other, one)}
        """The two directions of the link, by the number of their source."""
        self._up = {one.number, other.number}

    def is_up(self, process: Process) -> bool:
        return process.number in self._up and self.ways[process.number].source is process and process.is_alive

    def end(self, process: Process) -> bool:
        """End the connection for a process. Returns True if it was up for the process until now."""
        was_up = self.is_up(process)
        if self.ways[process.number].source is process:
            self._up.discard(process.number)
        return was_up

    def peer_of(self, process: Process) -> Process:
        return self.ways[process.number].target


class Links:
    def __init__(self, world: World) -> None:
        self.world = world
        self.slow = 1.0
        self._connections: dict[tuple[int, int], Connection] = {}
        self._count = 0
        self._blocked: dict[tuple[int, int], float] = {}
        """(from, to) -> until when nothing arrives in this direction."""

    def _between(self, one: int, other: int) -> Connection | None:
        return self._connections.get((one, other) if one < other else (other, one))

    def blocked_until(self, source: int, target: int) -> float:
        return self._blocked.get((source, target), 0.0)

    def block(self, source: int, target: int, seconds: float) -> None:
        until = self.world.now + seconds
        self._blocked[source, target] = max(until, self.blocked_until(source, target))

    def send(self, source: Process, target_id: str, message: Any) -> bool:
        connection = self._between(source.number, replica_of(target_id))
        if connection is None or not connection.is_up(source):
            return False
        way = connection.ways[source.number]
        if way.target.member_id != target_id:
            return False
        self.world.votes.sent(source, message, target_id)
        self.world.promises.sent(source, message, target_id)
        self.world.evidence.sent(source, message)
        if self.world.trace is not None:
            self.world.trace(self.world.now, source.name, f"-> {target_id} {message!r:.160}")
        way.carry(message)
        self.world.bounds.window(way)
        return True

    # -- connections --------------------------------------------------------------------------------

    def connect_all(self) -> None:
        """Dial whoever is not connected; what a transport does within 100 ms."""
        processes = self.world.processes()
        for place, one in enumerate(processes):
            for other in processes[place + 1 :]:
                self._connect(one, other)

    def _connect(self, one: Process, other: Process) -> None:
        now = self.world.now
        old = self._between(one.number, other.number)
        is_wanted = other.member_id in one.transport.known or one.member_id in other.transport.known
        if old is not None and old.is_up(one) and old.is_up(other):
            if not is_wanted:
                self.hang_up(one, other)
            return
        blocked_until = max(
            self.blocked_until(one.number, other.number), self.blocked_until(other.number, one.number)
        )
        if not is_wanted or max(blocked_until, one.host.paused_until, other.host.paused_until) > now:
            return
        if old is not None:
            # A new connection takes the place of one that the other side has not yet seen end.
            self.down(old, one, closed_by_host=False)
            self.down(old, other, closed_by_host=False)
        self._count += 1
        connection = Connection(self._count, self, one, other)
        self._connections[min(one.number, other.number), max(one.number, other.number)] = connection
        one.connected(other.member_id)
        other.connected(one.member_id)

    def down(self, connection: Connection, process: Process, *, closed_by_host: bool) -> None:
        """Tell a process that the connection has ended."""
        if process.number in connection.ways and connection.end(process):
            process.disconnected(connection.peer_of(process).member_id, closed_by_host=closed_by_host)

    def cut(self, one: int, other: int) -> None:
        """The network ends the connection; each side learns it in its own time, nobody's host closed it."""
        connection = self._between(one, other)
        if connection is not None:
            for way in connection.ways.values():
                self._later_down(connection, way.source, self.world.now + self.world.chance.uniform(0, 0.2))

    def _later_down(self, connection: Connection, process: Process, when: float) -> None:
        def down() -> None:
            if process.host.paused_until > self.world.now:
                self._later_down(connection, process, process.host.paused_until + 1e-6)
            else:
                self.down(connection, process, closed_by_host=False)

        self.world.at(when, down)

    def hang_up(self, process: Process, peer: Process) -> None:
        """`process`, alive, closes its connection to `peer`, which sees that its host did so."""
        connection = self._between(process.number, peer.number)
        if connection is not None and connection.is_up(process):
            self.down(connection, process, closed_by_host=False)
            connection.ways[process.number].carry(CLOSED)

    def stopped(self, process: Process, *, power_lost: bool) -> None:
        """A process is gone: its host closes its connections, unless the host is gone too."""
        for connection in [self._connections[pair] for pair in sorted(self._connections)]:
            way = connection.ways.get(process.number)
            if way is None or way.source is not process:
                continue
            if power_lost:
                self._later_down(connection, way.target, self.world.now + 0.5)
            else:
                way.carry(CLOSED)

    def unblock(self) -> None:
        """Heal: what was held arrives now, in order, unless its connection is cut meanwhile."""
        self.slow = 1.0
        self._blocked.clear()
        for pair in sorted(self._connections):
            for way in self._connections[pair].ways.values():
                way.pump()
