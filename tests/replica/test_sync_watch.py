"""The watch over the syncs for which the loop waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from actors.replica.sync_watch import SyncWatch
from tests.polling import until

AFTER_S = 0.05
DEADLINE_S = 20.0


class Watched:
    """A watch, and who it told of a sync that hangs."""

    def __init__(self) -> None:
        self.stuck = threading.Semaphore(0)
        self.told = 0
        self.watch = SyncWatch(AFTER_S, self._on_stuck)

    def _on_stuck(self) -> None:
        self.told += 1
        self.stuck.release()

    def hang(self) -> None:
        """Sync until the watch has told of it."""
        self.watch(self._wait)

    def _wait(self) -> None:
        assert self.stuck.acquire(timeout=DEADLINE_S)


@pytest.fixture
def watched() -> Iterator[Watched]:
    watched = Watched()
    yield watched
    watched.watch.close()


def test_each_sync_that_does_not_end_is_told_of_once(watched: Watched) -> None:
    watched.watch(lambda: None)
    watched.hang()
    assert watched.told == 1
    watched.watch(lambda: None)
    watched.hang()
    assert watched.told == 2


def test_a_quick_sync_is_not_told_of_however_late_the_watch_looks(watched: Watched) -> None:
    for _ in range(3):
        watched.watch(lambda: None)
        until(lambda: watched.watch._is_asleep, "the watch has looked and found nothing")
    assert watched.told == 0


def test_what_a_sync_raises_is_raised_and_the_loop_waits_no_more(watched: Watched) -> None:
    def fail() -> None:
        raise OSError("the disk fails")

    with pytest.raises(OSError, match="the disk fails"):
        watched.watch(fail)
    until(lambda: watched.watch._is_asleep, "the watch has looked and found nothing")
    assert watched.told == 0
