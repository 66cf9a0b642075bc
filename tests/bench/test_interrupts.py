"""How a benchmark is ended before its time."""

from __future__ import annotations

import signal

import pytest

from bench.ground.interrupts import deaf, terminable


def handlers() -> list[object]:
    return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


def test_sigterm_ends_as_ctrl_c_does() -> None:
    before = handlers()
    with pytest.raises(KeyboardInterrupt), terminable():
        signal.raise_signal(signal.SIGTERM)
    assert handlers() == before


def test_a_shell_that_ignores_ctrl_c_in_the_background_does_not_matter() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt), terminable():
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, before)


def test_nobody_is_disturbed_in_stopping_things() -> None:
    before = handlers()
    with deaf():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
    assert handlers() == before
