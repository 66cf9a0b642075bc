"""What shall become of the groups of the Kafka cluster that the tier stands in front of.

An operator says it, the controller keeps it among the tier's metadata, and its leader sees to it: so that it
goes on after every failover, and nobody has to remember how far it was.
"""

from collections.abc import Mapping
from typing import Final

from actors.ground.image import DETACHED as DETACHED

ATTACHED: Final = 1
"""The tier coordinates all groups: it takes over one offsets partition after the other."""
PAUSED: Final = 2
"""The goal is the same as ATTACHED, but no further partition is begun."""
ABORTED: Final = 3
"""Partitions that are under way are given back; those that the tier leads stay with it."""
LEAVING: Final = 4
"""Everything is given back to the brokers, one offsets partition after the other."""
GIVES_BACK: Final = frozenset({ABORTED, LEAVING})
"""The goals by which nothing more is taken over, and the end of which is DETACHED."""
GOAL_NAMES: Final = {
    DETACHED: "detached",
    ATTACHED: "attached",
    PAUSED: "paused",
    ABORTED: "aborted",
    LEAVING: "leaving",
}
NEXT_GOALS: Final[Mapping[int, frozenset[int]]] = {
    DETACHED: frozenset({ATTACHED}),
    ATTACHED: frozenset({PAUSED, ABORTED, LEAVING}),
    PAUSED: frozenset({ATTACHED, ABORTED, LEAVING}),
    # The controller's leader itself says DETACHED, when there is nothing of the cluster's here any more.
    ABORTED: frozenset({ATTACHED, LEAVING, DETACHED}),
    LEAVING: frozenset({ATTACHED, PAUSED, DETACHED}),
}
"""Goal -> the goals that it may be changed to."""
