"""The sockets of the lane: which connections are lent to it, and what becomes of what it does not answer.

The law is in `memory.py`. The sockets stand in an epoll of their own, whose descriptor the loop watches: it
wakes once for all of them, and one call of the compiled function serves them.
"""

from __future__ import annotations

import asyncio
import logging
import select
from typing import Any, Final, Protocol

import numpy as np

from actors.ground.contract import Request
from actors.ground.limits import LANE_CONNECTIONS_MAX, REMEMBERED_HEARTBEAT_BYTES_MAX
from actors.ground.tasks import Tasks
from actors.leader.lane import compiled
from actors.leader.lane.memory import (
    ANSWER_BYTES,
    API_KEY,
    ARMED,
    FACTS,
    HEARD_MS,
    REQUEST_BYTES,
    SPOKE,
    Memory,
    Repetition,
)
from actors.metrics.counts import RequestCounts
from actors.network.connection import Connection
from actors.network.frames import with_length
from actors.protocol.api_keys import CONSUMER_GROUP_HEARTBEAT, HEARTBEAT
from actors.replica.host import ReplicaHost

log = logging.getLogger("groupd.lane")

PLACES: Final = 256
"""How many places there are at first; they double when they are all taken."""
LEASE_NS_MAX: Final = 2**62
"""A lease that does not end, in ns."""


class Heartbeat(Protocol):
    """What the server keeps of the last heartbeat of a connection: `group_server.LastHeartbeat`."""

    request: Request
    response: Any
    """The answer that was given at once; None if it was not, or was large."""
    before: bytes
    behind: bytes
    """The request's bytes before and behind the correlation id, without its length."""
    answer_before: bytes
    answer_behind: bytes
    """The same of the answer, with its length."""


class _Lent(Repetition):
    """A connection that is lent to the lane, or is about to be: `actors.network.lending.Reader`."""

    __slots__ = ("_lane", "answer", "connection", "descriptor", "last")

    def __init__(self, lane: Lane, connection: Connection) -> None:
        super().__init__()
        self._lane = lane
        self.connection = connection
        self.descriptor = -1
        self.last: Heartbeat | None = None
        """The heartbeat that is remembered, and in `answer` its answer."""
        self.answer = b""

    def has_spoken(self) -> bool:
        return self._lane.has_spoken(self)

    def taken_back(self) -> None:
        self._lane.leave(self)


