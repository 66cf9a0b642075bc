"""The sockets of the lane: which connections are lent to it, and what becomes of what it does not answer.

The law is in `memory.py`. One call of the compiled function serves all sockets that are ready (`epolls.py`).
One timer wakes the lane for the holds that are over.
"""

from __future__ import annotations

import asyncio
from functools import partial
from math import inf
from typing import Any, Final

from actors.coordinator.ground.held import AT_ONCE, Terms
from actors.ground.contract import Request
from actors.ground.limits import LANE_CONNECTIONS_MAX, LANE_HEARTBEATS_MAX, REMEMBERED_HEARTBEATS_MAX
from actors.leader.lane import compiled
from actors.leader.lane.commits import Commits, Layout
from actors.leader.lane.epolls import Epolls
from actors.leader.lane.memory import CAME_MS, HELD, SPACING_MS, Memory, Repetition
from actors.leader.lane.neighbours import Commit, Heartbeat, Held, Holding, Server
from actors.leader.lane.tables import TELLS, TOLD, Tables, Written
from actors.network.connection import Connection
from actors.network.frames import with_length
from actors.protocol.api_keys import CONSUMER_GROUP_HEARTBEAT, HEARTBEAT, OFFSET_COMMIT
from actors.replica.host import ReplicaHost

TOGETHER_MS: Final = 40
"""Holds that are over within so many ms end together: some of them so much too early."""
LEASE_NS_MAX: Final = 2**62
"""A lease that does not end, in ns."""


class _Remembered(Repetition):
    """A heartbeat that is repeated on a connection."""

    __slots__ = ("answer_behind", "last", "lent")

    def __init__(self, lent: _Lent, last: Heartbeat) -> None:
        super().__init__()
        self.lent = lent
        self.last = last
        self.answer_behind = b""
        """What was written down of the answer, behind the correlation id."""

    def repeats(self, last: Heartbeat) -> bool:
        """Return whether this is the answer that is repeated, at once."""
        return (
            self.is_remembered and self.lent.holder is not self and self.answer_behind == last.answer_behind
        )

    def give_back(self, came_ms: int, spacing_ms: int) -> None:
        self.lent.lane.give_back(self, came_ms, spacing_ms)

    def withdrawn(self) -> None:
        self.lent.lane.withdrawn(self)


class _Lent:
    """A connection that is lent to the lane, or is about to be: `actors.network.lending.Reader`."""

    __slots__ = ("connection", "holder", "lane", "layouts", "repetitions", "seat")

    def __init__(self, lane: Lane, connection: Connection, seat: int) -> None:
        self.lane = lane
        self.connection = connection
        self.seat = seat
        self.repetitions: dict[Heartbeat, _Remembered] = {}
        self.layouts: dict[Commit, Layout] = {}
        """The commits that are taken on it, oldest first."""
        self.holder: _Remembered | None = None
        """The heartbeat whose answers are held; None: all are given at once."""

    def has_spoken(self) -> bool:
        return self.lane.has_spoken(self)

    def is_ready(self) -> None:
        self.lane.settles(self)

    def taken_back(self) -> None:
        self.lane.leave(self)


