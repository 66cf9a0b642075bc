"""Ctrl-C ends a swarm between two steps of its members, never in the middle of one."""

from __future__ import annotations

import subprocess
import sys

PROCESS = """
import os, signal, time
import gevent
from bench.swarm.load.interrupting import interrupt_main_alone

interrupt_main_alone()
heard = []

def member():
    try:
        until = time.monotonic() + 0.2
        os.kill(os.getpid(), signal.SIGINT)
        while time.monotonic() < until:
            pass
        heard.append("nothing")
    except KeyboardInterrupt:
        heard.append("Ctrl-C")

try:
    gevent.spawn(member)
    gevent.sleep(10)
except KeyboardInterrupt:
    print("main heard Ctrl-C, the member", *heard)
"""


def test_a_member_at_work_is_not_interrupted() -> None:
    """A commit that was sent and not yet written down was later taken for an invented one."""
    done = subprocess.run([sys.executable, "-c", PROCESS], capture_output=True, text=True, timeout=60)
    assert done.stdout == "main heard Ctrl-C, the member nothing\n", done.stderr
