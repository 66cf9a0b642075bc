"""The compiled functions of the lane: one reads sockets, compares bytes, and answers what is a repetition or
takes what is a known commit; the other answers commits.

They are numba's, and call libc themselves: the functions down to `answer` are only their text, in which the
names of `_libc` stand for libc's functions. A process of its own compiles them (some 15 s of a processor),
once in an installation; replicas load them from numba's on-disk cache.
"""

from __future__ import annotations

import fcntl
import os
import platform
import zlib
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final, NamedTuple

from actors.leader.lane.memory import (
    ANSWER_BYTES,
    API_KEY,
    ARMED,
    CAME_MS,
    HEARD_MS,
    HELD,
    HOLD_MS,
    REQUEST_BYTES,
    SEAT,
    SPACING_MS,
    SPACING_MS_MAX,
    SPACING_MS_MIN,
)
from actors.protocol.api_keys import HEARTBEAT, OFFSET_COMMIT
from actors.protocol.commit_layout import WIRE_ROW_BYTES
from actors.protocol.offset_rows import ROW_BYTES

EVENTS_MAX: Final = 32
"""How many lively sockets one call reads, and how many holds that it cannot end it gives to Python: half a
millisecond, then the loop goes on."""
CALM_EVENTS_MAX: Final = 128
"""How many calm sockets one call reads: what gathers in 20 ms at 6,000 a second."""
ROWS_MAX: Final = 2 * EVENTS_MAX + CALM_EVENTS_MAX
CALM_AFTER: Final = 2
"""How many calm requests in a row make a connection calm."""
COMMITS_SPACING: Final = 5
"""A commit is calm after so many times the spacing that makes a heartbeat calm: somebody waits for it, so it
may be late by a tenth of the time that went by since the last one."""
EVENT_INTS, EVENT_DESCRIPTOR = (3, 1) if platform.machine() == "x86_64" else (4, 2)
"""The size of the kernel's `struct epoll_event` in int32s, and which of them is the descriptor."""
READ_BYTES: Final = 256 * 1024
"""How much one call reads in all: what is not answered lies there until Python has taken it."""
READ_BYTES_MIN: Final = 8 * 1024
"""The least room that a socket is read into; with less, it is left for the next call."""
QUIET, SPOKE, HOLDS, UNTIL_MS, DESCRIPTOR, IN_A_ROW, GIVEN_MS, COMMITS, OWES = range(9)
"""The rows of what is known of each seat, which is a connection: whether Python owes it nothing; whether it
was heard since the last sweep; the place whose answer is held (-1: none), and until when (0: none is); its
socket's descriptor; how many calm requests came since any other did, up to CALM_AFTER; when bytes of it were
given to Python last; the first layout of its commits (-1: none is known); the ticket of the batch in which
its commit waits (0: none does)."""
SEAT_FACTS: Final = 9
WHO, BEGIN, SIZE, SENT, PLACE = range(5)
"""The columns of what is given to Python: whose seat it is, where its bytes begin, how many there are (0:
none, the socket has ended; LEASELESS), and how many bytes of which place's answer the socket took (-1: all,
or there was no answer)."""
LEASELESS: Final = -1
"""A size: a hold is over, and no lease allows to answer."""
LIVELY, CALM, NOW_MS, DUE_MS, LEASE_UNTIL_NS, CALM_MS, TICKET = range(7)
"""What one call is told: the epolls of the lively and of the calm sockets, the time, up to when holds are
over (0: not now), when the lease ends on the monotonic clock, from which spacing on a member is calm
(NEVER: nobody is), and the ticket of the commits that it takes (0: it is to take none)."""
CLASSIC, CONSUMER, BEGAN, OVER, BY_REQUEST, NEXT_MS, GIVEN, CALM_READY = range(7, 15)
"""What it tells: how many heartbeats of each API it has answered, how many holds have begun, were over, or
ended by a request, when the next one is over, how many rows Python gets, and how many calm sockets had
something."""
TAKEN, RECORD_BYTES, ANSWERS_BYTES = range(15, 18)
"""The same: how many commits it has taken, how long their records are, and how long their answers."""
NUMBERS: Final = 18
LAYOUT_BYTES_MAX: Final = 512
"""The longest request, record and answer of a layout: a commit of 20 partitions or more is Python's."""
ROWS_OF_LAYOUT_MAX: Final = 32
RECORDS_BYTES: Final = ROWS_MAX * LAYOUT_BYTES_MAX
REQUEST, MASK, RECORD, ANSWER = range(4)
"""The bytes of a layout: the request with its length, which of its bits are always the same, the record and
the answer with anything where numbers change."""
L_SIZE, L_ROWS, L_ROWS_AT, L_RECORD, L_RECORD_ROWS_AT, L_RECORD_NOW_AT, L_ANSWER, L_COLUMN, L_NEXT = range(9)
"""The columns of what is known of each layout: how long requests are, how many rows they have and where the
first one begins; how long records are, and where rows and time stand; how long answers are; the column that
has the offsets that were committed last; the seat's next layout (-1: none)."""
LAYOUT_FACTS: Final = 9
T_SEAT, T_LAYOUT, T_BEGIN, T_SIZE, T_ANSWER, T_ANSWER_SIZE = range(6)
"""The columns of the commits that were taken: whose seat, of which layout, where in the room the request
stands and how long it is, where among the answers its answer stands and how long that is."""
TAKEN_FACTS: Final = 6
ANSWERED, LEFT, TOOK = range(3)
"""What `serve` has made of a socket's bytes: answered all, left some to Python, or taken a commit."""
NEVER: Final = 2**62
BUCKET: Final = 8
"""How many repetitions may have the same place in the index."""
DONT_WAIT, NO_SIGNAL, MONOTONIC = 0x40, 0x4000, 1
"""Linux's MSG_DONTWAIT, MSG_NOSIGNAL and CLOCK_MONOTONIC."""
ADD, REMOVE, READABLE = 1, 2, 0x2001
"""Linux's EPOLL_CTL_ADD and EPOLL_CTL_DEL, and EPOLLIN with EPOLLRDHUP."""


