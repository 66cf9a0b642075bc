"""Have Ray's main thread look for signals once a second instead of a hundred times.

Ray's worker wakes its main thread every 10 ms to see whether Python has a signal to handle, for as long as
the process lives: on a tier at rest that is most of what an actor does. The thread waits in epoll for a
timer, which it sets anew after each look. Here another timer takes the place of that one: it goes off by
itself once a second, and what Ray sets from then on is a timer that nobody waits for. Work for the thread,
and its end, come over other descriptors and are not delayed.
"""

from __future__ import annotations

import ctypes
import os
import platform
from pathlib import Path
from typing import Final

LOOK_INTERVAL_S: Final = 1
_SYSCALLS_OF_EPOLL: Final = ("232", "281", "441")
"""The numbers of epoll_wait, epoll_pwait and epoll_pwait2 on x86-64."""
_EPOLL_CTL_MOD: Final = 3
_EPOLLIN, _EPOLLET = 0x1, 1 << 31
_CLOCK_MONOTONIC: Final = 1


class _Event(ctypes.Structure):
    """A struct epoll_event, which is packed on x86-64 alone."""

    _pack_ = 1
    _fields_ = (("events", ctypes.c_uint32), ("data", ctypes.c_uint64))


class _TimerSpec(ctypes.Structure):
    """A struct itimerspec: interval, then first time; seconds and nanoseconds of each."""

    _fields_ = tuple((name, ctypes.c_long) for name in ("every_s", "every_ns", "first_s", "first_ns"))


def look_for_signals_rarely() -> bool:
    """Slow down the looks of this process's main thread, if it waits in epoll for a timer right now. Return
    whether that was so; False changes nothing. Call it from another thread."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return False
    waiting = _awaited_timer()
    if waiting is None:
        return False
    epoll, timer, data = waiting
    libc = ctypes.CDLL(None, use_errno=True)
    unheard = libc.timerfd_create(_CLOCK_MONOTONIC, os.O_CLOEXEC | os.O_NONBLOCK)
    if unheard < 0:
        return False
    try:
        # Nobody reads the timer, so that it must wake the thread by going off, not by having done so.
        event = _Event(_EPOLLIN | _EPOLLET, data)
        if libc.epoll_ctl(epoll, _EPOLL_CTL_MOD, timer, ctypes.byref(event)) != 0:
            return False
        heard = os.dup(timer)  # epoll goes on watching it under the number that it had
        os.dup2(unheard, timer, inheritable=False)
    finally:
        os.close(unheard)
    every = _TimerSpec(LOOK_INTERVAL_S, 0, LOOK_INTERVAL_S, 0)
    return bool(libc.timerfd_settime(heard, 0, ctypes.byref(every), None) == 0)


def _awaited_timer() -> tuple[int, int, int] | None:
    """Return the epoll descriptor in which the main thread waits, the one timer in it, and what epoll hands
    out with that; None if it is not so."""
    process = Path("/proc/self")
    try:
        number, first_argument, *_ = (process / "task" / str(os.getpid()) / "syscall").read_text().split()
        if number not in _SYSCALLS_OF_EPOLL:
            return None
        epoll = int(first_argument, 16)
        # Lines "tfd: <descriptor> events: <bits> data: <hexadecimal> ..."
        watched = [line.split() for line in (process / "fdinfo" / str(epoll)).read_text().splitlines()]
        timers = [
            (epoll, int(fields[1]), int(fields[5], 16))
            for fields in watched
            if fields[0] == "tfd:" and (process / "fd" / fields[1]).readlink().name.endswith("[timerfd]")
        ]
    except (OSError, ValueError, IndexError):
        return None  # the thread runs, or this system tells less
    return timers[0] if len(timers) == 1 else None
