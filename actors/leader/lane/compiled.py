"""The compiled function of the lane: it reads sockets, compares bytes, and answers what is a repetition.

It is numba's, and calls libc itself: `repeat` is only its text, in which the names of `_libc` stand for
libc's functions. The first process of an installation compiles it (some 10 s of a processor, in a thread),
others load it from numba's on-disk cache.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final

from actors.leader.lane.memory import ANSWER_BYTES, API_KEY, ARMED, HEARD_MS, REQUEST_BYTES, SPOKE
from actors.protocol.api_keys import HEARTBEAT

EVENTS_MAX: Final = 64
"""How many sockets one call reads: half a millisecond, then the loop goes on."""
EVENT_INTS, EVENT_DESCRIPTOR = (3, 1) if platform.machine() == "x86_64" else (4, 2)
"""The size of the kernel's `struct epoll_event` in int32s, and which of them is the descriptor."""
READ_BYTES: Final = 256 * 1024
"""How much one call reads in all: what is not answered lies there until Python has taken it."""
READ_BYTES_MIN: Final = 8 * 1024
"""The least room that a socket is read into; with less, it is left for the next call."""
DESCRIPTOR, BEGIN, SIZE, SENT = range(4)
"""The columns of what is given to Python: whose it is, where its bytes begin, how many there are (0 or less:
none, the socket has ended), and how many bytes of the answer the socket took (-1: there was no answer)."""
DONT_WAIT, NO_SIGNAL, MONOTONIC = 0x40, 0x4000, 1
"""Linux's MSG_DONTWAIT, MSG_NOSIGNAL and CLOCK_MONOTONIC."""

Repeat = Callable[..., tuple[int, int, int]]

epoll_wait: Any = None
recv: Any = None
send: Any = None
memcmp: Any = None
clock_gettime: Any = None


def repeat(
    epoll: int,
    lease_until_ns: int,
    now_ms: int,
    events: Any,
    places: Any,
    facts: Any,
    frames: Any,
    room: Any,
    others: Any,
) -> tuple[int, int, int]:
    """Read what is there on the sockets of `epoll` and answer the repetitions.

    `events` is int32, for the kernel; `places` int32[descriptor] -> place; `facts` int64[place,
    `memory.FACTS`]; `frames` uint8[place, 2, bytes], request and answer; `room` uint8, for what is read;
    `others` int64[EVENTS_MAX + 1, 4] takes what is for Python. Returns how many classic and how many other
    heartbeats were answered, and how many rows of `others` are taken.
    """
    classic = consumer = given = end = 0
    clock, buffer = others[EVENTS_MAX], room.ctypes.data
    ready = epoll_wait(epoll, events.ctypes.data, EVENTS_MAX, 0)
    for event in range(ready):
        if room.size - end < READ_BYTES_MIN:
            break
        descriptor = events[event * EVENT_INTS + EVENT_DESCRIPTOR]
        place = places[descriptor]
        if place < 0:
            continue
        read = recv(descriptor, buffer + end, room.size - end, DONT_WAIT)
        fact, answer, request = facts[place], frames[place, 1], frames[place, 0].ctypes.data
        sent = -1
        if fact[ARMED] and read == fact[REQUEST_BYTES]:
            clock_gettime(MONOTONIC, clock.ctypes.data)
            if (
                memcmp(buffer + end, request, 8) == 0
                and memcmp(buffer + end + 12, request + 12, read - 12) == 0
                and clock[0] * 1_000_000_000 + clock[1] < lease_until_ns
            ):
                answer[4:8] = room[end + 8 : end + 12]  # the correlation id
                fact[HEARD_MS], fact[SPOKE] = now_ms, 1
                classic += fact[API_KEY] == HEARTBEAT
                consumer += fact[API_KEY] != HEARTBEAT
                sent = max(send(descriptor, answer.ctypes.data, fact[ANSWER_BYTES], DONT_WAIT | NO_SIGNAL), 0)
        if sent == fact[ANSWER_BYTES]:
            continue
        fact[ARMED] = 0
        row = others[given]
        row[DESCRIPTOR], row[BEGIN], row[SIZE], row[SENT] = descriptor, end, read, sent
        given += 1
        end += max(read, 0)
    return classic, consumer, given


def compile_repeat() -> Repeat:
    """Compile the function, or load it from the cache. A worker thread calls this."""
    try:
        return _compile(cache=True)
    except (OSError, RuntimeError):  # the cache cannot be written
        return _compile(cache=False)


def _compile(*, cache: bool) -> Repeat:
    import numba
    from numba import types

    int64, bytes_ = types.int64, types.uint8
    taken = (
        *(int64, int64, int64, types.int32[::1], types.int32[::1], int64[:, ::1]),
        *(bytes_[:, :, ::1], bytes_[::1], int64[:, ::1]),
    )
    text = FunctionType(repeat.__code__, {**globals(), **_libc(types)}, repeat.__name__)
    compiled: Repeat = numba.njit([taken], cache=cache, nogil=True)(text)
    return compiled


def _libc(types: Any) -> dict[str, Any]:
    """Return libc's functions as numba calls them."""
    pointer, size, number, result = types.uintp, types.uint64, types.int32, types.int64
    return {
        "epoll_wait": types.ExternalFunction("epoll_wait", number(number, pointer, number, number)),
        "recv": types.ExternalFunction("recv", result(number, pointer, size, number)),
        "send": types.ExternalFunction("send", result(number, pointer, size, number)),
        "memcmp": types.ExternalFunction("memcmp", number(pointer, pointer, size)),
        "clock_gettime": types.ExternalFunction("clock_gettime", number(number, pointer)),
    }
