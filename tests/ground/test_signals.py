"""A thread that waits in epoll for a timer that it sets anew after each look, as Ray's does."""

from __future__ import annotations

import platform
import subprocess
import sys
from textwrap import dedent

import pytest

LIKE_RAYS_WORKER = """
    import ctypes, os, select, struct, threading, time
    from actors.ground.signals import look_for_signals_rarely

    libc = ctypes.CDLL(None)
    timer = libc.timerfd_create(1, os.O_CLOEXEC | os.O_NONBLOCK)
    epoll = select.epoll()
    epoll.register(timer, select.EPOLLIN)
    wake, told = os.pipe()
    epoll.register(wake, select.EPOLLIN)
    soon = struct.pack("llll", 0, 0, 0, 10_000_000)
    looks, slowed = [], []

    def look_rarely():
        while not look_for_signals_rarely():
            time.sleep(0.001)
        slowed.append(len(looks))
        time.sleep(2.5)
        os.write(told, b"x")

    threading.Thread(target=look_rarely, daemon=True).start()
    libc.timerfd_settime(timer, 0, soon, None)
    while (wake, select.EPOLLIN) not in (ready := epoll.poll()):
        looks.append(ready)
        libc.timerfd_settime(timer, 0, soon, None)
    print(len(looks) - slowed[0])
"""


def run(program: str) -> str:
    command = [sys.executable, "-c", dedent(program)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.mark.skipif(platform.machine() != "x86_64", reason="epoll's events are looked into on x86-64 alone")
def test_the_main_thread_looks_once_a_second_and_still_hears_what_else_there_is() -> None:
    assert 1 <= int(run(LIKE_RAYS_WORKER)) <= 4, "two and a half seconds have passed"


def test_a_process_that_waits_for_no_timer_is_left_alone() -> None:
    program = "from actors.ground.signals import look_for_signals_rarely as look; print(look())"
    assert run(program) == "False\n"
