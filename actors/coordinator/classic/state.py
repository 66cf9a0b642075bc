"""What a shard keeps for classic groups: as stored, and as they live on the leader."""

from __future__ import annotations

from actors.coordinator.classic.group import ClassicGroup
from actors.coordinator.ground.slices import AT_ONCE_MAX
from actors.coordinator.ground.state import ShardState
from actors.coordinator.told.events import CLASSIC
from actors.ground.records import ClassicMemberValue, GroupMetadataValue


class StoredClassicGroup:
    """The replicated half of a classic group: its last Stable or Empty generation (C26)."""

    __slots__ = ("members", "metadata")

    def __init__(self) -> None:
        self.metadata: GroupMetadataValue | None = None
        self.members: dict[str, ClassicMemberValue] = {}


class ClassicState:
    """All classic groups of one shard."""

    __slots__ = ("groups", "stored")

    def __init__(self) -> None:
        self.stored: dict[str, StoredClassicGroup] = {}
        """The replicated half of each group, by id."""
        self.groups: dict[str, ClassicGroup] = {}
        """The volatile half by id: members that are joining, parked requests, state and generation of now."""

    def count(self) -> int:
        """Members are counted no further than it takes to know that they are many."""
        groups = len(self.stored)
        if groups > AT_ONCE_MAX:
            return groups
        return groups + sum(len(stored.members) for stored in self.stored.values())

    def owns(self, group_id: str) -> bool:
        """No classic group: what a converted group is, the record of the other kind decides (G1)."""
        return False

    def drop_volatile(self) -> None:
        self.groups.clear()

    def drop_volatile_of(self, group_id: str) -> None:
        self.groups.pop(group_id, None)


def classic_groups(state: ShardState) -> dict[str, ClassicGroup]:
    """The live classic groups by id."""
    groups: dict[str, ClassicGroup] = state.of[CLASSIC].groups
    return groups


def stored_groups(state: ShardState) -> dict[str, StoredClassicGroup]:
    """What records say of classic groups, by id."""
    stored: dict[str, StoredClassicGroup] = state.of[CLASSIC].stored
    return stored
