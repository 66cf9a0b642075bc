"""Rows of a history as columns: numbers as they are, texts as places in lists of texts.

A column that is not there is null in all rows; so is -1 in a column of texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]
NULL: Final = -1
"""Null in columns of texts, and in numbers, which all are 0 or more."""

KINDS: Final = (
    "member_joined",
    "member_left",
    "member_expired",
    "state_changed",
    "group_epoch_bumped",
    "rebalance_began",
    "assigned",
    "rebalance_ended",
    "commits",
    "lag",
    "commit_regressed",
    "offsets_expiring",
    "offsets_expired",
    "coordinator_lost",
    "coordinator_elected",
)
CAUSES: Final = (
    *("member left", "session timeout", "member joined", "rebalance timeout", "another leads"),
    *("session timed out", "did not rejoin in time"),
)
"""Causes in the coordinator's words; the last two are those of classic groups."""
RULES: Final = ("M19", "M17", "M6", "M16", "", "C12", "C13")
"""The rule that decided each of the causes."""
REASONS: Final = ("the consumer is being closed", "rebalance failed: timeout")
STATES: Final = ("Stable", "PreparingRebalance", "Empty")
TYPES: Final = ("classic", "consumer")
ASSIGNORS: Final = ("range", "uniform")
SOFTWARE: Final = ("apache-kafka-java 4.1.0", "apache-kafka-java 3.9.1", "librdkafka 2.12.1")
KIND: Final = {name: code for code, name in enumerate(KINDS)}
CAUSE: Final = {name: code for code, name in enumerate(CAUSES)}


class Rows(NamedTuple):
    """Rows in any order; `moves` and `waited_for` belong to them by `move_rows` and `waited_rows`."""

    columns: dict[str, Column]
    moves: dict[str, Column]
    """`row`, ascending, then topic, partition, from_member, to_member: one element each."""

    @property
    def size(self) -> int:
        return int(self.columns["at_ms"].size)


def rows(size: int, columns: Mapping[str, Any], moves: Mapping[str, Column] | None = None) -> Rows:
    """Columns given as one value hold it in every row."""
    full = {name: np.broadcast_to(np.asarray(each), (size,)) for name, each in columns.items()}
    return Rows(full, dict(moves or no_moves()))


def no_moves() -> dict[str, Column]:
    return {name: np.zeros(0, np.int64) for name in ("row", "topic", "partition", "from_member", "to_member")}


def concatenated(parts: Sequence[Rows]) -> Rows:
    """Return the rows of all parts, one part after the other."""
    names = sorted({name for part in parts for name in part.columns})
    columns = {
        name: np.concatenate([part.columns.get(name, np.full(part.size, NULL)) for part in parts])
        for name in names
    }
    starts = np.cumsum([0, *(part.size for part in parts)])
    moves = {
        name: np.concatenate(
            [
                part.moves[name] + (start if name == "row" else 0)
                for part, start in zip(parts, starts, strict=False)
            ]
        )
        for name in no_moves()
    }
    return Rows(columns, moves)


def taken(all_: Rows, order: NDArray[np.int64]) -> Rows:
    """Return rows in this order, with the moves that belong to them."""
    columns = {name: each[order] for name, each in all_.columns.items()}
    first = np.searchsorted(all_.moves["row"], order)
    counts = np.searchsorted(all_.moves["row"], order, side="right") - first
    total = int(counts.sum())
    within = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    places = np.repeat(first, counts) + within
    moves = {name: each[places] for name, each in all_.moves.items()}
    moves["row"] = np.repeat(np.arange(order.size), counts)
    return Rows(columns, moves)