class Repeat(NamedTuple):
    """The compiled functions."""

    look: Callable[..., None]
    answer: Callable[..., int]


epoll_wait: Any = None
epoll_ctl: Any = None
recv: Any = None
send: Any = None
memcmp: Any = None
clock_gettime: Any = None


def checksum(request: bytes) -> int:
    """Return the CRC-32 of a request, with its length, without its correlation id: `find` computes the
    same."""
    return zlib.crc32(request[12:], zlib.crc32(request[:8]))


def remainders() -> list[int]:
    """Return the table by which `find` computes a CRC-32."""
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0xEDB88320 if value & 1 else 0)
        table.append(value)
    return table


def is_leased(until_ns: int, clock: Any) -> bool:
    clock_gettime(MONOTONIC, clock.ctypes.data)
    return bool(clock[0] * 1_000_000_000 + clock[1] < until_ns)


def find(room: Any, begin: int, end: int, seat: int, facts: Any, frames: Any, index: Any, table: Any) -> int:
    """Return the place of the repetition that stands at `begin` in the room; -1 if it is none."""
    if end - begin < 12:
        return -1
    size = 4
    for at in range(4):
        size += int(room[begin + at]) << 8 * (3 - at)
    if size < 12 or size > end - begin or size > frames.shape[2]:
        return -1
    crc = 0xFFFFFFFF
    for at in range(size):
        if at < 8 or at >= 12:
            crc = table[(crc ^ room[begin + at]) & 0xFF] ^ (crc >> 8)
    bucket = index[(crc ^ 0xFFFFFFFF) & (index.shape[0] - 1)]
    request = room.ctypes.data + begin
    for place in bucket:
        if place >= 0:
            fact, known = facts[place], frames[place, 0].ctypes.data
            is_here = fact[ARMED] and fact[SEAT] == seat and fact[REQUEST_BYTES] == size
            if (
                is_here
                and memcmp(request, known, 8) == 0
                and memcmp(request + 12, known + 12, size - 12) == 0
            ):
                return int(place)
    return -1


