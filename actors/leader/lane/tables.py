"""The arrays between Python and the compiled function: seats (connections), places (repetitions), and the
index by which a request finds its place."""

from __future__ import annotations

from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np

from actors.coordinator.ground.held import Terms
from actors.ground.limits import REMEMBERED_HEARTBEAT_BYTES_MAX
from actors.leader.lane import compiled
from actors.leader.lane.commit_tables import CommitTables
from actors.leader.lane.memory import (
    ANSWER_BYTES,
    API_KEY,
    ARMED,
    CAME_MS,
    FACTS,
    HOLD_MS,
    REQUEST_BYTES,
    SEAT,
    SPACING_MS,
    SPACING_MS_MAX,
    SPACING_MS_MIN,
)

ROWS: Final = 256
"""How many seats and places there are at first; they double when they are all taken."""
TOLD: Final = Struct(f"={compiled.CLASSIC}q")
TELLS: Final = Struct(f"={compiled.NUMBERS - compiled.CLASSIC}q")
"""The two parts of the numbers: what one call is told, and behind it what it tells."""
SPREAD: Final = 4
"""How many buckets the index has for each bucket of places: so few of them are full."""


class Written(NamedTuple):
    """What is written down of a repetition."""

    seat: int
    api_key: int
    request: bytes
    """The request with its length; its correlation id is anything."""
    answer: bytes
    terms: Terms
    came_ms: int
    spacing_ms: int
    """When its last heartbeat came, and how long after the one before."""


class Tables:
    def __init__(self) -> None:
        self.seats: Any = np.zeros((compiled.SEAT_FACTS, 0), np.int64)
        self.facts: Any = np.zeros((0, FACTS), np.int64)
        self.frames: Any = np.zeros((0, 2, REMEMBERED_HEARTBEAT_BYTES_MAX + 4), np.uint8)
        self._index: Any = np.full((1, compiled.BUCKET), -1, np.int32)
        self._seats_of = np.full(ROWS, -1, np.int32)
        self._free_seats: list[int] = []
        self._free_places: list[int] = []
        self.numbers = bytearray(8 * compiled.NUMBERS)
        """What `compiled.repeat` is told and tells, as `TOLD` and `TELLS` write and read it: numpy's own ways
        take several times as long, and this is done at each wake-up."""
        self._events = np.zeros((compiled.CALM_EVENTS_MAX + 1) * compiled.EVENT_INTS, np.int32)
        self._table = np.array(compiled.remainders(), np.int64)
        self.room = np.zeros(compiled.READ_BYTES, np.uint8)
        self.others = np.zeros((compiled.ROWS_MAX + 1, 5), np.int64)
        self.commits = CommitTables()
        self.arguments: tuple[Any, ...] = ()
        """What `compiled.repeat` takes."""
        self.renew()

    @property
    def places(self) -> int:
        """Return how many places are taken."""
        return len(self.facts) - len(self._free_places)

    def renew(self) -> None:
        """Pass these arrays on from now on."""
        numbers = np.frombuffer(self.numbers, np.int64)
        self.arguments = (
            *(numbers, self._events, self._seats_of, self.seats, self.facts, self.frames),
            *(self._index, self._table, self.room, self.others, *self.commits.arguments),
        )

    # Seats.

    def take_seat(self) -> int:
        """Return a seat that is not read yet."""
        if not self._free_seats:
            size = self.seats.shape[1]
            more = max(size, ROWS)
            self.seats = np.concatenate((self.seats, np.zeros((len(self.seats), more), np.int64)), axis=1)
            self._free_seats += range(size + more - 1, size - 1, -1)
            self.renew()
        seat = self._free_seats.pop()
        self.seats[:, seat] = 0
        self.seats[compiled.HOLDS, seat] = self.seats[compiled.DESCRIPTOR, seat] = -1
        self.seats[compiled.COMMITS, seat] = -1
        return seat

    def read_seat(self, seat: int, descriptor: int) -> None:
        """Note whose socket this is."""
        if descriptor >= len(self._seats_of):
            wider = np.full(2 * descriptor, -1, np.int32)
            wider[: len(self._seats_of)] = self._seats_of
            self._seats_of = wider
            self.renew()
        self._seats_of[descriptor] = seat
        self.seats[compiled.DESCRIPTOR, seat] = descriptor

    def is_calm(self, seat: int) -> bool:
        """Return whether the epoll of calm sockets has this seat's."""
        return bool(self.seats[compiled.IN_A_ROW, seat] == compiled.CALM_AFTER)

    def free_seat(self, seat: int) -> None:
        descriptor = self.seats[compiled.DESCRIPTOR, seat]
        if descriptor >= 0:
            self._seats_of[descriptor] = -1
        self.seats[compiled.QUIET, seat] = self.seats[compiled.UNTIL_MS, seat] = 0
        self.seats[compiled.OWES, seat], self.seats[compiled.COMMITS, seat] = 0, -1
        self._free_seats.append(seat)

    def end_hold(self, seat: int) -> None:
        """Note that no answer of this seat is held."""
        self.seats[compiled.HOLDS, seat], self.seats[compiled.UNTIL_MS, seat] = -1, 0

    # Places.

    def write(self, written: Written) -> int | None:
        """Write a repetition where the compiled function finds it, and return its place; None: its bucket is
        full."""
        if not self._free_places:
            self._grow()
        bucket = self._bucket(written.request)
        found = np.flatnonzero(bucket < 0)
        if not len(found):
            return None
        place = self._free_places.pop()
        frames, fact = self.frames[place], self.facts[place]
        frames[0, : len(written.request)] = np.frombuffer(written.request, np.uint8)
        frames[1, : len(written.answer)] = np.frombuffer(written.answer, np.uint8)
        fact[:] = 0
        fact[SEAT], fact[API_KEY] = written.seat, written.api_key
        fact[REQUEST_BYTES], fact[ANSWER_BYTES] = len(written.request), len(written.answer)
        fact[HOLD_MS], fact[SPACING_MS_MIN], fact[SPACING_MS_MAX] = written.terms
        fact[CAME_MS], fact[SPACING_MS] = written.came_ms, written.spacing_ms
        fact[ARMED] = 1
        bucket[found[0]] = place
        return place

    def free(self, place: int) -> None:
        bucket = self._bucket(self._request(place))
        bucket[bucket == place] = -1
        self.facts[place] = 0
        self._free_places.append(place)

    def answer(self, place: int) -> bytes:
        """Return the answer of a place, with the correlation id that it was given last."""
        answer: bytes = self.frames[place, 1, : self.facts[place, ANSWER_BYTES]].tobytes()
        return answer

    def _request(self, place: int) -> bytes:
        request: bytes = self.frames[place, 0, : self.facts[place, REQUEST_BYTES]].tobytes()
        return request

    def _bucket(self, request: bytes) -> Any:
        return self._index[compiled.checksum(request) & (len(self._index) - 1)]

    def _grow(self) -> None:
        """Double the places, and make the index anew."""
        size = len(self.facts)
        more = max(size, ROWS)
        self.facts = np.concatenate((self.facts, np.zeros((more, FACTS), np.int64)))
        shape = (more, *self.frames.shape[1:])
        self.frames = np.concatenate((self.frames, np.zeros(shape, np.uint8)))
        self._free_places += range(size + more - 1, size - 1, -1)
        self._index = np.full(((size + more) * SPREAD // compiled.BUCKET, compiled.BUCKET), -1, np.int32)
        for place in range(size):
            bucket = self._bucket(self._request(place))
            bucket[np.flatnonzero(bucket < 0)[0]] = place
        self.renew()
