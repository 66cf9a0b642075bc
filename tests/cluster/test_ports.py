"""Free ports of several processes that ask at the same time."""

from __future__ import annotations

import contextlib
import socket
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from cluster.ports import FIRST_PORT, LAST_PORT, free_ports


def asked_for(count: int) -> list[int]:
    return [port for _ in range(20) for first in [free_ports(count)] for port in range(first, first + count)]


def test_nobody_is_given_what_another_process_was_given_just_now() -> None:
    """Tests of two processes once had the same port: a tier needs seconds until it listens on its own."""
    with ProcessPoolExecutor(3, mp_context=get_context("spawn")) as pool:
        found = [port for ports in pool.map(asked_for, (1, 2, 3)) for port in ports]
    assert len(found) == len(set(found)) == 120


@pytest.mark.parametrize("written", ["", "nonsense", str(LAST_PORT), str(FIRST_PORT - 1)])
def test_ports_begin_again_when_the_last_ones_were_given(
    written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    free_ports(1)
    [file] = tmp_path.iterdir()
    file.write_text(written)
    first = free_ports(3)
    assert FIRST_PORT <= first < FIRST_PORT + 100


def test_a_port_on_which_somebody_listens_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    free_ports(1)
    [file] = tmp_path.iterdir()
    with socket.socket() as taken:
        port = bound(taken)
        file.write_text(str(port))
        first = free_ports(2)
        assert port not in (first, first + 1)


def bound(listener: socket.socket) -> int:
    """Bind to the first port that nobody has, tiers of other tests among them, and return it."""
    for port in range(FIRST_PORT, LAST_PORT):
        with contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port
    raise AssertionError("every port is taken")