def give(numbers: Any, descriptor: int, place: int, facts: Any, frames: Any) -> int:
    """Send the answer of a place. Return how much of it was sent."""
    fact = facts[place]
    numbers[CLASSIC if fact[API_KEY] == HEARTBEAT else CONSUMER] += 1
    sent = send(descriptor, frames[place, 1].ctypes.data, fact[ANSWER_BYTES], DONT_WAIT | NO_SIGNAL)
    return int(max(sent, 0))


def let_go(numbers: Any, seat: int, seats: Any, facts: Any, frames: Any) -> int:
    """End the hold of a seat. Return how much of the answer was sent."""
    place = seats[HOLDS, seat]
    seats[HOLDS, seat], seats[UNTIL_MS, seat], facts[place, HELD] = -1, 0, 0
    return give(numbers, seats[DESCRIPTOR, seat], place, facts, frames)


def end_holds(numbers: Any, seats: Any, facts: Any, frames: Any, others: Any) -> int:
    """End the holds that are over. Return how many rows of `others` are taken."""
    given = 0
    for seat in range(seats.shape[1]):
        until_ms = seats[UNTIL_MS, seat]
        if until_ms == 0:
            continue
        if until_ms > numbers[DUE_MS] or given == EVENTS_MAX:
            numbers[NEXT_MS] = min(numbers[NEXT_MS], until_ms)
            continue
        row, place = others[given], seats[HOLDS, seat]
        row[WHO], row[BEGIN], row[SIZE], row[SENT], row[PLACE] = seat, 0, LEASELESS, -1, place
        if is_leased(numbers[LEASE_UNTIL_NS], others[ROWS_MAX]):
            numbers[OVER] += 1
            sent = let_go(numbers, seat, seats, facts, frames)
            if sent == facts[place, ANSWER_BYTES]:
                continue
            row[SIZE], row[SENT] = 0, sent
        seats[QUIET, seat] = 0
        given += 1
    return given


def is_of(layout: Any, known: Any, room: Any, begin: int, size: int) -> bool:
    """Return whether a request is of a layout: every byte that is always the same is the same."""
    if layout[L_SIZE] != size:
        return False
    differs = 0
    for at in range(size):
        differs |= (room[begin + at] ^ known[REQUEST, at]) & known[MASK, at]
    return differs == 0


def offset_at(room: Any, at: int) -> int:
    offset = 0
    for byte in range(8):
        offset = offset << 8 | int(room[at + byte])
    return offset


def goes_on(layout: Any, column: Any, room: Any, begin: int) -> bool:
    """Return whether no offset of a request is lower than the one before, or below zero."""
    for row in range(layout[L_ROWS]):
        offset = offset_at(room, begin + layout[L_ROWS_AT] + WIRE_ROW_BYTES * row + 4)
        if offset < 0 or offset < column[row]:
            return False
    return True


def write_record(numbers: Any, layout: Any, known: Any, column: Any, room: Any, begin: int, to: Any) -> None:
    """Write the record of a commit behind the others, and note its offsets."""
    out, size, now_ms = numbers[RECORD_BYTES], layout[L_RECORD], numbers[NOW_MS]
    to[out : out + size] = known[RECORD, :size]
    for row in range(layout[L_ROWS]):
        read_at = begin + layout[L_ROWS_AT] + WIRE_ROW_BYTES * row
        write_at = out + layout[L_RECORD_ROWS_AT] + ROW_BYTES * row
        to[write_at : write_at + ROW_BYTES] = room[read_at : read_at + ROW_BYTES]
        column[row] = offset_at(room, read_at + 4)
    for byte in range(8):
        to[out + layout[L_RECORD_NOW_AT] + byte] = now_ms >> 8 * (7 - byte) & 0xFF
    numbers[RECORD_BYTES] += size


