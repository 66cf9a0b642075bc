"""What transactions need from outside the shard: other leaders are to be asked or told.

The host acts on these; each comes back as a request of its own (`transactions.inside`), so that every
decision is made here.
"""

from __future__ import annotations

from typing import NamedTuple

from actors.ground.contract import Token


class TransactionEnding(NamedTuple):
    """The outcome of a transaction was decided: once that is committed, its markers are to be written."""

    transactional_id: str


class TransactionUnverified(NamedTuple):
    """A TxnOffsetCommit waits for its transaction's coordinator to say that the group's offsets partition is
    part of the transaction (KIP-890)."""

    token: Token
    """The token of the request that waits."""
    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str
    verify_only: bool
    """Whether the partition is only verified; else it is added to the transaction if it is not part of it."""
