"""The clients' connections to one process, with held heartbeats, the lane and known commits as
actors/leader/client_service.py has them.

Half of the members are of software whose heartbeats may be held, and the lane repeats both sorts. A client
whose heartbeats are held has one connection to a process until it waits no longer for an answer; those of a
kind whose heartbeats are not share one. In every second seed the lane holds nothing, and nobody shares.
"""

from __future__ import annotations

from typing import Any

from actors.ground.contract import Request
from actors.leader.held_heartbeats import HeldHeartbeats, HoldEnd, Holding
from actors.protocol.api_keys import CONSUMER_GROUP_HEARTBEAT, HEARTBEAT
from tests.simulation.asked import Asked
from tests.simulation.known_commits import KnownCommits
from tests.simulation.lane import Lane
from tests.simulation.parts import Process
from tests.simulation.taken_commits import TakenCommits

HELD_CLIENTS = ("classic-*", "consumer-*")
SPACING_MS_MIN = 50
HEARTBEATS = (HEARTBEAT, CONSUMER_GROUP_HEARTBEAT)


class Connections:
    def __init__(self, process: Process) -> None:
        self._process = process
        self._is_whole = process.world.seed % 2 == 0
        self._held: HeldHeartbeats | None = None
        self._holdings: dict[str, Holding | None] = {}
        """What holds the heartbeats of each client; it is None for a client whose heartbeats are not held."""
        self.lane: Lane | None = None
        self._known: KnownCommits | None = None
        self._taken: TakenCommits | None = None
        self._owed: dict[int, Holding] = {}
        """The holding of each heartbeat whose answer comes later, by its token."""
        self._waiting: dict[int, tuple[str, str]] = {}
        """The connection and the client of each request that Python owes an answer, by its token."""

    def watch(self, replica: Any) -> None:
        """Begin to hold and to repeat heartbeats of this replica's clients."""
        process = self._process
        self._known = known = KnownCommits(process, replica)
        self._taken = TakenCommits(process, replica, known.decided, self._leave, self._give)
        self._held = HeldHeartbeats(
            replica, self._give, process.now_ms, HELD_CLIENTS, spacing_ms_min=SPACING_MS_MIN
        )
        self._held.counts = process.world.holds
        replica.watcher = self._held
        self.lane = Lane(process, replica, self._held, self._give, self._waiting)
        self._held.lane = self.lane if self._is_whole else None

    def submit(self, asked: Asked) -> Any:
        """Submit a request. Returns the answer, or None if it comes later."""
        request, client = asked.request, asked.client.name
        if self._known is not None:
            request = self._known.recognised(request)
        holding = self._holding(client)
        connection = self._connection(client, holding)
        is_free = all(owed != connection for owed, _ in self._waiting.values())
        if is_free and self._taken is not None and self._taken.takes(request):
            if holding is not None and self._held is not None:
                self._held.end(holding, HoldEnd.REQUEST)
            self._waiting[request.token] = connection, client
            return None
        if self.lane is not None and is_free:
            is_taken, body = self.lane.submit(client, connection, request)
            if is_taken:
                if body is None and holding is not None:
                    self._owed[request.token] = holding
                return body
            self.lane.tell(connection)
        if self.lane is not None:
            self.lane.passed_over(client)
        body = self._decided(holding, request)
        if body is None:
            self._waiting[request.token] = connection, client
            if holding is not None and holding.request is request:
                holding.kept = connection, request
        elif self.lane is not None and holding is None:
            self.lane.decided(connection, request, body)
        return body

    def _decided(self, holding: Holding | None, request: Request) -> Any:
        """Have the replica decide the request, and hold its answer if it may be held."""
        process = self._process
        if holding is None or self._held is None:
            return process.machine.submit(request, process.now_ms())
        self._held.end(holding, HoldEnd.REQUEST)
        if request.api_key not in HEARTBEATS:
            return process.machine.submit(request, process.now_ms())
        self._owed[request.token] = holding
        body = holding.submit(request, process.now_ms())
        if body is not None:
            del self._owed[request.token]
        return body

    def _leave(self, request: Request) -> None:
        """Have the replica decide a commit that the lane has left."""
        body = self._process.machine.submit(request, self._process.now_ms())
        if body is not None:
            self._give(request.token, body)

    def closed(self, asked: Asked) -> None:
        """Forget the closed connection of this request. One that the client has opened since stays: a process
        that was paused may hear of both in any order."""
        client = asked.client.name
        for token in [token for token, owed in self._waiting.items() if owed[1] == client]:
            del self._waiting[token]
        now = self._holdings.get(asked.client.name)
        if any(token > asked.request.token for token, holding in self._owed.items() if holding is now):
            return
        if self.lane is not None:
            self.lane.closed(self._connection(client, now))
        holding = self._holdings.pop(asked.client.name, None)
        token = None if holding is None or self._held is None else self._held.forget(holding)
        if token is not None:
            self._owed.pop(token, None)
            self._process.world.answers.forgotten(self._process, token)

    def turned(self) -> None:
        if self.lane is not None:
            self.lane.turned()

    def fallen(self) -> None:
        if self._taken is not None:
            self._taken.fallen()

    def release(self, token: int, body: Any) -> None:
        """Pass the replica's answer on, unless it is held."""
        if self._held is None or not self._held.keeps(token, body):
            self._give(token, body)

    def _give(self, token: int, body: Any) -> None:
        self._waiting.pop(token, None)
        holding = self._owed.pop(token, None)
        if holding is not None:
            holding.note(body)
        self._process.release(token, body)

    def _holding(self, client: str) -> Holding | None:
        """Every second client of a kind is never held."""
        if self._held is not None and client not in self._holdings:
            is_held = client[-1:] in "02468"
            self._holdings[client] = self._held.of_client(client, "") if is_held else None
        return self._holdings.get(client)

    def _connection(self, client: str, holding: Holding | None) -> str:
        return client.rpartition("-")[0] if holding is None and self._is_whole else client