def take(
    numbers: Any,
    row: Any,
    seats: Any,
    layouts: Any,
    known: Any,
    columns: Any,
    room: Any,
    taken: Any,
    records: Any,
    answers: Any,
) -> bool:
    """Take the commit that is all that is left of the bytes of `row`. Return False if it is none of a layout
    of the seat, or one of its offsets goes back."""
    seat, begin, size, count = row[WHO], row[BEGIN], row[SIZE], numbers[TAKEN]
    number = seats[COMMITS, seat]
    while number >= 0 and not is_of(layouts[number], known[number], room, begin, size):
        number = layouts[number, L_NEXT]
    if number < 0 or numbers[TICKET] == 0 or count == len(taken):
        return False
    layout = layouts[number]
    column = columns[layout[L_COLUMN]]
    if not goes_on(layout, column, room, begin):
        return False
    write_record(numbers, layout, known[number], column, room, begin, records)
    to, answer_size = numbers[ANSWERS_BYTES], layout[L_ANSWER]
    answers[to : to + answer_size] = known[number, ANSWER, :answer_size]
    answers[to + 4 : to + 8] = room[begin + 8 : begin + 12]  # the correlation id
    numbers[ANSWERS_BYTES] += answer_size
    one = taken[count]
    one[T_SEAT], one[T_LAYOUT], one[T_BEGIN], one[T_SIZE] = seat, number, begin, size
    one[T_ANSWER], one[T_ANSWER_SIZE] = to, answer_size
    seats[QUIET, seat], seats[SPOKE, seat], seats[OWES, seat] = 0, 1, numbers[TICKET]
    numbers[TAKEN] += 1
    return True


def serve(
    numbers: Any,
    row: Any,
    seats: Any,
    facts: Any,
    frames: Any,
    index: Any,
    table: Any,
    room: Any,
    clock: Any,
    layouts: Any,
    known: Any,
    columns: Any,
    taken: Any,
    records: Any,
    answers: Any,
) -> int:
    """Answer the repetitions with which the bytes of `row` begin, or hold their answers, and take a commit
    behind them. Return what became of them; if some are LEFT, the row says which."""
    seat, begin, end = row[WHO], row[BEGIN], row[BEGIN] + row[SIZE]
    while begin < end and seats[QUIET, seat] and is_leased(numbers[LEASE_UNTIL_NS], clock):
        place = seats[HOLDS, seat]
        if place >= 0:
            numbers[BY_REQUEST] += 1
            sent = let_go(numbers, seat, seats, facts, frames)
            if sent < facts[place, ANSWER_BYTES]:
                row[SENT], row[PLACE] = sent, place
                break
        place = find(room, begin, end, seat, facts, frames, index, table)
        if place < 0:
            row[BEGIN], row[SIZE] = begin, end - begin
            if take(numbers, row, seats, layouts, known, columns, room, taken, records, answers):
                return TOOK
            break
        fact, now_ms = facts[place], numbers[NOW_MS]
        spacing_ms = now_ms - fact[CAME_MS]
        if fact[HOLD_MS] and not fact[SPACING_MS_MIN] <= spacing_ms <= fact[SPACING_MS_MAX]:
            break
        frames[place, 1, 4:8] = room[begin + 8 : begin + 12]  # the correlation id
        begin += fact[REQUEST_BYTES]
        fact[HEARD_MS] = fact[CAME_MS] = now_ms
        fact[SPACING_MS], seats[SPOKE, seat] = spacing_ms, 1
        is_calm = spacing_ms >= numbers[CALM_MS]
        seats[IN_A_ROW, seat] = min(seats[IN_A_ROW, seat] + 1, CALM_AFTER) if is_calm else 0
        if fact[HOLD_MS]:
            fact[HELD], seats[HOLDS, seat], seats[UNTIL_MS, seat] = 1, place, now_ms + fact[HOLD_MS]
            numbers[BEGAN] += 1
            numbers[NEXT_MS] = min(numbers[NEXT_MS], now_ms + fact[HOLD_MS])
            continue
        sent = give(numbers, seats[DESCRIPTOR, seat], place, facts, frames)
        if sent < fact[ANSWER_BYTES]:
            row[SENT], row[PLACE] = sent, place
            break
    row[BEGIN], row[SIZE] = begin, end - begin
    return ANSWERED if begin == end and row[SENT] < 0 else LEFT


