"""What one shard knows, in two halves that never mix.

Replicated: written by `apply` alone, the same on every replica, rebuilt from records.
Volatile: only on the leader, dropped when it falls, built from the replicated half when it is elected.

What a kind of group keeps is in `of`, under the kind's name: only the kind's own folder knows more of it than
`KindState` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from actors.coordinator.ground.group_offsets import GroupOffsets
from actors.coordinator.ground.timers import Timers
from actors.coordinator.ground.volatile import FoundBefore, Reading, Stop, Sweep, Tally, UnverifiedCommit
from actors.ground.contract import Record, Request, Result, Token
from actors.ground.features import GROUPD_VERSION, ROWS_LEVEL
from actors.ground.image import MetadataImage
from actors.ground.records import (
    SERVED,
    ArrivalValue,
    DyingGroupValue,
    ForeignRecordValue,
    PendingTxnOffsetValue,
    Position,
    ProducerIdBlockValue,
    ProducerMarkerValue,
    SplitSealValue,
    TakenLogValue,
    TransactionValue,
)
from actors.ground.settings import GroupSettings
from actors.protocol.java_hash import partition_for
from actors.security.gate import Gate

PendingOffsets = dict[str, dict[Position, dict[int, PendingTxnOffsetValue]]]


def no_clock() -> int:
    """The clock of a shard whose assignors nobody times: every call gives 0."""
    return 0


class Group(Protocol):
    """A group of any kind, as those see it who do not care which kind it is."""

    @property
    def group_id(self) -> str: ...

    @property
    def state_name(self) -> str:
        """Kafka's name of the state the group is in."""

    @property
    def size(self) -> int:
        """How many members it has."""


class KindState(Protocol):
    """What a shard keeps for one kind of group."""

    @property
    def groups(self) -> Mapping[str, Group]:
        """The live groups by id. The same mapping for as long as the shard lives."""

    def count(self) -> int:
        """How many groups and members are stored: what electing a leader has to go through."""

    def owns(self, group_id: str) -> bool:
        """Whether a conversion has made the group one of this kind, whatever records of another kind are
        still there of it. False for a kind that takes no group over from another."""

    def drop_volatile(self) -> None:
        """Forget what only a leader knows."""

    def drop_volatile_of(self, group_id: str) -> None:
        """Forget what only a leader knows of one group. Its timers may go on: they do nothing."""


class KindOfGroup(Protocol):
    """What the state needs of a `ground.kind.Kind`."""

    @property
    def name(self) -> str: ...

    @property
    def new_state(self) -> Callable[[], KindState]: ...


class Home(NamedTuple):
    """The offsets partition whose shard this is."""

    partition: int | None = None
    """It is None in tests that need no number."""
    awaits_groups: bool = False
    """Whether it serves nobody before groups have arrived: a split has made it, or its groups are Kafka's
    still."""


NO_HOME = Home()


class Whole(NamedTuple):
    """What concerns a shard as a whole, for one of its areas."""

    records: Callable[[], Iterator[Record]]
    """Every live record, without packed ones."""
    kept: Callable[[], Iterator[Record]]
    """Every live record as it is kept."""
    elected: Callable[[int], Iterator[Result]]
    """Builds, in slices, what a leader needs, and begins to serve."""


class FromKafka:
    """What is known of Kafka's log of the offsets partition, if groups are taken over from it
    (`take_over.taking`)."""

    __slots__ = ("foreign", "foreign_bytes", "log")

    def __init__(self) -> None:
        self.log: TakenLogValue | None = None
        """How far the log has been taken; None: nothing of it was."""
        self.foreign: dict[bytes, ForeignRecordValue] = {}
        """Key of a record that means nothing here -> its value."""
        self.foreign_bytes = 0
        """How many bytes all of them have, keys included."""

    @property
    def has_lost_members(self) -> bool:
        """Return whether groups may have had members that nothing is known of: brokers led meanwhile. Such a
        member is told that it is unknown, which has every client join anew. After GROUP_ID_NOT_FOUND Java's
        KIP-848 consumer fails for good (AbstractHeartbeatRequestManager.onErrorResponse)."""
        return self.log is not None and self.log.phase == SERVED and self.log.kept_epoch >= 0


