"""Joins and leaves that come one after the other are taken together: how long each group waits for more.

Kafka delays the first rebalance of a classic group (C10) and no later one, and lets a consumer group have a
new target once in each assignment interval (M8). So a rolling restart costs it a rebalance or two for every
member, or two targets. Here the wait follows the group's own recent history: the first few changes are
carried out as in Kafka, each further one in quick succession waits twice as long as the one before, up to
a bound, and a quiet time makes the group calm again. The bound grows with the group: who leaves takes a
share of the work along that nobody does while the group waits, one half in a group of two, and a rebalance
that is spared spares one member or two hundred. A small group is as Kafka's.

When a whole fleet starts at once, a join phase in which nobody is missing waits in addition until the flow of
newcomers has dried up (`pause_ms`): everybody has stopped already, and the next one would come right after.
So does a consumer group that forms (`consumer_forming`).

Volatile: after a failover every group is calm.
"""

from __future__ import annotations

UNDELAYED = 3
"""How many rebalances in quick succession are no storm yet: a deployment of a few members, an operator's
test."""
FIRST_DELAY_MS = 1_000
MEMBER_MS = 250
"""The longest wait, for each member of the group: a leaver's share of the partitions, idle all the
while, is then as if the whole group had stood still for so long."""
_DOUBLINGS_MAX = 31
NEWCOMERS_MIN = 5
"""How many newcomers of one join phase are worth waiting for."""
ALONE_MS = 40
"""How long the first few to join a group wait for one more. If it takes them longer to come back with the ids
that they are given, then so long: on a busy machine the others do, too."""
PAUSE_GAPS = 50
PAUSE_MS_MIN = 50
"""The shortest pause: a busy machine stands still for so long now and then, and whoever is left behind costs
a rebalance."""
PAUSE_MS_MAX = 500
FORMING_MS_MAX = 5_000
"""How long the first join phase of a group lasts at most while one newcomer follows the other."""


class Storm:
    """The recent rebalances of one group that members brought about by coming and going."""

    __slots__ = ("ended_ms", "rebalances")

    def __init__(self) -> None:
        self.rebalances = 0
        """How many there were since the group was last calm."""
        self.ended_ms = 0
        """When the last rebalance was over."""

    def rebalanced(self, now_ms: int) -> None:
        """Count a rebalance that was over as soon as it began."""
        self.rebalances += 1
        self.ended_ms = now_ms

    def delay_ms(self, now_ms: int, longest_ms: int, calm_ms: int) -> int:
        """How long a change that comes now waits for more, at most `longest_ms`. A group that nothing
        happened to for `calm_ms` is calm: the change is the first of its kind."""
        if now_ms - self.ended_ms >= calm_ms:
            self.rebalances = 0
        doublings = min(self.rebalances - UNDELAYED, _DOUBLINGS_MAX)
        return 0 if doublings < 0 else min(FIRST_DELAY_MS << doublings, longest_ms)


def longest_ms(bound_ms: int, members: int) -> int:
    """How long a group of so many waits for more changes at most, `bound_ms` being the longest of all."""
    return min(bound_ms, MEMBER_MS * members)


def pause_ms(newcomers: int, during_ms: int) -> int:
    """How long after its last newcomer a join phase is over, `newcomers` having come in `during_ms`: some
    multiple of the time between two of them."""
    if newcomers < NEWCOMERS_MIN:
        return 0
    return min(max(PAUSE_GAPS * (during_ms + 1) // newcomers, PAUSE_MS_MIN), PAUSE_MS_MAX)
