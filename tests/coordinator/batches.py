"""The records that a batch of offsets stands for, made by a plain loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from actors.ground.records import OFFSET_BATCH, OFFSET_COMMIT

Pair = tuple[Any, Any]
"""Key and value of a record; the value None is a tombstone."""


def one_by_one(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """The pairs of records as plain tuples, with each batch as an OFFSET_COMMIT for each of its
    partitions."""
    for key, value in pairs:
        if key[0] != OFFSET_BATCH:
            yield key, value
            continue
        _, group_id, topic = key
        partitions, offsets, leader_epochs, *times = value
        for partition, offset, leader_epoch in zip(partitions, offsets, leader_epochs, strict=True):
            yield (OFFSET_COMMIT, group_id, topic, partition), (offset, leader_epoch, "", *times)
