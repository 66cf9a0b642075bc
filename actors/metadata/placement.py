"""Choose which node leads which partition of a topic: round robin over living nodes, from a place that the
topic's name gives."""

from __future__ import annotations

import zlib
from collections.abc import Sequence


def spread(name: str, first_partition: int, count: int, alive: Sequence[int]) -> tuple[int, ...]:
    """Return the leaders of `count` partitions from `first_partition` on. `alive` is ascending and not empty.

    The start differs from topic to topic, so that many topics of one partition do not all sit on one node.
    """
    assert alive, "the caller has refused a tier without a living node"
    start = zlib.crc32(name.encode()) + first_partition
    return tuple(alive[(start + index) % len(alive)] for index in range(count))


def moved(name: str, leaders: Sequence[int], alive: Sequence[int]) -> tuple[int, ...]:
    """Return the leaders with those replaced that are not alive; nothing changes if no node is alive."""
    if not alive:
        return tuple(leaders)
    living = set(alive)
    replacements = spread(name, 0, len(leaders), alive)
    return tuple(
        leader if leader in living else replacement
        for leader, replacement in zip(leaders, replacements, strict=True)
    )


def first_alive(node_ids: Sequence[int], alive: Sequence[int]) -> int | None:
    living = set(alive)
    return next((node_id for node_id in node_ids if node_id in living), None)
