"""Names of threads, as the kernel shows them: they say whose wake-ups are whose (`groupd bench idle`)."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

LOOP_NAME: Final = "groupd loop"
"""The name of the thread of an actor's loop, and of those that it starts."""


def name_this_thread(name: str) -> None:
    """Name the thread that calls, in at most 15 characters, and those that it starts from now on. Where there
    is no such thing nothing happens."""
    with contextlib.suppress(OSError):
        Path("/proc/thread-self/comm").write_text(name)
