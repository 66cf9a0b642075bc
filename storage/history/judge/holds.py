"""Times in which a member definitely held a partition: what both protocols' rules are told in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from storage.history.calls import Call, Partitions

Partition = tuple[str, int]


class Hold(NamedTuple):
    """The time for which one owner holds one partition."""

    since_us: int
    until_us: int
    owner: str
    """The owner's instance id, which outlives a member id; else its member id."""
    told: Call
    """The call whose answer assigned the partition."""


def owner_of(call: Call) -> str:
    """Who owns what `call` says: a static member stays itself when it restarts with another member id."""
    return call.group_instance_id or call.member_id


def flat(partitions: Partitions) -> Iterator[Partition]:
    """Yield each partition with its topic."""
    for topic, numbers in partitions:
        for number in numbers:
            yield topic, number


_ANSWERED, _SENT, _ANSWERED_AT_ONCE = range(3)
"""The order in which what happens within one microsecond is looked at."""


def turns(calls: Sequence[Call]) -> Iterator[tuple[int, bool, Call]]:
    """The moments of one member in the order of time: when, whether a call was sent (or answered), which.
    What a client sends in the microsecond of an answer it sends because of it."""
    events = [(call.sent_us, _SENT, number) for number, call in enumerate(calls)]
    for number, call in enumerate(calls):
        if call.is_answered:
            order = _ANSWERED if call.sent_us < call.ended_us else _ANSWERED_AT_ONCE
            events.append((call.ended_us, order, number))
    for at_us, order, number in sorted(events):
        yield at_us, order == _SENT, calls[number]
