"""The way to the leaders of partitions, for one consumer or producer: a connection to each, kept open."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

import gevent

from bench.member.requests import Request
from bench.swarm.planning.clients import Client
from bench.swarm.records.requests import Partition
from bench.swarm.rows.shared import Shared
from bench.swarm.wire.connection import Address, Closed, Connection, TimedOut
from bench.swarm.wire.exchange import Question, Read, exchange
from cluster.tier_file import TierError
from storage.history.calls import Call

T = TypeVar("T")
BACKOFF_S: Final = (0.1, 1.0)
"""The first and the longest pause between two tries."""
LOST: Final = (Closed, TimedOut, TierError)


class Leaders:
    """Asks the leaders of partitions. Each request is written down as one of `who`, without a group: a leader
    is no coordinator."""

    def __init__(self, shared: Shared, who: str, client: Client) -> None:
        self._shared = shared
        self._call = Call(who, "", "", 0)
        self._client = client
        self._lines: dict[Address, Connection] = {}
        self._backoff_s = BACKOFF_S[0]

    def by_leader(self, partitions: Iterable[Partition]) -> dict[Address, list[Partition]]:
        """The partitions by the address of their leader; those that have no leader are left out."""
        found: dict[Address, list[Partition]] = {}
        for partition in partitions:
            leader = self._shared.catalogue.leaders.get(partition)
            if leader is not None:
                found.setdefault(leader, []).append(partition)
        return found

    def ask(self, leader: Address, request: Request, call: Call, read: Read[T]) -> T:
        """Send a request to a leader. Raises Closed, TimedOut, TierError."""
        line = self._lines.get(leader)
        if line is None or not line.is_open:
            line = self._lines[leader] = self._shared.coordinators.lend(leader, self._call, self._client)
        value = exchange(self._shared.recorder, line, Question(request, read), call)
        self._backoff_s = BACKOFF_S[0]
        return value

    def call(self) -> Call:
        """The row of a request for the run's record."""
        return self._call

    def look_again(self, topics: Iterable[str]) -> None:
        """Pause, then look up the leaders anew: another broker leads, or none does yet."""
        gevent.sleep(self._backoff_s)
        self._backoff_s = min(2 * self._backoff_s, BACKOFF_S[1])
        try:
            self._shared.catalogue.look(set(topics))
        except LOST:
            return

    def close(self) -> None:
        for line in self._lines.values():
            line.close()
