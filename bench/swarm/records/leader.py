"""The way to the leaders of partitions, for one consumer or producer: a connection to each, kept open."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

import gevent

from bench.member.requests import Request
from bench.swarm.planning.clients import Client
from bench.swarm.records.requests import Partition
from bench.swarm.rows.shared import Shared
from bench.swarm.wire.connection import REQUEST_TIMEOUT_S, Address, Closed, Connection, TimedOut
from bench.swarm.wire.exchange import Read, exchange
from cluster.tier_file import TierError
from storage.history.calls import Call

T = TypeVar("T")
BACKOFF_S: Final = (0.1, 1.0)
"""Between tries: the first and the longest."""
LOST: Final = (Closed, TimedOut, TierError)


class Leaders:
    """Ask them; whoever does is written down as `who`, of no group: they are no coordinators."""

    def __init__(self, shared: Shared, who: str, client: Client) -> None:
        self._shared = shared
        self._call = Call(who, "", "", 0)
        self._client = client
        self._lines: dict[Address, Connection] = {}
        self._backoff_s = BACKOFF_S[0]

    def by_leader(self, partitions: Iterable[Partition]) -> dict[Address, list[Partition]]:
        """Without those that have no leader."""
        found: dict[Address, list[Partition]] = {}
        for partition in partitions:
            leader = self._shared.catalogue.leaders.get(partition)
            if leader is not None:
                found.setdefault(leader, []).append(partition)
        return found

    def ask(self, leader: Address, request: Request, call: Call, read: Read[T]) -> T:
        """Raises Closed, TimedOut, TierError."""
        line = self._lines.get(leader)
        if line is None or not line.is_open:
            line = self._lines[leader] = self._shared.coordinators.lend(leader, self._call, self._client)
        value = exchange(self._shared.recorder, line, request, call, read, REQUEST_TIMEOUT_S)
        self._backoff_s = BACKOFF_S[0]
        return value

    def call(self) -> Call:
        """Who asks."""
        return self._call

    def look_again(self, topics: Iterable[str]) -> None:
        """After a pause: somebody else leads, or nobody yet."""
        gevent.sleep(self._backoff_s)
        self._backoff_s = min(2 * self._backoff_s, BACKOFF_S[1])
        try:
            self._shared.catalogue.look(set(topics))
        except LOST:
            return

    def close(self) -> None:
        for line in self._lines.values():
            line.close()
