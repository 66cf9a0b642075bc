"""Requests that the tier makes of its own shards to take groups over from Kafka: no client can make them."""

from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from actors.ground.contract import Request

TAKE: Final = -11
"""The number that stands for an API key, as `restore.RESTORE` does: take the next piece of Kafka's log."""
SERVE: Final = -12
"""All of the log is here: serve its groups."""
DROP_TAKEN: Final = -13
"""Remove what was taken, to begin anew or to give up."""
SEAL_SERVED: Final = -14
"""Serve nobody any more and change nothing, so that brokers get the rest of the log and lead."""
UNSEAL: Final = -15
"""Serve the groups again, because brokers do not lead."""
RETAKE: Final = -16
"""Serve nobody any more, because brokers lead, and keep the offsets: what they write is taken on top."""
RELEASE: Final = -17
"""Brokers have everything that was sealed: one that leads next is to be believed."""
REQUESTS: Final = frozenset({TAKE, SERVE, DROP_TAKEN, SEAL_SERVED, UNSEAL, RETAKE, RELEASE})

NO_PRODUCER: Final = (-1, -1)


class LogRecord(NamedTuple):
    offset: int
    key: bytes
    value: bytes | None


class EndMarker(NamedTuple):
    """The end of a transaction as the log has it, in a control record."""

    committed: bool
    coordinator_epoch: int
    timestamp_ms: int


class LogPiece(NamedTuple):
    """A part of Kafka's log that is decided in one go: plain records, or one batch of a transaction, or the
    marker that ends one. What is decided for it depends on the state before it alone."""

    first_offset: int
    """Where the piece begins: nothing may be missing in front of it."""
    next_offset: int
    """Where the next piece begins. The log may have fewer records than offsets, because it is compacted."""
    leader_epoch: int
    records: tuple[LogRecord, ...] = ()
    producer: tuple[int, int] = NO_PRODUCER
    """Id and epoch of the producer whose transaction this is part of."""
    marker: EndMarker | None = None


class TakeRequest(NamedTuple):
    topic_id: bytes
    """The id of Kafka's topic, 16 bytes."""
    piece: LogPiece
    high_watermark: int = 0
    """The offset before which Kafka has acknowledged everything."""


class ServeRequest(NamedTuple):
    topic_id: bytes
    next_offset: int
    """Where Kafka's log ends: the shard must have taken everything before it."""
    leader_epoch: int = -1
    """The epoch in which a node of ours leads upstream, -1 if that is not known."""


class DropTakenRequest(NamedTuple):
    """Everything that was taken is removed."""

    owed_offset: int | None = None
    """The offset up to which it has to be taken again before anybody is served, together with what was owed
    before; None: Kafka counts on nothing here."""


class SealServedRequest(NamedTuple):
    """It has no fields: all groups are sealed."""


class UnsealRequest(NamedTuple):
    """It has no fields: all groups are served again."""


class RetakeRequest(NamedTuple):
    topic_id: bytes
    leader_epoch: int
    """The epoch in which a broker leads."""


class ReleaseRequest(NamedTuple):
    leader_epoch: int
    """The epoch in which a node of ours leads upstream."""


class TakenResponse(NamedTuple):
    error_code: ErrorCode
    message: str | None = None
    next_offset: int = 0
    """The offset from which on the log is to be fetched."""


def refused(request: Request, error: ErrorCode, message: str | None) -> TakenResponse:
    return TakenResponse(error, message)
