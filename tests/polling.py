"""Waiting for what will happen: look, give the processor away, look again, until a deadline."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from typing import Any

DEADLINE_S = 30.0
"""Deadline for what takes milliseconds on a quiet machine."""
THREAD_PAUSE_S = 0.02
LOOP_PAUSE_S = 0.001


def until(holds: Callable[[], Any], what: str, deadline_s: float = DEADLINE_S) -> Any:
    """Poll until `holds()` is true and return it; fails naming `what` otherwise."""
    deadline = time.monotonic() + deadline_s
    while not (value := holds()):
        assert time.monotonic() < deadline, f"not within {deadline_s:g} s: {what}"
        signal.sigtimedwait([], THREAD_PAUSE_S)
    return value


async def reached(holds: Callable[[], Any], what: str = "", deadline_s: float = DEADLINE_S) -> None:
    """Let the loop turn until `holds()` is true; fails naming `what` otherwise."""
    deadline = time.monotonic() + deadline_s
    while not holds():
        assert time.monotonic() < deadline, f"not within {deadline_s:g} s: {what or 'what was waited for'}"
        await asyncio.sleep(LOOP_PAUSE_S)


async def passed(seconds: float) -> None:
    """Let time pass, in stories about what must not happen."""
    end = time.monotonic() + seconds
    await reached(lambda: time.monotonic() >= end, deadline_s=seconds + DEADLINE_S)
