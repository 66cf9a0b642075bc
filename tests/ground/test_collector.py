"""The collector leaves out what has survived a full collection, and young garbage still goes."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from actors.coordinator.ground.timers import Timers
from actors.ground import collector


class Node:
    """An object that refers to itself, so that only the garbage collector frees it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def short_collections() -> Iterator[None]:
    thresholds, callbacks = gc.get_threshold(), list(gc.callbacks)
    collector.keep_collections_short()
    yield
    gc.set_threshold(*thresholds)
    gc.callbacks[:] = callbacks
    gc.unfreeze()


def test_a_survivor_is_looked_at_once() -> None:
    kept = Node()
    assert any(each is kept for each in gc.get_objects())
    gc.collect()
    assert not any(each is kept for each in gc.get_objects())


def test_a_young_cycle_is_collected() -> None:
    gone = weakref.ref(Node())
    gc.collect()
    assert gone() is None


def test_timers_stay_left_out_when_more_of_them_come() -> None:
    """A plain dict would come back as a young object, and be gone through in each collection."""
    timers = Timers()
    timers.schedule(("kind", "group", "first"), 1_000)
    gc.collect()
    for number in range(100):
        timers.schedule(("kind", "group", str(number)), 1_000)
    tables = [each for each in gc.get_objects() if isinstance(each, dict) and ("kind", "group", "7") in each]
    assert tables == []
