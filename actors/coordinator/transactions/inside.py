"""Requests that the tier makes of its own shards about transactions: no client can ask for them."""

from __future__ import annotations

from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from actors.ground.contract import Request, Token
from actors.protocol.transaction_messages import TopicNumbers

TXN_ENDING: Final = -2
"""The number that stands for an API key, as `restore.RESTORE`: which markers a transaction's end needs."""
TXN_ENDED: Final = -3
TXN_VERIFIED: Final = -4


class TxnEndingRequest(NamedTuple):
    """Answered when the outcome is committed: before that, no marker may be written."""

    transactional_id: str

    @property
    def group_id(self) -> str:
        return self.transactional_id


class TxnEndingResponse(NamedTuple):
    error_code: ErrorCode
    """INVALID_TXN_STATE: no transaction of this id is ending (any more)."""
    producer_id: int = -1
    producer_epoch: int = -1
    committed: bool = False
    topics: TopicNumbers = ()
    transaction_version: int = 0


class TxnEndedRequest(NamedTuple):
    """Tells the coordinator that every partition of a transaction has its marker."""

    transactional_id: str
    producer_id: int
    producer_epoch: int

    @property
    def group_id(self) -> str:
        return self.transactional_id


class TxnVerifiedRequest(NamedTuple):
    """What the coordinator said of the transaction that TxnOffsetCommit `waiting` belongs to."""

    waiting: Token
    error_code: ErrorCode

    @property
    def group_id(self) -> str:
        return ""


class InsideResponse(NamedTuple):
    error_code: ErrorCode


def inside_refused(request: Request, error: ErrorCode, message: str | None) -> InsideResponse:
    return InsideResponse(error)
