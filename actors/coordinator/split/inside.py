"""Requests that the tier makes of its own shards to split an offsets partition: no client can make them."""

from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from actors.ground.contract import Request, Token
from actors.protocol.transaction_messages import WriteTxnMarkersRequest

SEAL: Final = -6
"""The number that stands for an API key, as `restore.RESTORE` does: the parent serves what moves no more."""
ARRIVE: Final = -7
"""The child takes some of the records that move."""
ARRIVED: Final = -8
"""The child has all of them, and begins to serve."""
DROP: Final = -9
"""The parent removes what has moved."""
FORWARDED: Final = -10
"""The children have answered markers that came to the parent."""
REQUESTS: Final = frozenset({SEAL, ARRIVE, ARRIVED, DROP, FORWARDED})


class SealRequest(NamedTuple):
    child: int
    partitions: int
    """How many offsets partitions the tier has once all have been split."""
    coordinator_epoch: int
    """The epoch in which this leader has markers written."""


class ArriveRequest(NamedTuple):
    records: tuple[tuple[Any, Any], ...]
    """Some of the parent's records: pairs of key and value, perhaps of plain tuples."""


class ArrivedRequest(NamedTuple):
    parent: int
    records: int
    """How many records there are in all."""
    partitions: int
    coordinator_epoch: int
    """The epoch that stands in the parent's seal."""


class DropRequest(NamedTuple):
    child: int


class ForwardedRequest(NamedTuple):
    waiting: Token
    """The WriteTxnMarkers that waits."""
    errors: tuple[ErrorCode, ...]
    """What the children have answered, for each of its markers."""


class SplitResponse(NamedTuple):
    error_code: ErrorCode
    message: str | None = None


class MarkersToForward(NamedTuple):
    """An event: markers came to a partition whose children may have offsets of these transactions. The host
    has them written there and says so by FORWARDED."""

    token: Token
    body: WriteTxnMarkersRequest
    children: tuple[int, ...]


def refused(request: Request, error: ErrorCode, message: str | None) -> SplitResponse:
    return SplitResponse(error, message)
