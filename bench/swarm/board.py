"""Which groups are at rest, by what all their members' turns say. PURE.

A group is at rest when all of its members are, at one generation or epoch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

UNSETTLED: Final = -1
Turn = tuple[str, str, int, int | None, int]
"""Group, member, when (us), the epoch at which it rests (UNSETTLED: it does not, None: it is gone), how many
partitions it gained."""


class Rest(NamedTuple):
    """A group has come to rest."""

    name: str
    """"time to stable", the first time; else "rebalance"."""
    took_ms: float


class _Group:
    def __init__(self, now_us: int) -> None:
        self.epochs: dict[str, int] = {}
        self.counts: Counter[int] = Counter()
        self.since_us: int | None = now_us
        """When it was disturbed; None: it is at rest."""
        self.latest_us = now_us
        self.has_rested = False

    def turn(self, member: str, epoch: int | None) -> None:
        before = self.epochs.pop(member, None)
        if before is not None:
            self.counts[before] -= 1
            if not self.counts[before]:
                del self.counts[before]
        if epoch is not None:
            self.epochs[member] = epoch
            self.counts[epoch] += 1

    @property
    def rests(self) -> bool:
        return len(self.counts) == 1 and UNSETTLED not in self.counts


class Board:
    """Of all groups of a swarm."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self.moved_partitions = 0
        """Given to a member of a group that had been at rest before."""

    @property
    def groups_stable(self) -> int:
        return sum(group.since_us is None for group in self._groups.values())

    def take(self, turns: Iterable[Turn]) -> list[Rest]:
        """Those of one process in their order; returns what came to rest."""
        rests = []
        for group_id, member, at_us, epoch, gained in turns:
            group = self._groups.get(group_id)
            if group is None:
                group = self._groups[group_id] = _Group(at_us)
            group.turn(member, epoch)
            group.latest_us = max(group.latest_us, at_us)
            self.moved_partitions += gained if group.has_rested else 0
            if group.rests and group.since_us is not None:
                name = "rebalance" if group.has_rested else "time to stable"
                rests.append(Rest(name, (group.latest_us - group.since_us) / 1000))
                group.since_us, group.has_rested = None, True
            elif not group.rests and group.since_us is None:
                group.since_us = at_us
        return rests
