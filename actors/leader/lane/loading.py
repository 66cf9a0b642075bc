"""How a leader loads the lane: beside its work."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from actors.leader.lane.sockets import Lane

log = logging.getLogger("groupd.lane")

COMPILING_S_MAX: Final = 600.0
"""How long the compiling process may take, in seconds, on a machine that has much else to do."""
LOOK_INTERVAL_S: Final = 0.2
COMPILE: Final = "from actors.leader.lane.compiled import main; main()"

NewLane = Callable[..., "Lane"]
"""What makes a lane of a host, its server, and what holds heartbeats there."""


def load(stopped: Event) -> NewLane | None:
    """Load the compiled function, and return what makes a lane; None if it cannot be had, or this process
    ends. A worker thread calls this.

    It is compiled by a process of its own, with low priority: numba would keep this one's loop from
    running. Where it is compiled already, that process has nothing to do.
    """
    try:
        code = _compiled(stopped)
    except OSError as error:
        log.warning("heartbeats are not answered by compiled code: no process can be started: %s", error)
        return None
    if code:
        advice = "can numba write its cache (NUMBA_CACHE_DIR)?"
        log.warning("heartbeats are not answered by compiled code: compiling ended with %s; %s", code, advice)
    if code != 0:
        return None
    from actors.leader.lane import compiled, sockets  # here, because only such leaders need numpy and numba

    repeat = compiled.compile_repeat()
    log.info("heartbeats that repeat are answered by compiled code")
    return partial(sockets.Lane, repeat=repeat)


def _compiled(stopped: Event) -> int | None:
    """Return how the compiling process ended; None: it was ended, because this one ends."""
    until = time.monotonic() + COMPILING_S_MAX
    with subprocess.Popen([sys.executable, "-c", COMPILE], stdin=subprocess.DEVNULL) as child:
        while child.poll() is None:
            if stopped.wait(LOOK_INTERVAL_S) or time.monotonic() > until:
                child.kill()
    return None if stopped.is_set() else child.returncode