def note_given(numbers: Any, row: Any, seats: Any, room: Any) -> None:
    """Note whether what Python is given was sent calmly."""
    seat, begin, now_ms = row[WHO], row[BEGIN], numbers[NOW_MS]
    spacing_ms = now_ms - seats[GIVEN_MS, seat]
    is_commit = row[SIZE] >= 6 and room[begin + 4] == 0 and room[begin + 5] == OFFSET_COMMIT
    is_calm = is_commit and spacing_ms // COMMITS_SPACING >= numbers[CALM_MS]
    seats[IN_A_ROW, seat] = min(seats[IN_A_ROW, seat] + 1, CALM_AFTER) if is_calm else 0
    seats[GIVEN_MS, seat] = now_ms


def move(numbers: Any, seat: int, seats: Any, events: Any, was_calm: bool) -> None:
    """Move the seat's socket from the one epoll to the other."""
    descriptor, event = seats[DESCRIPTOR, seat], events[-EVENT_INTS:]
    event[:] = 0
    event[0], event[EVENT_DESCRIPTOR] = READABLE, descriptor
    epoll_ctl(numbers[CALM if was_calm else LIVELY], REMOVE, descriptor, event.ctypes.data)
    epoll_ctl(numbers[LIVELY if was_calm else CALM], ADD, descriptor, event.ctypes.data)


# fmt: off
def repeat(
    numbers: Any, events: Any, seats_of: Any, seats: Any, facts: Any, frames: Any, index: Any, table: Any,
    room: Any, others: Any, layouts: Any, known: Any, columns: Any, taken: Any, records: Any, answers: Any,
) -> None:
    """End the holds that are over, read what is there on the sockets, answer the repetitions and take the
    commits.

    `numbers` is int64[NUMBERS]; `events` int32, for the kernel, and room for one more at the end; `seats_of`
    int32[descriptor] -> seat; `seats` int64[SEAT_FACTS, seat]; `facts` int64[place, `memory.FACTS`]; `frames`
    uint8[place, 2, bytes], request and answer; `index` int32[a power of two, BUCKET], the places by
    `checksum` modulo that power; `table` int64[256], the `remainders`; `room` uint8, for what is read;
    `others` int64[ROWS_MAX + 1, 5] takes what is for Python. Of commits, `layouts` is int64[layout,
    LAYOUT_FACTS], `known` uint8[layout, 4, LAYOUT_BYTES_MAX], `columns` int64[column, ROWS_OF_LAYOUT_MAX];
    `taken` int64[ROWS_MAX, TAKEN_FACTS], `records` and `answers` uint8[RECORDS_BYTES] take them.
    """
    numbers[CLASSIC:] = 0
    numbers[NEXT_MS] = NEVER
    given = end = 0
    clock = others[ROWS_MAX]
    if numbers[DUE_MS]:
        given = end_holds(numbers, seats, facts, frames, others)
    for kind in (LIVELY, CALM):
        events_max = CALM_EVENTS_MAX if kind == CALM else EVENTS_MAX
        ready = epoll_wait(numbers[kind], events.ctypes.data, events_max, 0)
        if kind == CALM:
            numbers[CALM_READY] = ready
        for event in range(ready):
            descriptor = events[event * EVENT_INTS + EVENT_DESCRIPTOR]
            seat = seats_of[descriptor]
            if seat < 0 or room.size - end < READ_BYTES_MIN:
                continue
            read = max(recv(descriptor, room.ctypes.data + end, room.size - end, DONT_WAIT), 0)
            row = others[given]
            row[WHO], row[BEGIN], row[SIZE], row[SENT], row[PLACE] = seat, end, read, -1, -1
            became = LEFT
            if read:
                became = serve(
                    numbers, row, seats, facts, frames, index, table, room, clock, layouts, known, columns,
                    taken, records, answers,
                )
            if became != ANSWERED:
                seats[QUIET, seat] = 0
                note_given(numbers, row, seats, room)
                given += int(became == LEFT)
                end += read
            if (seats[IN_A_ROW, seat] == CALM_AFTER) != (kind == CALM):
                move(numbers, seat, seats, events, kind == CALM)
    numbers[GIVEN] = given
