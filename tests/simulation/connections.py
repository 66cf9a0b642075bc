"""The clients' connections to one process, with held heartbeats, the lane and known commits as
actors/leader/client_service.py has them.

Half of the members are of software whose heartbeats may be held, and those of the others are repeated by the
lane. A client has one connection to a process until it waits no longer for an answer.
"""

from __future__ import annotations

from typing import Any

from actors.leader.held_heartbeats import HeldHeartbeats, HoldEnd, Holding
from actors.protocol.api_keys import CONSUMER_GROUP_HEARTBEAT, HEARTBEAT
from tests.simulation.asked import Asked
from tests.simulation.known_commits import KnownCommits
from tests.simulation.lane import Lane
from tests.simulation.parts import Process

HELD_CLIENTS = ("classic-*", "consumer-*")
SPACING_MS_MIN = 50
HEARTBEATS = (HEARTBEAT, CONSUMER_GROUP_HEARTBEAT)


class Connections:
    def __init__(self, process: Process) -> None:
        self._process = process
        self._held: HeldHeartbeats | None = None
        self._holdings: dict[str, Holding | None] = {}
        """What holds the heartbeats of each client; it is None for a client whose heartbeats are not held."""
        self.lane: Lane | None = None
        self._known: KnownCommits | None = None
        self._owed: dict[int, Holding] = {}
        """The holding of each heartbeat whose answer comes later, by its token."""

    def watch(self, replica: Any) -> None:
        """Begin to hold and to repeat heartbeats of this replica's clients."""
        process = self._process
        self.lane = Lane(process, replica)
        self._known = KnownCommits(process, replica)
        self._held = HeldHeartbeats(
            replica, self._give, process.now_ms, HELD_CLIENTS, spacing_ms_min=SPACING_MS_MIN
        )
        self._held.counts = process.world.holds
        replica.watcher = self._held

    def submit(self, asked: Asked) -> Any:
        """Submit a request. Returns the answer, or None if it comes later."""
        process, request = self._process, asked.request
        if self._known is not None:
            request = self._known.recognised(request)
        holding = self._holding(asked.client.name)
        if holding is None and self.lane is not None:
            return self.lane.submit(asked.client.name, request)
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

    def closed(self, asked: Asked) -> None:
        """Forget the closed connection of this request. One that the client has opened since stays: a process
        that was paused may hear of both in any order."""
        if self.lane is not None:
            self.lane.closed(asked.client.name)
        now = self._holdings.get(asked.client.name)
        if any(token > asked.request.token for token, holding in self._owed.items() if holding is now):
            return
        holding = self._holdings.pop(asked.client.name, None)
        token = None if holding is None or self._held is None else self._held.forget(holding)
        if token is not None:
            self._owed.pop(token)
            self._process.world.answers.forgotten(self._process, token)

    def turned(self) -> None:
        if self.lane is not None:
            self.lane.turned()

    def release(self, token: int, body: Any) -> None:
        """Pass the replica's answer on, unless it is held."""
        if self._held is None or not self._held.keeps(token, body):
            self._give(token, body)

    def _give(self, token: int, body: Any) -> None:
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
