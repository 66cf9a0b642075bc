"""The judge itself: each broken promise is noticed, and what a crash may do is not called broken."""

from __future__ import annotations

import pytest

from tests.faults.history import History, Violation


def _history() -> History:
    """A history of two pairs: 1 to 4 were acknowledged, the outcome of 5 is unknown."""
    history = History("billing", 2)
    for _ in range(4):
        history.begin_commit()
        history.acknowledge()
    assert history.begin_commit() == {2: 5, 3: 5}
    return history


def _offsets(first: int, first_twin: int, second: int, second_twin: int) -> dict[int, int]:
    return {0: first, 1: first_twin, 2: second, 3: second_twin}


@pytest.mark.parametrize("odd", [3, 5])
def test_commit_of_unknown_outcome_may_or_may_not_have_happened(odd: int) -> None:
    history = _history()
    history.end_read(history.begin_read(), _offsets(4, 4, odd, odd))
    assert history.begin_commit() == {2: 5, 3: 5}, "it is sent again"


@pytest.mark.parametrize(
    ("offsets", "verdict"),
    [
        (_offsets(2, 2, 3, 3), "commit lost"),
        (_offsets(2, 2, 5, 5), "commit lost"),
        ({}, "commit lost"),
        (_offsets(4, 4, 7, 7), "commit lost"),
        (_offsets(6, 6, 5, 5), "commit invented"),
        (_offsets(4, 4, 3, 5), "commit torn"),
        ({0: 4, 1: 4, 2: 5}, "commit torn"),
    ],
)
def test_broken_promise_is_named(offsets: dict[int, int], verdict: str) -> None:
    history = _history()
    with pytest.raises(Violation, match=verdict):
        history.end_read(history.begin_read(), offsets)


def test_what_one_read_has_found_no_later_read_may_miss() -> None:
    history = _history()
    early = history.begin_read()
    history.end_read(history.begin_read(), _offsets(4, 4, 5, 5))
    history.end_read(early, _offsets(4, 4, 3, 3))
    with pytest.raises(Violation, match="commit lost"):
        history.end_read(history.begin_read(), _offsets(4, 4, 3, 3))


def test_nothing_has_to_be_there_before_anything_was_acknowledged() -> None:
    history = History("billing", 2)
    history.end_read(history.begin_read(), {})
    history.begin_commit()
    history.end_read(history.begin_read(), {2: 1, 3: 1})
