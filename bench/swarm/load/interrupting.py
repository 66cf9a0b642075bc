"""Lets Ctrl-C interrupt the main greenlet alone, in a process full of greenlets.

Python raises KeyboardInterrupt in whatever runs at that moment. That may be a member which has just sent a
commit and not yet written it down: the final reader would then find an offset that nobody has committed.
"""

from __future__ import annotations

import signal

import gevent


def interrupt_main_alone() -> None:
    """Have Ctrl-C interrupt the main greenlet alone from now on, also where a shell has started this
    process with Ctrl-C ignored, as it does in the background."""
    gevent.signal_handler(signal.SIGINT, _interrupt)


def _interrupt() -> None:
    gevent.get_hub().handle_system_error(KeyboardInterrupt, KeyboardInterrupt())
