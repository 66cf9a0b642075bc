"""Tells which groups are at rest, by the turns of all their members.

PURE. A group is at rest when all of its members are, at one generation or epoch. Its start is over when a
rest has lasted for QUIET_US, or when a member goes: before that it was only a pause between two joins. The
report finds the same in the whole history (`start`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from bench.swarm.counted.start import QUIET_US

UNSETTLED: Final = -1
KEEPS: Final = -2
"""The epoch of a member without coordinator: the member has the epoch that it had, but it is not known
whether the group has."""
Turn = tuple[str, str, int, int | None, int]
"""Group, member, time (us), the epoch at which the member rests (UNSETTLED: it does not; KEEPS: as before;
None: it is gone), and how many partitions it gained."""


class Rest(NamedTuple):
    """A group has come to rest."""

    name: str
    """The name of the length: "time to stable" for the first rest, else "rebalance"."""
    took_ms: float


class _Group:
    def __init__(self, now_us: int) -> None:
        self.epochs: dict[str, int] = {}
        self.counts: Counter[int] = Counter()
        self.lost: set[str] = set()
        """The members without coordinator."""
        self.disturbed_us = now_us
        self.rested_us: int | None = None
        """The time since which the group is at rest; None: it is not."""
        self.latest_us = now_us
        self.has_started = False

    def turn(self, member: str, at_us: int, epoch: int | None) -> bool:
        """Note a member's turn. Returns whether the group has come to rest by it."""
        if epoch == KEEPS:
            self.lost.add(member)
            return False
        self.lost.discard(member)
        before = self.epochs.pop(member, None)
        if before is not None:
            self.counts[before] -= 1
            if not self.counts[before]:
                del self.counts[before]
        if epoch is not None:
            self.epochs[member] = epoch
            self.counts[epoch] += 1
        self.latest_us = max(self.latest_us, at_us)
        return self._moved_on(at_us, len(self.counts) == 1 and UNSETTLED not in self.counts)

    def _moved_on(self, at_us: int, rests: bool) -> bool:
        if rests and self.rested_us is None:
            self.rested_us = self.latest_us
            return True
        if not rests and self.rested_us is not None:
            self.rested_us = None
            if self.has_started:
                self.disturbed_us = at_us
        return False

    @property
    def took_ms(self) -> float:
        """How long a group at rest took to come to it."""
        assert self.rested_us is not None, "it is at rest"
        return (self.rested_us - self.disturbed_us) / 1000

    def starts_now(self, now_us: int, *, is_left: bool = False) -> bool:
        """Whether the group's start is over by now; it is True only once."""
        if self.has_started or self.rested_us is None:
            return False
        self.has_started = is_left or now_us - self.rested_us >= QUIET_US
        return self.has_started


class Board:
    """The groups of a swarm and which of them are at rest."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self.moved_partitions = 0
        """How many partitions members gained in groups whose start was over."""

    @property
    def groups_stable(self) -> int:
        return sum(group.rested_us is not None and not group.lost for group in self._groups.values())

    def take(self, turns: Iterable[Turn], now_us: int) -> list[Rest]:
        """Take the turns of one process in their order. Returns the groups that came to rest."""
        rests = []
        for group_id, member, at_us, epoch, gained in turns:
            group = self._groups.get(group_id)
            if group is None:
                group = self._groups[group_id] = _Group(at_us)
            if group.starts_now(at_us, is_left=epoch is None):
                rests.append(Rest("time to stable", group.took_ms))
            self.moved_partitions += gained if group.has_started else 0
            if group.turn(member, at_us, epoch) and group.has_started:
                rests.append(Rest("rebalance", group.took_ms))
        for group in self._groups.values():
            if group.starts_now(now_us):
                rests.append(Rest("time to stable", group.took_ms))
        return rests
