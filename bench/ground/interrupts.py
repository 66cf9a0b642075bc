"""SIGTERM is taken as Ctrl-C: what was started is stopped before the process ends."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

ENDING: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def terminable() -> Iterator[None]:
    """Take SIGTERM as Ctrl-C within. In an event loop Ctrl-C cancels what the loop runs; an exception that a
    handler raises there would only end the connection whose turn it was."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        signal.raise_signal(signal.SIGINT)

    before = {
        signal.SIGTERM: signal.signal(signal.SIGTERM, interrupt),
        # Shells start what runs in the background with Ctrl-C ignored.
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def stay_terminable() -> None:
    """Set our handlers again after a library has replaced them: those of Ray end the process at once."""
    if threading.current_thread() is threading.main_thread():
        for number in ENDING:
            if (handler := signal.getsignal(number)) is not None:
                signal.signal(number, handler)


@contextmanager
def deaf() -> Iterator[None]:
    """Ignore Ctrl-C within, while things are stopped: an impatient user must not leave half of them
    running."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread handles signals
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