class Lane:
    """The lane of one leader, which answers through `server` and holds with `held`. It looks at calm sockets
    once in `linger_ms` at most; 0: at once, always."""

    def __init__(
        self, host: ReplicaHost, server: Server, held: Held, linger_ms: int, repeat: compiled.Repeat
    ) -> None:
        self._host = host
        self._server = server
        self._held = held
        self._loop = asyncio.get_running_loop()
        self._repeat: compiled.Repeat | None = repeat
        """The compiled function; None once the lane is closed."""
        self._now_ms = host.now_ms
        self._classic = server.counts.of(HEARTBEAT)
        self._consumer = server.counts.of(CONSUMER_GROUP_HEARTBEAT)
        self._linger_ms = linger_ms
        self._epolls: Epolls | None = None
        """Where the sockets stand; None as long as there is none."""
        self._lent: dict[Connection, _Lent] = {}
        """The connections that are lent, or that are about to be."""
        self._seated: dict[int, _Lent] = {}
        """Who has each seat whose socket is read."""
        self._settling: list[_Lent] = []
        """The connections of which it is to be looked whether Python owes them something."""
        self._timer: asyncio.TimerHandle | None = None
        """What wakes the lane at the end of the next hold, which is in `_next_ms`."""
        self._next_ms = compiled.NEVER
        self._tables = Tables()
        counts = server.counts.of(OFFSET_COMMIT)
        self._commits = Commits(host, self._tables, self._seated, counts, repeat.answer)
        self.answered = 0
        """How many heartbeats it has answered, for metrics."""
        self.held = 0
        """How many of these it has held."""
        self.memory = Memory(host.replica, self._tables.facts)
        host.replica.repeats = self.memory
        held.lane = self

    def __len__(self) -> int:
        """Return how many connections are lent."""
        return len(self._seated)

    @property
    def taken(self) -> int:
        """Return how many commits it has taken that were decided together."""
        return self._commits.taken

    def close(self) -> None:
        """Read no more. The connections must be closed already."""
        if self._epolls is not None:
            self._epolls.close()
        if self._timer is not None:
            self._timer.cancel()
        self._repeat = None

    # What the service and the held heartbeats tell.

    def repeated(self, connection: Connection, last: Heartbeat, answer: bytes) -> None:
        """Take over the heartbeat that has just been answered by `answer`, as the one before it was, if that
        may be repeated. The connection is read here when its answers are sent."""
        if last.response is None or last.response[0]:
            return
        if answer[8:] == last.answer_behind and answer[:4] == last.answer_before:
            lent = self._lent.get(connection)
            known = None if lent is None else lent.repetitions.get(last)
            if lent is not None and known is not None and known.repeats(last):
                self.settles(lent)  # Python was only asked because the connection was owed something
            else:
                self._remember(connection, last, AT_ONCE)

    def commits(self, connection: Connection, known: Commit, frame: bytes) -> None:
        """Read a connection that repeats a commit, which came in `frame` and is decided, and take the next
        ones together with others'."""
        before = lent = self._lent.get(connection)
        if lent is None:
            if len(self._lent) >= LANE_CONNECTIONS_MAX or connection.closed:
                return
            lent = self._lent[connection] = _Lent(self, connection, self._tables.take_seat())
        if lent.seat in self._seated or self._seat(lent):
            self._commits.learn(lent, known, frame)
        elif before is None:
            self.leave(lent)

    def forget_commits(self) -> None:
        """Take no commits until they are known anew."""
        for lent in self._seated.values():
            self._commits.forget(lent)

    def ended(self, holding: Holding, request: Request, terms: Terms, response: Any) -> None:
        """Take over a heartbeat whose hold ended with an answer that says nothing: the next ones may be held
        on these terms."""
        if holding.kept is None or holding.kept[1].request is not request:
            return
        connection, last = holding.kept
        if last.response != response:
            last.pack(response, bytes(8))
        if last.response == response:
            self._remember(connection, last, terms)

    def submitted(self, holding: Holding, group_id: str, session_key: Any) -> None:
        """Give back what is held of a member of whom Python decides a heartbeat now, or on the connection of
        that one, and hold nothing more of them until that is answered. Python holds nothing on a connection
        that members share, so what is answered at once stays as it is there."""
        self.memory.forget_member(group_id, session_key, only_held=holding.is_shared)
        lent = self._lent.get(holding.kept[0]) if holding.kept is not None else None
        if lent is not None and lent.holder is not None:
            self.memory.forget(lent.holder)

    def _remember(self, connection: Connection, last: Heartbeat, terms: Terms) -> None:
        lent = self._lent.get(connection)
        if lent is None:
            if len(self._lent) >= LANE_CONNECTIONS_MAX or connection.closed:
                return
            lent = _Lent(self, connection, self._tables.take_seat())
        repetition = lent.repetitions.get(last) or _Remembered(lent, last)
        if self.memory.remember(repetition, last.request, self._host.now_ms()):
            lent.repetitions[last], self._lent[connection] = repetition, lent
            if not self._write(repetition, terms):
                self.memory.forget(repetition)
        if not lent.repetitions and lent.seat not in self._seated:
            self._lent.pop(connection, None)
            self._tables.free_seat(lent.seat)
        else:
            self.settles(lent)

    def _write(self, repetition: _Remembered, terms: Terms) -> bool:
        """Write request and answer where the compiled function looks. Return False if there is no room."""
        lent, last, tables = repetition.lent, repetition.last, self._tables
        is_full = len(lent.repetitions) > REMEMBERED_HEARTBEATS_MAX or tables.places >= LANE_HEARTBEATS_MAX
        if is_full:
            return False
        holding: Holding | None = lent.connection.holding
        since = (0, 0) if holding is None else (holding.beat_at_ms or 0, holding.spacing_ms)
        request = with_length(last.before + bytes(4) + last.behind)
        answer = last.answer_before + bytes(4) + last.answer_behind
        written = Written(lent.seat, last.request.api_key, request, answer, terms, *since)
        repetition.place = tables.write(written)
        repetition.answer_behind = last.answer_behind
        self.memory.facts = tables.facts
        if terms.hold_ms:
            lent.holder = repetition
        return repetition.place is not None

    # Connections that are lent.

    def settles(self, lent: _Lent) -> None:
        """Look soon whether all that the connection owes is sent: then it is read here, and its repetitions
        are answered."""
        if not self._settling:
            self._loop.call_soon(self._settle)
        self._settling.append(lent)

    def _settle(self) -> None:
        settling, self._settling = self._settling, []
        for lent in settling:
            if self._repeat is None or self._lent.get(lent.connection) is not lent:
                continue
            if self._tables.seats[compiled.OWES, lent.seat]:
                continue  # that is sent with its batch
            if lent.connection.is_quiet and (lent.seat in self._seated or self._seat(lent)):
                self._tables.seats[compiled.QUIET, lent.seat] = 1
            elif lent.seat not in self._seated:
                self.leave(lent)  # it comes again with the next heartbeat that may be repeated

    def _seat(self, lent: _Lent) -> bool:
        """Have the lane read the connection's socket. Return False if that cannot be."""
        descriptor = lent.connection.lend(lent)
        if descriptor is None:
            return False
        if self._epolls is None:
            self._epolls = Epolls(self._linger_ms, self._now_ms, partial(self._run, 0), self._look)
        self._tables.read_seat(lent.seat, descriptor)
        self._seated[lent.seat] = lent
        self._epolls.add(descriptor)
        return True

    # What connections tell (actors.network.lending.Reader).

    def has_spoken(self, lent: _Lent) -> bool:
        seats = self._tables.seats
        spoke = bool(seats[compiled.SPOKE, lent.seat] or seats[compiled.HOLDS, lent.seat] >= 0)
        spoke = spoke or bool(seats[compiled.OWES, lent.seat])
        seats[compiled.SPOKE, lent.seat] = 0
        return spoke

    def leave(self, lent: _Lent) -> None:
        """Forget a connection that is not read here any more. Its socket is still open."""
        for repetition in list(lent.repetitions.values()):
            self.memory.forget(repetition)
        self._commits.forget(lent)
        self._commits.let_owe(lent)
        self._lent.pop(lent.connection, None)
        if self._seated.pop(lent.seat, None) is not None:
            assert self._epolls is not None
            descriptor = int(self._tables.seats[compiled.DESCRIPTOR, lent.seat])
            self._epolls.remove(descriptor, is_calm=self._tables.is_calm(lent.seat))
        self._tables.free_seat(lent.seat)

    # What the memory tells.

    def give_back(self, repetition: _Remembered, came_ms: int, spacing_ms: int) -> None:
        """Have Python hold on the heartbeat whose answer is held here."""
        lent, last, tables = repetition.lent, repetition.last, self._tables
        until_ms = int(tables.seats[compiled.UNTIL_MS, lent.seat])
        tables.end_hold(lent.seat)
        tables.seats[compiled.QUIET, lent.seat] = 0
        connection = lent.connection
        connection.owe()
        assert repetition.place is not None
        self._server.owe(last, tables.answer(repetition.place), connection.answer)
        holding: Holding = connection.holding
        holding.beat_at_ms, holding.spacing_ms = came_ms, spacing_ms
        self._held.take_in(holding, last.request, until_ms)
        self._host.wake()

    def withdrawn(self, repetition: _Remembered) -> None:
        lent, place = repetition.lent, repetition.place
        lent.repetitions.pop(repetition.last, None)
        if lent.holder is repetition:
            self._tell_holding(lent)
            lent.holder = None
        if place is not None:
            repetition.place = None
            self._tables.free(place)

    def _tell_holding(self, lent: _Lent) -> None:
        """Tell Python when the last heartbeat came that the lane has held."""
        if lent.holder is not None and lent.holder.place is not None:
            fact, holding = self._tables.facts[lent.holder.place], lent.connection.holding
            if fact[CAME_MS] > (holding.beat_at_ms or 0):
                holding.beat_at_ms, holding.spacing_ms = int(fact[CAME_MS]), int(fact[SPACING_MS])

    # What the loop tells.

    def _look(self) -> int:
        """Serve what has gathered, and end the holds that are over, or nearly."""
        due_ms = self._now_ms() + TOGETHER_MS
        if self._next_ms > due_ms:
            return self._run(0)
        if self._timer is not None:
            self._timer.cancel()
        return self._end_holds(due_ms)

    def end_holds(self) -> None:
        """End the holds that are over."""
        self._end_holds(self._now_ms() + TOGETHER_MS)

    def _end_holds(self, due_ms: int) -> int:
        self._timer, self._next_ms = None, compiled.NEVER
        return self._run(due_ms)

    def _run(self, due_ms: int) -> int:
        """Serve what has come, and end what is held no longer than until `due_ms`, if that is not 0. Return
        how many calm sockets had something."""
        repeat, raft, tables, epolls = self._repeat, self._host.raft, self._tables, self._epolls
        if repeat is None or raft is None or epolls is None:
            return 0
        lease_until, now_ms = raft.lease_until, self._now_ms()
        until_ns = LEASE_NS_MAX if lease_until == inf else int(lease_until * 1e9) if lease_until > 0 else 0
        ticket = self._commits.next_ticket
        times = now_ms, due_ms, until_ns, epolls.calm_ms
        TOLD.pack_into(tables.numbers, 0, *epolls.descriptors, *times, ticket)
        repeat.look(*tables.arguments)
        told = TELLS.unpack_from(tables.numbers, TOLD.size)
        classic, consumer, began, over, by_request, next_ms, given, calm, taken, records, answers = told
        if classic:
            self._classic.fine += classic
            self.answered += classic
        if consumer:
            self._consumer.fine += consumer
            self.answered += consumer
        if began or over or by_request:
            self.held += began
            self._held.lane_counts(began, over, by_request)
        if next_ms < self._next_ms:
            self._wake_at(next_ms, now_ms)
        others = tables.others[:given].tolist() if given else None
        if taken:
            self._commits.take(taken, records, answers, now_ms)
        if others:
            self._give(others)
        return int(calm)

    def _wake_at(self, next_ms: int, now_ms: int) -> None:
        """See that the lane wakes when the next hold is over."""
        if self._timer is not None:
            self._timer.cancel()
        self._next_ms = next_ms
        self._timer = self._loop.call_later(max(next_ms - now_ms, 0) / 1000, self.end_holds)

    def _give(self, others: list[list[int]]) -> None:
        """Give to Python what the compiled function left. All is taken out of the buffer first: a connection
        may end while another one is served."""
        given: list[tuple[_Lent, bytes, bytes | None, int]] = []
        tables = self._tables
        for seat, begin, size, sent, place in others:
            data = tables.room[begin : begin + max(size, 0)].tobytes()
            unsent = None
            if sent >= 0:
                unsent = tables.answer(place)[sent:]
            given.append((self._seated[seat], data, unsent, size))
        for lent, data, unsent, size in given:
            if self._lent.get(lent.connection) is lent:
                self._commits.let_owe(lent)
            self._give_one(lent, data, unsent, is_leaseless=size == compiled.LEASELESS)

    def _give_one(self, lent: _Lent, data: bytes, unsent: bytes | None, *, is_leaseless: bool) -> None:
        holder, connection = lent.holder, lent.connection
        if holder is not None:
            self._tell_holding(lent)
            if self._tables.facts[holder.place, HELD]:
                self.memory.forget(holder)  # there was no lease to end the hold
        if is_leaseless:
            return
        if unsent is not None or not data:
            connection.take_back(unsent or b"")
        if data:
            connection.data_received(data)
        if self._lent.get(connection) is lent:
            self.settles(lent)
