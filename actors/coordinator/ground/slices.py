"""Work too long for one piece, cut into slices between which requests are served (`Result.work`)."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from actors.coordinator.ground.state import ShardState
from actors.ground.contract import NOTHING, Result

SLICE_MAX = 1_000
"""How many members, groups or offsets a slice has, at some microseconds each."""
AT_ONCE_MAX = 2 * SLICE_MAX
"""How many are done in one piece, so that the answer leaves at once."""

_T = TypeVar("_T")


def sliced(items: Iterable[_T]) -> Iterator[list[_T]]:
    """The items, in lists of SLICE_MAX."""
    left = iter(items)
    while slice_of := list(islice(left, SLICE_MAX)):
        yield slice_of


def at_once(work: Iterator[Result]) -> Result:
    """Do all of the work in one piece."""
    results = list(work)
    return Result(
        [record for result in results for record in result.records],
        [reply for result in results for reply in result.replies],
        [event for result in results for event in result.events],
    )


def begun(work: Iterator[Result], size: int) -> Result:
    """Begin work on `size` members, groups or offsets: few are done at once, many in slices."""
    return at_once(work) if size <= AT_ONCE_MAX else Result(work=work)


def withheld(work: Iterator[Result]) -> Iterator[Result]:
    """Do all of the work in its slices before anything that it has decided is given."""
    results: list[Result] = []
    for result in work:
        results.append(result)
        yield NOTHING
    yield from results


def group_members(state: ShardState) -> int:
    """Groups and members of the shard, counted no further than it takes to know that they are many."""
    count = 0
    for kept in state.of.values():
        if count <= AT_ONCE_MAX:
            count += kept.count()
    return count


def whole(work: Generator[Result, None, _T]) -> _T:
    """Do work that decides nothing in one piece, and give what it returns."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            value: _T = end.value
            return value
