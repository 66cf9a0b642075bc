"""What the authorizer leaves of a request, and how its whole answer is put together again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

Finish = Callable[[Any], Any]
"""A function from the answer to what was left of the request (None: nothing was) to the whole answer."""


class Screened(NamedTuple):
    """A request after the authorizer has looked at it."""

    body: Any | None
    """What may be served of the request; None: nothing, and `finish(None)` is the answer."""
    finish: Finish | None = None
    """What completes the answer; None: it is complete as it is."""


def refused(answer: Any) -> Screened:
    """Screen a request of which nothing may be served, and which `answer` answers."""
    return Screened(None, lambda _: answer)


def parted(entries: Iterable[T], allowed: Callable[[T], bool]) -> tuple[tuple[T, ...], tuple[T, ...]]:
    """Return the entries that are allowed and the others, both in order."""
    yes: list[T] = []
    no: list[T] = []
    for entry in entries:
        (yes if allowed(entry) else no).append(entry)
    return tuple(yes), tuple(no)
