"""The embedded consumer protocol: what members of "consumer" groups put into JoinGroup and SyncGroup.

The protocol has two structures, versions 0 to 3 each, every version the prefix of the next: a member's
subscription (its metadata in JoinGroup) and its assignment. Clients make and read these bytes; a coordinator
does only where the two rebalance protocols meet (G2 to G4, G7) and for tools. A version above 3 is read as 3,
as Kafka does, so that a newer client is understood.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from actors.protocol.errors import MalformedRequest
from actors.protocol.wire import (
    CUT_SHORT,
    array_reader,
    bytes_reader,
    int32_array_reader,
    legacy_bytes,
    legacy_count,
    legacy_string,
    string_reader,
)

VERSION_MAX: Final = 3
OWNED_PARTITIONS_VERSION: Final = 1
GENERATION_ID_VERSION: Final = 2
RACK_ID_VERSION: Final = 3
NO_GENERATION: Final = -1

TopicNumbers = tuple[tuple[str, tuple[int, ...]], ...]
"""Topics and partitions in the sender's order: (topic name, partition numbers) of each."""

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_read_string: Final = string_reader(flexible=False, nullable=False)
_read_nullable_string: Final = string_reader(flexible=False, nullable=True)
_read_bytes: Final = bytes_reader(flexible=False, nullable=True)
_read_strings: Final = array_reader(_read_string, flexible=False, nullable=False)
_read_numbers: Final = int32_array_reader(flexible=False, nullable=False)


class Subscription(NamedTuple):
    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: TopicNumbers = ()
    """The partitions that a cooperative member has not given up, from version 1 on."""
    generation_id: int = NO_GENERATION
    """The generation in which the member owned them, from version 2 on."""
    rack_id: str | None = None
    """The member's rack, from version 3 on."""


class Assignment(NamedTuple):
    partitions: TopicNumbers
    user_data: bytes | None = None


def read_version(raw: bytes) -> int:
    """Return the version that the bytes are in, at most 3. Raises MalformedRequest."""
    if len(raw) < _INT16.size:
        raise MalformedRequest("an embedded consumer protocol without a version")
    version: int = _INT16.unpack_from(raw)[0]
    if version < 0:
        raise MalformedRequest(f"version {version} of the embedded consumer protocol")
    return min(version, VERSION_MAX)


def read_subscription(raw: bytes) -> Subscription:
    """Return the subscription in the bytes. What follows its last field is ignored. Raises
    MalformedRequest."""
    version = read_version(raw)
    owned: TopicNumbers = ()
    generation_id, rack_id = NO_GENERATION, None
    try:
        topics, at = _read_strings(raw, _INT16.size)
        user_data, at = _read_bytes(raw, at)
        if version >= OWNED_PARTITIONS_VERSION:
            owned, at = _read_topics(raw, at)
        if version >= GENERATION_ID_VERSION:
            generation_id, at = _INT32.unpack_from(raw, at)[0], at + _INT32.size
        if version >= RACK_ID_VERSION:
            rack_id, at = _read_nullable_string(raw, at)
    except CUT_SHORT as error:
        raise MalformedRequest("a subscription that is cut short") from error
    return Subscription(topics, user_data, owned, generation_id, rack_id)


def read_subscribed_topics(raw: bytes) -> tuple[str, ...]:
    """Return the topics of a subscription of any version, read as version 0, the prefix of all others. Raises
    MalformedRequest."""
    topics: tuple[str, ...]
    try:
        topics, at = _read_strings(raw, _INT16.size)
        _read_bytes(raw, at)
    except CUT_SHORT as error:
        raise MalformedRequest("a subscription that is cut short") from error
    return topics


def write_subscription(subscription: Subscription, version: int = VERSION_MAX) -> bytes:
    topics, user_data, owned, generation_id, rack_id = subscription
    parts = [_INT16.pack(version), legacy_count(len(topics)), *map(legacy_string, topics)]
    parts.append(legacy_bytes(user_data))
    if version >= OWNED_PARTITIONS_VERSION:
        parts.append(_topics_bytes(owned))
    if version >= GENERATION_ID_VERSION:
        parts.append(_INT32.pack(generation_id))
    if version >= RACK_ID_VERSION:
        parts.append(legacy_string(rack_id))
    return b"".join(parts)


def read_assignment(raw: bytes) -> Assignment:
    """Return the assignment in the bytes. All versions have the same fields; what follows them is ignored.
    Raises MalformedRequest."""
    read_version(raw)
    try:
        partitions, at = _read_topics(raw, _INT16.size)
        user_data, _ = _read_bytes(raw, at)
    except CUT_SHORT as error:
        raise MalformedRequest("an assignment that is cut short") from error
    return Assignment(partitions, user_data)


def write_assignment(assignment: Assignment, version: int = VERSION_MAX) -> bytes:
    partitions, user_data = assignment
    return _INT16.pack(version) + _topics_bytes(partitions) + legacy_bytes(user_data)


def _read_topic(raw: bytes, at: int) -> tuple[tuple[str, tuple[int, ...]], int]:
    topic, at = _read_string(raw, at)
    numbers, at = _read_numbers(raw, at)
    return (topic, numbers), at


_read_topics: Final = array_reader(_read_topic, flexible=False, nullable=False)


def _topics_bytes(topics: TopicNumbers) -> bytes:
    parts = [legacy_count(len(topics))]
    for topic, numbers in topics:
        parts += (legacy_string(topic), struct.pack(f">i{len(numbers)}i", len(numbers), *numbers))
    return b"".join(parts)