# fmt: on


def answer(ticket: int, taken: Any, answers: Any, seats: Any, sent: Any) -> int:
    """Answer the commits of a batch that still wait under its ticket. Return how many sockets did not take
    all of it: `sent` int64[ROWS_MAX, 2] says which of `taken`, and how many bytes they took."""
    unsent = 0
    for number in range(len(taken)):
        one = taken[number]
        seat = one[T_SEAT]
        if seat < 0 or seats[OWES, seat] != ticket:
            continue
        seats[OWES, seat], seats[QUIET, seat] = 0, 1
        size = one[T_ANSWER_SIZE]
        descriptor, begin = seats[DESCRIPTOR, seat], answers.ctypes.data + one[T_ANSWER]
        took = max(send(descriptor, begin, size, DONT_WAIT | NO_SIGNAL), 0)
        if took < size:
            seats[QUIET, seat] = 0
            sent[unsent, 0], sent[unsent, 1] = number, took
            unsent += 1
    return unsent


def compile_repeat() -> Repeat:
    """Compile the functions, or load it from the cache. A worker thread calls this."""
    try:
        return _compile(cache=True)
    except (OSError, RuntimeError):  # the cache cannot be written
        return _compile(cache=False)


def _compile(*, cache: bool) -> Repeat:
    import numba
    from numba import types

    int64, bytes_ = types.int64, types.uint8
    numbers, facts, frames = int64[::1], int64[:, ::1], bytes_[:, :, ::1]
    looked = (
        *(numbers, types.int32[::1], types.int32[::1], facts, facts, frames),
        *(types.int32[:, ::1], int64[::1], bytes_[::1], facts),
        *(facts, frames, facts, facts, bytes_[::1], bytes_[::1]),
    )
    answered = (int64, facts, types.Array(types.uint8, 1, "C", readonly=True), facts, facts)
    names = {**globals(), **_libc(types)}
    for part in (
        *(is_leased, find, give, let_go, end_holds, is_of, offset_at, goes_on, write_record, take, serve),
        *(note_given, move),
    ):
        text = FunctionType(part.__code__, names, part.__name__)
        names[part.__name__] = numba.njit(nogil=True)(text)
    compiled = (
        numba.njit([signature], cache=cache, nogil=True)(FunctionType(text.__code__, names, text.__name__))
        for text, signature in ((repeat, types.void(*looked)), (answer, int64(*answered)))
    )
    return Repeat(*compiled)


def _libc(types: Any) -> dict[str, Any]:
    """Return libc's functions as numba calls them."""
    pointer, size, number, result = types.uintp, types.uint64, types.int32, types.int64
    return {
        "epoll_wait": types.ExternalFunction("epoll_wait", number(number, pointer, number, number)),
        "epoll_ctl": types.ExternalFunction("epoll_ctl", number(number, number, number, pointer)),
        "recv": types.ExternalFunction("recv", result(number, pointer, size, number)),
        "send": types.ExternalFunction("send", result(number, pointer, size, number)),
        "memcmp": types.ExternalFunction("memcmp", number(pointer, pointer, size)),
        "clock_gettime": types.ExternalFunction("clock_gettime", number(number, pointer)),
    }


def main() -> None:
    """Fill the cache for others, in the background; whoever comes second finds it filled. Raises OSError and
    RuntimeError if it cannot be written."""
    os.nice(10)
    with open(__file__, "rb") as source:
        fcntl.flock(source, fcntl.LOCK_EX)
        _compile(cache=True)


if __name__ == "__main__":
    main()
