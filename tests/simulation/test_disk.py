"""The disk of the simulation forgets what a real one may forget, and no more."""

from __future__ import annotations

import random

import pytest

from tests.simulation.disk import SimDisk


def _begun() -> tuple[SimDisk, str]:
    disk, path = SimDisk(random.Random(1)), "journal/1"
    file = disk.open_append(path)
    file.append(b"old")
    file.sync()
    disk.sync_directory("journal")
    return disk, path


def _fail_a_sync(disk: SimDisk, path: str, *waits: bytes) -> None:
    file = disk.open_append(path)
    for content in waits:
        file.append(content)
    disk.failing = True
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    disk.failing = False


def test_what_waits_for_a_failed_sync_is_not_safe_with_the_next_one() -> None:
    disk, path = _begun()
    _fail_a_sync(disk, path, b"new")
    disk.open_append(path).sync()
    assert disk.surviving()[path] == b"old"


def test_a_failed_sync_that_nothing_waits_for_costs_nothing_that_comes_later() -> None:
    disk, path = _begun()
    _fail_a_sync(disk, path)
    file = disk.open_append(path)
    file.append(b"new")
    file.sync()
    assert disk.surviving()[path] == b"oldnew"
