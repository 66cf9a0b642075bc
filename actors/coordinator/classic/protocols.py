"""What members of a classic group offer, and what the group makes of it: the vote and the subscriptions.

The bytes of a protocol are opaque, save for one use: where the protocol type is "consumer", the topics
of the members' subscriptions say whose offsets may be deleted or expire (O12, O14).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

from actors.protocol.consumer_protocol import read_subscribed_topics
from actors.protocol.errors import MalformedRequest
from actors.protocol.java_hash import java_hash

CONSUMER_PROTOCOL_TYPE = "consumer"

Protocols = tuple[tuple[str, bytes], ...]
"""(name, metadata) in a member's order of preference."""

KEPT_BYTES_MAX = 1_024
KEPT_MAX = 256
"""Subscriptions of that size and so many are kept as read, for groups of one application subscribe alike."""
_HASH_TABLE_SIZE = 16
_HASH_TABLE_LOAD = 0.75


def offered_names(protocols: Protocols) -> tuple[str, ...]:
    """The names that count for a member. One that it lists twice drops out (C15)."""
    if len(protocols) == 1:
        return (protocols[0][0],)
    names = [name for name, _ in protocols]
    if len(set(names)) == len(names):
        return tuple(names)
    times = Counter(names)
    return tuple(name for name in names if times[name] == 1)


def winner(votes: Iterable[str]) -> str:
    """The name with most votes. A tie falls to Java's HashMap order, as in Kafka (C15), so that
    a group keeps its assignor when it moves here. There must be a vote."""
    counts = Counter(votes)
    assert counts, "a vote needs voters"
    size = _HASH_TABLE_SIZE
    while len(counts) > size * _HASH_TABLE_LOAD:
        size *= 2
    # The name last breaks ties inside a bucket; Kafka has the order of the votes there, which hangs on ids.
    return min(counts, key=lambda name: (-counts[name], _bucket(name, size), name))


def _bucket(name: str, size: int) -> int:
    """Where a java.util.HashMap keeps a string: hashCode, the high half mixed in."""
    code = java_hash(name) & 0xFFFFFFFF
    return (code ^ code >> 16) & (size - 1)


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics of a ConsumerProtocolSubscription of any version; None if the bytes are none.

    Read as version 0, which is the prefix of all later ones, as Kafka does; so a client newer than this
    code is understood (C29).
    """
    return _read(metadata) if len(metadata) > KEPT_BYTES_MAX else _kept(metadata)


@lru_cache(maxsize=KEPT_MAX)
def _kept(metadata: bytes) -> frozenset[str] | None:
    return _read(metadata)


def _read(metadata: bytes) -> frozenset[str] | None:
    try:
        return frozenset(read_subscribed_topics(metadata))
    except MalformedRequest:
        return None
