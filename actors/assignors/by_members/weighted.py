"""An assignor that gives each member partitions by its capacity: the worked example of the documentation.

Members tell their capacity as the metadata of this assignor: an int32, big-endian, in any unit that all use.
It runs on either side. A coordinator has no metadata for its own assignors: there it is like `sticky`.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import pack, unpack

from actors.assignors.by_members.sticky import balanced
from actors.assignors.spec import AssignmentSpec, MemberSpec

CAPACITY_BYTES = 4


class CapacityWeighted:
    """It gives each member as many partitions as its capacity says, and lets it keep what it has."""

    name = "capacity-weighted"
    minimum_version = maximum_version = version = 0

    def __init__(self, capacity: int = 1) -> None:
        """`capacity` is the member's own; whoever only computes needs none."""
        self.metadata = pack(">i", capacity)

    def assign(self, spec: AssignmentSpec) -> Mapping[str, Mapping[bytes, list[int]]]:
        return balanced(spec, capacity)


def capacity(member: MemberSpec) -> int:
    """Return the capacity that a member told; 1 for who told none, or what makes no sense."""
    told = member.user_data
    found = int(unpack(">i", told)[0]) if len(told) == CAPACITY_BYTES else 1
    return max(found, 1)
