"""Members of one group are alike: what they have in common is kept once.

Client ids, addresses, timeouts, assignors and subscriptions come in each member's own request or record, and
would else be kept as often as there are members (on every replica).
"""

from __future__ import annotations

from typing import Any, TypeVar

from actors.ground.records import TopicPartitions

_V = TypeVar("_V", bound=tuple[Any, ...])


def alike(value: _V, other: _V | None) -> _V:
    """Make `value` of the same objects as `other` wherever the two are equal. Both are NamedTuples of one
    class."""
    if other is None or len(value) != len(other):
        return value
    if value == other:
        return other
    new: Any = tuple.__new__
    shared: _V = new(type(value), [b if a == b else a for a, b in zip(value, other, strict=True)])
    return shared


def alike_topics(value: TopicPartitions, other: TopicPartitions) -> TopicPartitions:
    """Make an assignment of the same topic ids as `other`, if the two have equally many topics."""
    if len(value) != len(other):
        return value
    return tuple([(b[0], a[1]) if a[0] == b[0] else a for a, b in zip(value, other, strict=True)])
