"""Which segments can be worked on apart from the others: those of offsets partitions that share no group with
any other. Pure.

An offsets partition shares groups with another where one was split. That is seen in the events themselves:
what splits there were, histories do not say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from storage.history.segments.names import Found


def apart(groups: Mapping[int, Any]) -> list[frozenset[int]]:
    """The offsets partitions in sets that share no group.

    Args:
        groups: a numpy array of the hashes of its groups' names, each once, for each offsets partition. Two
            names with the same hash only put two partitions together that could be apart.
    """
    import numpy as np

    numbers = sorted(groups)
    leaders = {number: number for number in numbers}
    if numbers:
        names = np.concatenate([groups[number] for number in numbers])
        owners = np.concatenate([np.full(len(groups[number]), number) for number in numbers])
        order = np.argsort(names, kind="stable")
        names, owners = names[order], owners[order]
        shared = np.flatnonzero(names[1:] == names[:-1])
        for one, other in np.unique(np.stack([owners[shared], owners[shared + 1]], axis=1), axis=0).tolist():
            leaders[_leader(leaders, other)] = _leader(leaders, one)
    sets: dict[int, set[int]] = {}
    for number in numbers:
        sets.setdefault(_leader(leaders, number), set()).add(number)
    return [frozenset(each) for each in sets.values()]


def packed(found: Sequence[Found], sets: Iterable[frozenset[int]], count: int) -> list[list[Found]]:
    """The segments in at most `count` bundles of about as many bytes; each set of offsets partitions is in
    one."""
    of_partition: dict[int, list[Found]] = {}
    for each in found:
        of_partition.setdefault(each.segment.offsets_partition, []).append(each)
    wholes = [[each for number in sorted(one) for each in of_partition.get(number, ())] for one in sets]
    bundles: list[list[Found]] = [[] for _ in range(count)]
    for whole in sorted(wholes, key=bytes_of, reverse=True):
        min(bundles, key=bytes_of).extend(whole)
    return [bundle for bundle in bundles if bundle]


def bytes_of(found: Sequence[Found]) -> int:
    return sum(each.size_bytes for each in found)


def _leader(leaders: dict[int, int], number: int) -> int:
    while leaders[number] != number:
        number = leaders[number]
    return number
