"""The memory of large first frames: who may read on, who waits, and who makes room for others."""

from __future__ import annotations

import random

import pytest

from actors.network.first_frames import PROGRESS_BYTES_MIN, STALLED, FirstFrames

BUDGET_BYTES = 1_000_000


class Reader:
    """A connection that has claimed a frame, and reads as much of it as the test says."""

    def __init__(self, frames: FirstFrames, size_bytes: int) -> None:
        self.frames = frames
        self.read_bytes = 0
        self.size_bytes = size_bytes
        self.closed: str | None = None
        self.reads = frames.claim(self, size_bytes)

    def read_on(self) -> None:
        assert not self.reads
        self.reads = True

    def close(self, reason: str | None = None) -> None:
        self.closed = reason
        self.frames.give_back(self)


@pytest.fixture
def frames() -> FirstFrames:
    return FirstFrames(BUDGET_BYTES)


def test_what_does_not_fit_waits_until_it_does(frames: FirstFrames) -> None:
    first, second = Reader(frames, 700_000), Reader(frames, 400_000)
    assert (first.reads, second.reads) == (True, False)
    frames.give_back(first)
    assert second.reads
    frames.give_back(second)
    assert frames.claimed_bytes == 0


def test_the_smallest_that_waits_is_next_and_of_equals_the_first(frames: FirstFrames) -> None:
    first = Reader(frames, BUDGET_BYTES)
    large, *small = (Reader(frames, size_bytes) for size_bytes in (900_000, 300_000, 300_000))
    frames.give_back(first)
    assert [large.reads, *(each.reads for each in small)] == [False, True, True]
    frames.give_back(small[0])
    assert not large.reads


def test_whoever_is_gone_waits_no_longer(frames: FirstFrames) -> None:
    first, gone, third = (Reader(frames, 800_000) for _ in range(3))
    frames.give_back(gone)
    frames.give_back(first)
    assert (gone.reads, third.reads) == (False, True)


def test_whoever_does_not_come_on_makes_room_for_those_who_wait(frames: FirstFrames) -> None:
    stalled, moving = Reader(frames, 600_000), Reader(frames, 400_000)
    waiting = Reader(frames, 500_000)
    frames.sweep()
    stalled.read_bytes += PROGRESS_BYTES_MIN - 1
    moving.read_bytes += PROGRESS_BYTES_MIN
    frames.sweep()
    assert (stalled.closed, moving.closed, waiting.reads) == (STALLED, None, True)


def test_the_largest_goes_first_and_nobody_goes_when_nobody_waits_any_more(frames: FirstFrames) -> None:
    small, large = Reader(frames, 300_000), Reader(frames, 700_000)
    waiting = Reader(frames, 500_000)
    for _ in range(2):
        frames.sweep()
    assert (large.closed, small.closed, waiting.reads) == (STALLED, None, True)


def test_whoever_does_not_come_on_is_left_alone_while_nobody_waits(frames: FirstFrames) -> None:
    slow = Reader(frames, BUDGET_BYTES)
    for _ in range(10):
        frames.sweep()
    assert slow.closed is None


def test_who_has_just_begun_has_the_time_between_two_sweeps(frames: FirstFrames) -> None:
    began, waiting = Reader(frames, BUDGET_BYTES), Reader(frames, 500_000)
    frames.sweep()
    assert (began.closed, waiting.reads) == (None, False)


def test_the_budget_is_kept_and_everybody_comes_to_an_end_whatever_happens() -> None:
    for seed in range(30):
        chance = random.Random(seed)
        frames = FirstFrames(BUDGET_BYTES)
        readers: list[Reader] = []
        for _ in range(300):
            match chance.randrange(4):
                case 0:
                    readers.append(Reader(frames, chance.randrange(20_000, BUDGET_BYTES)))
                case 1 if readers:
                    frames.give_back(readers.pop(chance.randrange(len(readers))))
                case 2:
                    frames.sweep()
                case _:
                    for reader in readers:
                        reader.read_bytes += chance.choice((0, PROGRESS_BYTES_MIN)) if reader.reads else 0
            readers = [reader for reader in readers if reader.closed is None]
            assert frames.claimed_bytes == sum(reader.size_bytes for reader in readers if reader.reads)
            assert frames.claimed_bytes <= BUDGET_BYTES, f"seed {seed}"
            least = min((reader.size_bytes for reader in readers if not reader.reads), default=BUDGET_BYTES)
            assert frames.claimed_bytes + least > BUDGET_BYTES or all(each.reads for each in readers)
        for _ in range(2 * len(readers) + 2):
            frames.sweep()
        assert all(reader.reads or reader.closed for reader in readers), f"seed {seed}"
