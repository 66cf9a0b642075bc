"""What one shard knows, in two halves that never mix.

Replicated: written by `apply` alone, the same on every replica, rebuilt from records.
Volatile: only on the leader, dropped when it falls, built from the replicated half when it is elected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from actors.coordinator.ground.timers import Timers
from actors.ground.contract import Token
from actors.ground.image import MetadataImage
from actors.ground.records import (
    DyingGroupValue,
    GroupMetadataValue,
    OffsetCommitValue,
    PendingTxnOffsetValue,
)
from actors.ground.settings import GroupSettings
from actors.security.gate import Gate

if TYPE_CHECKING:
    from actors.coordinator.classic.area import ClassicGroup
    from actors.coordinator.consumer.assignment_jobs import Job
    from actors.coordinator.consumer.forming import Forming
    from actors.coordinator.consumer.group import ConsumerGroup
    from actors.coordinator.consumer.regexes import Asker, Resolution
    from actors.coordinator.offsets.delete import Sweep
    from actors.coordinator.offsets.reading import Reading
    from actors.coordinator.offsets.store import Found
    from actors.coordinator.offsets.tallies import Tally
    from actors.coordinator.offsets.walk import Stop
    from actors.coordinator.told.rebalances import Rebalance
    from actors.coordinator.transactions.offset_commit import UnverifiedCommit
    from actors.ground.records import (
        ClassicMemberValue,
        ProducerIdBlockValue,
        ProducerMarkerValue,
        TransactionValue,
    )


Position = tuple[str, int]
"""A topic's name and a partition of it: what a group has one committed offset of."""
PendingOffsets = dict[str, dict[Position, dict[int, PendingTxnOffsetValue]]]


def no_clock() -> int:
    """Where nobody wants to know, all takes no time."""
    return 0


class StoredClassicGroup:
    """The replicated half of a classic group: its last Stable or Empty generation (C26)."""

    __slots__ = ("members", "metadata")

    def __init__(self) -> None:
        self.metadata: GroupMetadataValue | None = None
        self.members: dict[str, ClassicMemberValue] = {}


class ShardState:
    """The state of one offsets partition's coordinators."""

    def __init__(
        self,
        settings: GroupSettings,
        new_id: Callable[[], str],
        image: MetadataImage,
        gate: Gate | None = None,
        clock_us: Callable[[], int] = no_clock,
    ) -> None:
        self.settings = settings
        self.new_id = new_id
        """Source of UUID strings for member ids; injected, so that simulations repeat."""
        self.image = image
        self.gate = Gate() if gate is None else gate
        """What clients may see, as of the newest image; its owner keeps it up to date."""
        self.clock_us = clock_us
        """Of any beginning, for how long assignors take; nothing is decided by it."""
        self.new_topics_version = image.version
        """Version of the newest image that brought new topics, as far as this process knows (M24)."""
        self.topics_seen_deleted: dict[bytes, str] = {}
        """Topic id -> name, oldest first: what images of this process's time stopped naming (O16)."""

        # Replicated.
        self.stored_classic: dict[str, StoredClassicGroup] = {}
        self.consumer: dict[str, ConsumerGroup] = {}
        self.consumer_members = 0
        """Of all consumer groups."""
        self.interval_floor_ms = 0
        """KIP-848: no member is told a shorter interval, as far as its group's bounds allow; follows from the
        number of members (`group_settings`)."""
        self.offsets: dict[str, dict[Position, OffsetCommitValue]] = {}
        self.dying: dict[str, DyingGroupValue] = {}
        """Groups that are not there any more, and still have offsets (`dying_groups`)."""
        self.pending_offsets: PendingOffsets = {}
        """Group id -> (topic, partition) -> producer id -> an offset of its open transaction (O7)."""
        self.open_producers: dict[int, dict[tuple[str, str, int], None]] = {}
        """Producer id -> (group id, topic, partition) of its pending offsets."""
        self.producer_markers: dict[int, ProducerMarkerValue] = {}
        self.transactions: dict[str, TransactionValue] = {}
        self.producer_ids: ProducerIdBlockValue | None = None

        self.offset_counts = {"commits": 0, "expirations": 0, "deletions": 0}
        """For metrics: since this process began, while it led."""
        self._begin_volatile()

    def _begin_volatile(self) -> None:
        self.timers = Timers()
        self.unverified: dict[Token, UnverifiedCommit] = {}
        """Commits of offsets that wait for the word of their transaction's coordinator (KIP-890)."""
        self.classic: dict[str, ClassicGroup] = {}
        """Live classic groups: members that are joining, parked requests, state and generation of now."""
        self.simple_groups: dict[str, None] = {}
        """Simple groups that may have no offset any more, and exist until the next check of retention."""
        self.regex_askers: dict[str, Asker] = {}
        """Group id -> who last asked what the group's regexes match (M24)."""
        self.regex_resolutions: dict[str, Resolution] = {}
        """Group id -> the resolution that is under way."""
        self.assignment_jobs: dict[str, Job] = {}
        """Group id -> what a plug-in was last asked to assign."""
        self.forming: dict[str, Forming] = {}
        """Group id -> the joins of a consumer group that wait for more of them."""
        self.readings: list[Reading] = []
        """Of offsets, under way: to be told of every change."""
        self.sweep: Sweep | None = None
        self.retention_walk: Iterator[Stop] | None = None
        self.rebalances: dict[str, Rebalance] = {}
        """Group id -> the rebalance under way, for history."""
        self.commit_tallies: dict[str, Tally] = {}
        """Group id -> what it committed since history was last told."""
        self.found_before: Found | None = None
        """What a commit will replace, for its apply, which comes next."""

    def drop_volatile(self) -> None:
        """Forget what only a leader knows (C27); the host has already answered whoever was parked."""
        self._begin_volatile()
        for group in self.consumer.values():
            group.drop_volatile()
