"""The states of a transactional id, and which follow which (Kafka's TransactionState, KIP-98).

PrepareEpochFence and Dead are never stored: fencing a producer and aborting its transaction is one step
here, and an id that expires is simply gone.
"""

from __future__ import annotations

EMPTY = 0
ONGOING = 1
PREPARE_COMMIT = 2
PREPARE_ABORT = 3
COMPLETE_COMMIT = 4
COMPLETE_ABORT = 5

NAMES = {
    EMPTY: "Empty",
    ONGOING: "Ongoing",
    PREPARE_COMMIT: "PrepareCommit",
    PREPARE_ABORT: "PrepareAbort",
    COMPLETE_COMMIT: "CompleteCommit",
    COMPLETE_ABORT: "CompleteAbort",
}
"""State -> Kafka's name of it, as DescribeTransactions and ListTransactions tell it."""

AT_REST = frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT})
"""The states in which no transaction is under way."""
ENDING = frozenset({PREPARE_COMMIT, PREPARE_ABORT})
"""The states in which the outcome is decided for good and the markers are being written."""
COMPLETES = {PREPARE_COMMIT: COMPLETE_COMMIT, PREPARE_ABORT: COMPLETE_ABORT}
PREVIOUS = {
    EMPTY: AT_REST,
    ONGOING: AT_REST | {ONGOING},
    PREPARE_COMMIT: frozenset({ONGOING}),
    # KIP-890: a producer may abort although it has added no partition.
    PREPARE_ABORT: AT_REST | {ONGOING},
    COMPLETE_COMMIT: frozenset({PREPARE_COMMIT}),
    COMPLETE_ABORT: frozenset({PREPARE_ABORT}),
}
"""The states from which each state is reached."""
