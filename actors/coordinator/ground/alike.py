"""What is alike is kept once.

Client ids, addresses, timeouts, assignors, subscriptions and assignments come in each member's own request or
record, and would else be kept as often as there are members (on every replica). Members of one group are
`alike`, whatever they have. Across groups what is small is `shared`: by tables of the process that hold so
many values and no more, of which the one that was asked for longest ago gives way. A value that has left its
table is kept by those who have it, and the next equal one beside it: that costs memory and changes nothing.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, TypeVar

from actors.ground.contract import new_tuple
from actors.ground.records import TopicPartitions

SHARED_MAX: Final = 2_048
"""How many values a table has."""
SHARED_CHARS_MAX: Final = 256
"""How long a text, or an array of partitions, is at most that is shared."""
SHARED_ITEMS_MAX: Final = 8
"""How many topics a subscription or an assignment has at most that is shared."""
_V = TypeVar("_V", bound=tuple[Any, ...])


@lru_cache(maxsize=SHARED_MAX)
def _texts(text: str) -> str:
    return text


@lru_cache(maxsize=SHARED_MAX)
def shared_id(topic_id: bytes) -> bytes:
    """Return a topic's id, of the object that others have."""
    return topic_id


@lru_cache(maxsize=SHARED_MAX)
def _assignments(assignment: TopicPartitions) -> TopicPartitions:
    return _with_shared_ids(assignment)


@lru_cache(maxsize=SHARED_MAX)
def shared(value: Any) -> Any:
    """Return the one value that all share who have an equal one. To be asked only for small values, and of a
    class whose values equal no other class's."""
    return value


def shared_text(text: str) -> str:
    """Return a text that others may have too, of their object."""
    return _texts(text) if len(text) <= SHARED_CHARS_MAX else text


def shared_bytes(value: bytes) -> bytes:
    """Return bytes that others may have too, of their object."""
    return shared(value) if len(value) <= SHARED_CHARS_MAX else value


def shared_topics(value: TopicPartitions) -> TopicPartitions:
    """Return an assignment of the objects that others have: as a whole if it is small, else its topic ids."""
    if len(value) <= SHARED_ITEMS_MAX and all(len(packed) <= SHARED_CHARS_MAX for _, packed in value):
        return _assignments(value)
    return _with_shared_ids(value)


def _with_shared_ids(value: TopicPartitions) -> TopicPartitions:
    return tuple([(shared_id(topic_id), packed) for topic_id, packed in value])


def are_small(texts: tuple[str, ...]) -> bool:
    """Whether these texts are so few and so short that a table may keep them."""
    return len(texts) <= SHARED_ITEMS_MAX and all(len(text) <= SHARED_CHARS_MAX for text in texts)


def alike(value: _V, other: _V | None) -> _V:
    """Make `value` of the same objects as `other` wherever the two are equal. Both are NamedTuples of one
    class."""
    if other is None or len(value) != len(other):
        return value
    if value == other:
        return other
    same: _V = new_tuple(type(value), [b if a == b else a for a, b in zip(value, other, strict=True)])
    return same
