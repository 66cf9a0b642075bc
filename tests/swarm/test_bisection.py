"""The largest load that is kept, on made-up servers: the search is right, quick, and not fooled by noise."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from bench.swarm.runs.bisection import Found, Range, Tried, found, next_load

Server = Callable[[int], bool]
PROBES_MAX = 24


def searched(wanted: Range, server: Server, nearest: Callable[[int], int] = lambda load: load) -> list[Tried]:
    tried: list[Tried] = []
    while (load := next_load(wanted, tried, nearest)) is not None:
        tried.append(Tried(load, server(load)))
        assert len(tried) <= PROBES_MAX, f"it does not end: {tried}"
    return tried


@pytest.mark.parametrize("capacity", [100, 101, 150, 777, 1_600, 5_000, 19_999])
def test_the_answer_is_within_the_tolerance_of_what_the_server_can_do(capacity: int) -> None:
    wanted = Range(100, 20_000)
    tried = searched(wanted, lambda load: load <= capacity)
    kept, failed = found(tried)
    assert kept is not None
    assert failed is not None
    assert kept.load <= capacity < failed.load
    assert failed.load - kept.load <= max(1, wanted.tolerance * kept.load)


def test_loads_double_until_one_fails_and_then_close_in() -> None:
    tried = searched(Range(100, 20_000), lambda load: load <= 1_000)
    assert [each.load for each in tried] == [
        100,
        200,
        400,
        800,
        1_600,
        1_600,
        1_200,
        1_200,
        1_000,
        1_100,
        1_100,
    ]


def test_a_server_that_keeps_the_most_is_not_asked_for_more() -> None:
    tried = searched(Range(100, 1_000), lambda load: True)
    assert [each.load for each in tried] == [100, 200, 400, 800, 1_000]
    assert found(tried) == Found(Tried(1_000, True), None)


def test_a_server_that_fails_the_least_is_tried_twice_and_nothing_is_kept() -> None:
    tried = searched(Range(100, 1_000), lambda load: False)
    assert tried == [Tried(100, False), Tried(100, False)]
    assert found(tried) == Found(None, Tried(100, False))


def test_one_failure_by_noise_is_tried_again_and_not_believed() -> None:
    answers = iter([True, False, True])
    tried = searched(Range(100, 200), lambda load: next(answers))
    assert [(each.load, each.is_kept) for each in tried] == [(100, True), (200, False), (200, True)]
    assert found(tried) == Found(Tried(200, True), None)


def test_a_broken_promise_is_believed_at_once() -> None:
    tried = [Tried(100, True), Tried(200, False, "commits are lost", is_certain=True)]
    assert next_load(Range(100, 1_000), tried) == 150
    assert found(tried).failed == tried[1]


def test_a_noisy_server_is_found_nearly_right() -> None:
    """The server's capacity differs by ten percent from probe to probe."""
    for seed in range(200):
        chance = Random(seed)

        def serves(load: int, chance: Random = chance) -> bool:
            return load <= chance.uniform(0.9, 1.1) * 3_000

        kept = found(searched(Range(100, 20_000), serves)).kept
        assert kept is not None
        assert 0.8 * 3_000 <= kept.load <= 1.1 * 3_000, seed


def test_loads_that_cannot_be_had_are_not_asked_for() -> None:
    """Groups of five members: there are no 103 members."""
    tried = searched(Range(7, 90), lambda load: load <= 33, lambda load: max(5, load // 5 * 5))
    assert all(each.load % 5 == 0 for each in tried)
    kept, failed = found(tried)
    assert kept is not None
    assert failed is not None
    assert (kept.load, failed.load) == (30, 35)
