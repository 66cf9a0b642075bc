"""What a broker and the leader of an offsets partition say to each other about the partition's records.

The broker asks again and again, the leader answers at once or when something is committed. It is a matter of
one node alone, over its own socket: no client can ask, and both sides are always of one release.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgpack

_MAGIC = b"\xff\xffgroupd feed"
"""The beginning of a question. No request of Kafka's begins so: its API would have the number -1."""
NO_FEED = 0
"""The number of no feed: in a question it asks for a new one, in an answer it says that a feed has ended."""
NOT_KNOWN = 0
"""The end offset that a broker tells which has given out none yet."""
TERM_OFFSETS_BITS = 40
"""How many offsets a leadership has, as a power of two: an offset is the leader's term and the number of the
record in that term. So offsets rise from leader to leader, and nothing has to be written for it. Where
Kafka's log was taken over, the number of such blocks that it has used up is added to the term."""


class Piece(enum.IntEnum):
    """What a piece of an answer is."""

    COMMITTED = 0
    """One entry of the log, as it is there."""
    STATE = 1
    """A part of the state, packed as a snapshot is."""
    STATE_END = 2
    """The end of the state, which is nothing by itself: what comes behind it was committed later."""


class Question(NamedTuple):
    """What a broker asks the leader of an offsets partition."""

    topic: str
    """The internal topic that is made of the answers. Each has a feed of its own, so that one goes on while
    another begins or ends."""
    feed: int
    """The number of the feed that is to go on, or NO_FEED."""
    end_offset: int
    """The offset behind all that the broker has given out, or NOT_KNOWN."""
    again: bool
    """Whether the feed is to give the whole state once more."""
    wait_ms: int
    """How long the answer may wait if there is nothing yet."""


class Fed(NamedTuple):
    """What the leader answers: what there is to know since the question before."""

    feed: int
    start_offset: int
    """The offset at which a new feed begins."""
    pieces: Sequence[tuple[int, bytes]] = ()


def pack_question(question: Question) -> bytes:
    return _MAGIC + bytes(msgpack.packb(question))


def unpack_question(frame: bytes) -> Question | None:
    """Return the question; None if the frame is something else, such as a request of Kafka's."""
    return Question(*msgpack.unpackb(frame[len(_MAGIC) :])) if frame.startswith(_MAGIC) else None


def pack_fed(fed: Fed) -> bytes:
    return bytes(msgpack.packb(fed))


def unpack_fed(packed: bytes) -> Fed:
    fields: Any = msgpack.unpackb(packed, use_list=False)
    return Fed(*fields)
