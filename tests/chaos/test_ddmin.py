"""The fewest faults that still fail, of made-up failures."""

from __future__ import annotations

from itertools import combinations

import pytest

from bench.chaos.ddmin import Places, fewest


@pytest.mark.parametrize(
    "cause", [*combinations(range(7), 1), *combinations(range(7), 2), (0, 3, 6), (1, 2, 5)]
)
def test_exactly_the_faults_that_are_needed_together_are_left(cause: Places) -> None:
    found = fewest(7, lambda some: set(cause) <= set(some))
    assert found == (cause, True)


def test_one_of_many_is_found_in_few_trials() -> None:
    asked: list[Places] = []

    def fails(some: Places) -> bool:
        asked.append(some)
        return 41 in some

    assert fewest(64, fails).kept == (41,)
    assert len(asked) <= 12
    assert all(asked), "without any fault nothing is tried"
    assert len(set(asked)) == len(asked), "nothing is tried twice"


def test_either_of_two_causes_is_enough() -> None:
    found = fewest(8, lambda some: 2 in some or 6 in some)
    assert found.is_minimal
    assert found.kept in ((2,), (6,))


def test_a_failure_that_shows_only_sometimes_leaves_what_was_seen_to_fail() -> None:
    """A trial that passes by chance costs smallness, never truth."""
    shown: list[Places] = []

    def fails(some: Places) -> bool:
        if {1, 4} <= set(some) and hash(some) % 3:
            shown.append(some)
            return True
        return False

    found = fewest(6, fails)
    assert {1, 4} <= set(found.kept)
    assert found.kept == (shown[-1] if shown else tuple(range(6)))


def test_it_stops_when_it_is_told_to_and_says_so() -> None:
    left = iter([True, True, True])
    found = fewest(32, lambda some: 9 in some, lambda: next(left, False))
    assert not found.is_minimal
    assert 9 in found.kept
    assert len(found.kept) < 32


def test_what_cannot_be_shrunk_stays() -> None:
    assert fewest(4, lambda some: len(some) == 4) == ((0, 1, 2, 3), True)
    assert fewest(1, lambda some: True) == ((0,), True)
