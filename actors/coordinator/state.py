"""What one shard knows, in two halves that never mix (design.md section 4).

Replicated: written by `apply` alone, the same on every replica, rebuilt from records.
Volatile: only on the leader, dropped when it falls, built from the replicated half when it is elected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from actors.coordinator.records import GroupMetadataValue, OffsetCommitValue
from actors.coordinator.settings import GroupSettings
from actors.coordinator.timers import Timers
from actors.metadata.image import MetadataImage

if TYPE_CHECKING:
    from actors.coordinator.classic import ClassicGroup
    from actors.coordinator.consumer_state import ConsumerGroup
    from actors.coordinator.records import ClassicMemberValue


class StoredClassicGroup:
    """The replicated half of a classic group: its last Stable or Empty generation (C26)."""

    __slots__ = ("members", "metadata")

    def __init__(self) -> None:
        self.metadata: GroupMetadataValue | None = None
        self.members: dict[str, ClassicMemberValue] = {}


class ShardState:
    """The state of one offsets partition's coordinators."""

    def __init__(self, settings: GroupSettings, new_id: Callable[[], str], image: MetadataImage) -> None:
        self.settings = settings
        self.new_id = new_id
        """Source of UUID strings for member ids; injected, so that simulations repeat."""
        self.image = image
        self.topics_seen_deleted: dict[bytes, str] = {}
        """Topic id -> name, oldest first: what images of this process's time stopped naming (O16)."""

        # Replicated.
        self.stored_classic: dict[str, StoredClassicGroup] = {}
        self.consumer: dict[str, ConsumerGroup] = {}
        self.offsets: dict[str, dict[tuple[str, int], OffsetCommitValue]] = {}

        # Volatile.
        self.timers = Timers()
        self.classic: dict[str, ClassicGroup] = {}
        """Live classic groups: members that are joining, parked requests, state and generation of now."""

    def drop_volatile(self) -> None:
        """Forget what only a leader knows (C27); the host has already answered whoever was parked."""
        self.timers = Timers()
        self.classic = {}
        for group in self.consumer.values():
            group.drop_volatile()
