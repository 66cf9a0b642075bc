"""Links as TCP has them: FIFO while a connection lasts, lost only with it, cut or closed by a host."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from storage.skeleton import Node

if TYPE_CHECKING:
    from tests.simulation.world import World


class Connection:
    """One connection of a pair, with the time from which each side knows of it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.up: dict[str, bool] = {}
        self.queues: dict[str, deque[tuple[float, Any]]] = {}
        """By target: what is on its way, and when it is due."""


class Links:
    def __init__(self, world: World) -> None:
        self._world = world
        self._connections: dict[tuple[str, str], Connection] = {}
        self._number = 0
        self.blocked: set[tuple[str, str]] = set()
        """(from, to) directions in which nothing arrives at the moment."""
        self.slow = 1.0

    @staticmethod
    def _pair(one: str, other: str) -> tuple[str, str]:
        return (one, other) if one < other else (other, one)

    def send(self, source: str, target: str, message: Any) -> bool:
        connection = self._connections.get(self._pair(source, target))
        if connection is None or not connection.up.get(source):
            return False
        self._carry(connection, source, target, message)
        return True

    def _carry(self, connection: Connection, source: str, target: str, message: Any) -> None:
        chance = self._world.chance
        delay = chance.uniform(0.0001, 0.002) * self.slow
        if chance.random() < 0.01:
            delay += chance.uniform(0, 0.08)
        queue = connection.queues.setdefault(target, deque())
        due = self._world.now + delay
        if queue:
            due = max(due, queue[-1][0])
        queue.append((due, message))
        self._world.at(due, lambda: self._pump(connection, source, target))

    def _pump(self, connection: Connection, source: str, target: str) -> None:
        """Deliver what is due, in order; what a block or a pause holds back comes when it ends."""
        queue = connection.queues.get(target)
        while queue and queue[0][0] <= self._world.now and (source, target) not in self.blocked:
            replica = self._world.replicas[target]
            if replica.paused_until > self._world.now:
                self._world.at(replica.paused_until, lambda: self._pump(connection, source, target))
                return
            _, message = queue.popleft()
            if replica.transport is None or not connection.up.get(target):
                continue
            if message is CLOSED:
                self._down(connection, target, source, closed_by_host=True)
                continue
            replica.transport._arrived(Node(source), message)
            replica.wake()

    # -- connections --------------------------------------------------------------------------------

    def connect_all(self) -> None:
        """Dial whatever is not connected; what a transport does within 100 ms."""
        for one in self._world.ids:
            for other in self._world.ids:
                if one < other:
                    self._connect(one, other)

    def _connect(self, one: str, other: str) -> None:
        world = self._world
        if world.replicas[one].transport is None or world.replicas[other].transport is None:
            return
        if self.blocked & {(one, other), (other, one)}:
            return
        if max(world.replicas[one].paused_until, world.replicas[other].paused_until) > world.now:
            return
        old = self._connections.get((one, other))
        if old is not None and old.up.get(one) and old.up.get(other):
            return
        if old is not None:
            # A new connection takes the place of one that the other side has not yet seen end.
            self._down(old, one, other, closed_by_host=False)
            self._down(old, other, one, closed_by_host=False)
        self._number += 1
        connection = Connection(self._number)
        self._connections[(one, other)] = connection
        for source, target in ((one, other), (other, one)):
            connection.up[source] = True
            transport = world.replicas[source].transport
            assert transport is not None
            transport._connected(Node(target))
            world.replicas[source].wake()

    def _down(self, connection: Connection, side: str, other: str, *, closed_by_host: bool) -> None:
        if not connection.up.get(side):
            return
        connection.up[side] = False
        transport = self._world.replicas[side].transport
        if transport is None:
            return
        transport._disconnected(Node(other))
        if closed_by_host and transport.on_peer_lost is not None:
            transport.on_peer_lost(other)
        self._world.replicas[side].wake()

    def cut(self, one: str, other: str) -> None:
        """The network ends the connection; each side learns it in its own time, nobody's host closed it."""
        connection = self._connections.get(self._pair(one, other))
        if connection is None:
            return
        for side, peer in ((one, other), (other, one)):
            when = self._world.now + self._world.chance.uniform(0, 0.2)
            self._later_down(connection, side, peer, when)

    def _later_down(self, connection: Connection, side: str, peer: str, when: float) -> None:
        def down() -> None:
            paused_until = self._world.replicas[side].paused_until
            if paused_until > self._world.now:
                self._later_down(connection, side, peer, paused_until + 1e-6)
            else:
                self._down(connection, side, peer, closed_by_host=False)

        self._world.at(when, down)

    def hang_up(self, source: str, target: str) -> None:
        """`source`, alive, closes its connection to `target`, which sees that its host did so."""
        connection = self._connections.get(self._pair(source, target))
        if connection is None or not connection.up.get(source):
            return
        self._down(connection, source, target, closed_by_host=False)
        self._carry(connection, source, target, CLOSED)

    def stopped(self, replica_id: str, *, power_lost: bool) -> None:
        """A process is gone: its host closes its connections, unless the host is gone too."""
        for other in self._world.ids:
            connection = self._connections.get(self._pair(replica_id, other))
            if other == replica_id or connection is None:
                continue
            connection.up[replica_id] = False
            if power_lost:
                self._later_down(connection, other, replica_id, self._world.now + 0.5)
            else:
                self._carry(connection, replica_id, other, CLOSED)

    def unblock(self) -> None:
        """Heal: what was held arrives now, in order, unless its connection is cut meanwhile."""
        self.blocked.clear()
        for one, other in sorted(self._connections):
            connection = self._connections[(one, other)]
            self._pump(connection, one, other)
            self._pump(connection, other, one)


CLOSED = ("closed by host",)