class ShardState:
    """The state of one offsets partition's coordinators."""

    def __init__(
        self,
        settings: GroupSettings,
        new_id: Callable[[], str],
        image: MetadataImage,
        kinds: tuple[KindOfGroup, ...],
        gate: Gate | None = None,
    ) -> None:
        self.home = NO_HOME
        self.settings = settings
        """The settings that are in force now: the shard takes others with a newer image (W43)."""
        self.new_id = new_id
        """Source of UUID strings for member ids; injected, so that simulations repeat."""
        self.image = image
        self.logs_rows = False
        """Whether the tier's level lets offsets be logged as packed rows."""
        self.gate = Gate() if gate is None else gate
        """What clients may see, as of the newest image; its owner keeps it up to date."""
        self.clock_us: Callable[[], int] = no_clock
        """Tells how long assignors take, in microseconds from any beginning; no decision depends on it."""
        self.new_topics_version = image.version
        """Version of the newest image that brought new topics, as far as this process knows (M24)."""
        self.topics_seen_deleted: dict[bytes, str] = {}
        """Topic id -> name, oldest first: what images of this process's time stopped naming (O16)."""

        self.of: dict[str, Any] = {kind.name: kind.new_state() for kind in kinds}
        """Name of a kind -> its `KindState`."""
        self.groups_by_kind: tuple[tuple[Mapping[str, Group], Any], ...] = tuple(
            (self.of[kind.name].groups, kind) for kind in kinds
        )
        """The live groups of each kind, with the kind (see `ground.kind.kind_of`)."""

        # Replicated.
        self.offsets: dict[str, GroupOffsets] = {}
        self.dying: dict[str, DyingGroupValue] = {}
        """Groups that are not there any more, and still have offsets (`dying_groups`)."""
        self.pending_offsets: PendingOffsets = {}
        """Group id -> (topic, partition) -> producer id -> an offset of its open transaction (O7)."""
        self.open_producers: dict[int, dict[tuple[str, str, int], None]] = {}
        """Producer id -> (group id, topic, partition) of its pending offsets."""
        self.producer_markers: dict[int, ProducerMarkerValue] = {}
        self.transactions: dict[str, TransactionValue] = {}
        self.producer_ids: ProducerIdBlockValue | None = None
        self.seals: dict[int, SplitSealValue] = {}
        """Child -> the seal of the split that made it (`split.seal`)."""
        self.arrival: ArrivalValue | None = None
        self.from_kafka = FromKafka()
        self.is_split = False
        """Whether groups have moved here, or from here: then each request is looked at."""

        self.offset_counts = {"commits": 0, "expirations": 0, "deletions": 0}
        """Counted for metrics since this process began, while it led."""
        self.whole: Whole
        """It is set by the shard that this is the state of."""
        self.note_level()
        self._begin_volatile()

    def note_level(self) -> None:
        """Note what the tier's level allows, as the image tells it."""
        self.logs_rows = self.image.features.level(GROUPD_VERSION) >= ROWS_LEVEL

    def _begin_volatile(self) -> None:
        self.timers = Timers()
        self.is_closed = self.home.awaits_groups
        """Whether nobody is served, because groups have not all arrived."""
        self.unverified: dict[Token, UnverifiedCommit] = {}
        self.forwarded: dict[Token, Request] = {}
        """WriteTxnMarkers that wait until the children have the markers too."""
        self.simple_groups: dict[str, None] = {}
        """Simple groups that may have no offset any more, and exist until the next check of retention."""
        self.readings: list[Reading] = []
        self.sweep: Sweep | None = None
        self.retention_walk: Iterator[Stop] | None = None
        self.rebalances: dict[str, Any] = {}
        """Group id -> the rebalance under way, for history (`told.rebalances`)."""
        self.commit_tallies: dict[str, Tally] = {}
        """Group id -> what it committed since history was last told."""
        self.found_before: FoundBefore | None = None
        """What the commit that was decided last will replace: `offsets.store` says who may believe it."""

    def is_owned(self, group_id: str) -> bool:
        """Whether a conversion has made the group one of the kind that it converted it to."""
        return any(kept.owns(group_id) for kept in self.of.values())

    def settle(self, home: Home) -> None:
        """Take the place that the shard is to have. Nothing may have been applied yet."""
        self.home = home
        self.is_closed = home.awaits_groups

    @property
    def awaits_groups(self) -> bool:
        """Return whether groups are to come that are not all here."""
        log = self.from_kafka.log
        is_taken = log is not None and log.phase == SERVED
        return self.home.awaits_groups and self.arrival is None and not is_taken

    def is_away(self, group_id: str) -> bool:
        """Whether a group, or a transactional id, has moved to a child of this partition, or has stayed in
        its parent."""
        if not self.is_split or group_id == "":
            return False
        arrival = self.arrival
        if arrival is not None and partition_for(group_id, arrival.partitions) != self.home.partition:
            return True
        return any(partition_for(group_id, seal.partitions) == child for child, seal in self.seals.items())

    def note_split(self) -> None:
        """Note whether there is a seal, or an arrival."""
        self.is_split = bool(self.seals) or self.arrival is not None

    def drop_volatile_of(self, group_id: str) -> None:
        """Forget what only a leader knows of a group that has moved."""
        self.simple_groups.pop(group_id, None)
        self.rebalances.pop(group_id, None)
        self.commit_tallies.pop(group_id, None)
        for kept in self.of.values():
            kept.drop_volatile_of(group_id)

    def drop_volatile(self) -> None:
        """Forget what only a leader knows (C27); the host has already answered whoever was parked."""
        self._begin_volatile()
        for kept in self.of.values():
            kept.drop_volatile()