class Lane:
    """The lane of one leader. `counts` counts its answers with all others."""

    def __init__(self, host: ReplicaHost, counts: RequestCounts) -> None:
        self._host = host
        self._counts = counts
        self._loop = asyncio.get_running_loop()
        self._repeat: compiled.Repeat | None = None
        """The compiled function; None as long as it is not loaded."""
        self._tasks = Tasks("the loading of the lane's compiled function")
        self._epoll: select.epoll | None = None
        self._lent: dict[Connection, _Lent] = {}
        """The connections that are lent, or that are about to be."""
        self._arming: list[_Lent] = []
        self._at: list[_Lent | None] = [None] * PLACES
        """Who has each place."""
        self._free = list(range(PLACES))
        self._facts = np.zeros((PLACES, FACTS), np.int64)
        self._frames = np.zeros((PLACES, 2, REMEMBERED_HEARTBEAT_BYTES_MAX + 4), np.uint8)
        self._places = np.full(PLACES, -1, np.int32)
        self._events = np.zeros(compiled.EVENTS_MAX * compiled.EVENT_INTS, np.int32)
        self._room = np.zeros(compiled.READ_BYTES, np.uint8)
        self._others = np.zeros((compiled.EVENTS_MAX + 1, 4), np.int64)
        self.answered = 0
        """How many heartbeats it has answered, for metrics."""
        self.memory = Memory(host.replica, self._facts)
        host.replica.repeats = self.memory
        self._tasks.spawn(self._load())

    async def _load(self) -> None:
        """Load the compiled function in a thread; until it is there, all goes the ordinary way."""
        self._repeat = await asyncio.to_thread(compiled.compile_repeat)
        log.info("heartbeats that repeat are answered by compiled code")

    @property
    def is_loaded(self) -> bool:
        return self._repeat is not None

    def __len__(self) -> int:
        """Return how many connections are lent."""
        return len(self._at) - len(self._free)

    def close(self) -> None:
        """Read no more. The connections must be closed already."""
        if self._epoll is not None:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None
        self._repeat = None
        self._tasks.close()

    # What the service tells.

    def repeated(self, connection: Connection, last: Heartbeat, answer: bytes) -> None:
        """Take over the heartbeat that has just been answered by `answer`, as the one before it was, if that
        may be repeated. The connection is armed when its answer is sent."""
        if self._repeat is None or last.response is None or last.response[0]:
            return
        if answer[8:] != last.answer_behind or answer[:4] != last.answer_before:
            return
        lent = self._lent.get(connection) or _Lent(self, connection)
        if lent.place is None and len(self._lent) >= LANE_CONNECTIONS_MAX:
            return
        if self.memory.remember(lent, last.request, self._host.now_ms()):
            lent.last, lent.answer = last, answer
            self._lent[connection] = lent
            if not self._arming:
                self._loop.call_soon(self._arm)
            self._arming.append(lent)

    def _arm(self) -> None:
        """Arm the connections whose answers are sent by now. The others come again with the next heartbeat
        that Python answers."""
        arming, self._arming = self._arming, []
        for lent in arming:
            connection, last = lent.connection, lent.last
            is_as_remembered = lent.is_remembered and last is not None and connection.session is last
            if is_as_remembered and connection.is_quiet and (lent.place is not None or self._seat(lent)):
                assert last is not None
                self._write(lent, last)
            else:
                self.memory.forget(lent)
                if lent.place is None:
                    self._lent.pop(connection, None)

    def _seat(self, lent: _Lent) -> bool:
        """Have the lane read the connection's socket. Return False if that cannot be."""
        descriptor = lent.connection.lend(lent)
        if descriptor is None:
            return False
        if not self._free:
            self._grow()
        if descriptor >= len(self._places):
            wider = np.full(2 * descriptor, -1, np.int32)
            wider[: len(self._places)] = self._places
            self._places = wider
        if self._epoll is None:
            self._epoll = select.epoll()
            self._loop.add_reader(self._epoll.fileno(), self._wake)
        place = self._free.pop()
        lent.place, lent.descriptor, self._at[place] = place, descriptor, lent
        self._facts[place] = 0
        self._places[descriptor] = place
        self._epoll.register(descriptor, select.EPOLLIN | select.EPOLLRDHUP)
        return True

    def _grow(self) -> None:
        size = len(self._at)
        self._facts = np.concatenate((self._facts, np.zeros_like(self._facts)))
        self._frames = np.concatenate((self._frames, np.zeros_like(self._frames)))
        self._at += [None] * size
        self._free += range(size, 2 * size)
        self.memory.facts = self._facts

    def _write(self, lent: _Lent, last: Heartbeat) -> None:
        """Write request and answer where the compiled function looks, and arm the connection."""
        request = with_length(last.before + bytes(4) + last.behind)
        frames, fact = self._frames[lent.place], self._facts[lent.place]
        frames[0, : len(request)] = np.frombuffer(request, np.uint8)
        frames[1, : len(lent.answer)] = np.frombuffer(lent.answer, np.uint8)
        fact[REQUEST_BYTES], fact[ANSWER_BYTES] = len(request), len(lent.answer)
        fact[API_KEY], fact[HEARD_MS] = last.request.api_key, 0
        fact[ARMED] = 1

    # What connections tell (actors.network.lending.Reader).

    def has_spoken(self, lent: _Lent) -> bool:
        if lent.place is None:
            return False
        spoke = bool(self._facts[lent.place, SPOKE])
        self._facts[lent.place, SPOKE] = 0
        return spoke

    def leave(self, lent: _Lent) -> None:
        """Forget a connection that is not read here any more. Its socket is still open."""
        self.memory.forget(lent)
        self._lent.pop(lent.connection, None)
        place, lent.place = lent.place, None
        if place is not None:
            assert self._epoll is not None
            self._epoll.unregister(lent.descriptor)
            self._places[lent.descriptor] = -1
            self._at[place] = None
            self._free.append(place)

    # What the loop tells.

    def _wake(self) -> None:
        """Serve what has come on the lane's sockets."""
        if self._repeat is None or self._epoll is None:
            return
        raft = self._host.raft
        until_ns = 0 if raft is None else min(max(raft.lease_until * 1e9, 0), LEASE_NS_MAX)
        classic, consumer, others = self._repeat(
            *(self._epoll.fileno(), int(until_ns), self._host.now_ms()),
            *(self._events, self._places, self._facts, self._frames, self._room, self._others),
        )
        if classic:
            self._counts.of(HEARTBEAT).fine += classic
        if consumer:
            self._counts.of(CONSUMER_GROUP_HEARTBEAT).fine += consumer
        self.answered += classic + consumer
        if others:
            self._give(self._others[:others].tolist())

    def _give(self, others: list[list[int]]) -> None:
        """Give to Python what the compiled function left. All is taken out of the buffer first: a connection
        may end while another one is served."""
        given: list[tuple[_Lent, bytes, Any]] = []
        for descriptor, begin, size, sent in others:
            lent = self._at[self._places[descriptor]]
            assert lent is not None, "whoever leaves takes its descriptor out"
            data = self._room[begin : begin + max(size, 0)].tobytes()
            unsent = None if sent < 0 else self._frames[lent.place, 1, sent : len(lent.answer)].tobytes()
            self.memory.forget(lent)
            given.append((lent, data, unsent))
        for lent, data, unsent in given:
            if unsent is not None:
                lent.connection.take_back(unsent)
            elif data:
                lent.connection.data_received(data)
            else:
                lent.connection.take_back()
