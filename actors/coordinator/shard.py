"""The coordinator shard: every group of one offsets partition behind the `Shard` contract.

This file only dispatches. The rules live in `classic` (C rows), `consumer` (M rows), `migration` between the
two (G rows), `offsets` (O rows), `admin` (list, describe, delete), `restore` (from a backup) and
`transactions` (O7); each brings its handlers, appliers and timers in an `Area`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from actors.coordinator import admin, restore
from actors.coordinator.classic import area as classic
from actors.coordinator.consumer import area as consumer
from actors.coordinator.consumer import assignment_jobs
from actors.coordinator.consumer.migration import classic_members
from actors.coordinator.consumer.regexes import note_new_topics
from actors.coordinator.ground.area import Area
from actors.coordinator.ground.refusals import refusal
from actors.coordinator.ground.slices import begun, group_members
from actors.coordinator.ground.state import ShardState, no_clock
from actors.coordinator.offsets import commits as offsets
from actors.coordinator.offsets import dying as dying_groups
from actors.coordinator.offsets import expiry as offsets_expiry
from actors.coordinator.offsets import store as offsets_store
from actors.coordinator.offsets.delete import note_deleted_topics
from actors.coordinator.settled import Settled, Stamp, settled, stamp
from actors.coordinator.transactions import coordinator, offset_commit
from actors.ground.contract import NOTHING, Key, Record, Reply, Request, Result, Value
from actors.ground.image import MetadataImage
from actors.ground.records import TopicPartitions
from actors.ground.settings import GroupSettings
from actors.protocol.errors import GroupError
from actors.security.gate import Gate

AREAS: tuple[Area, ...] = (
    offsets.AREA,
    offsets_expiry.AREA,
    dying_groups.AREA,
    classic.AREA,
    consumer.AREA,
    assignment_jobs.AREA,
    classic_members.AREA,
    admin.AREA,
    restore.AREA,
    coordinator.AREA,
    offset_commit.AREA,
)
_HANDLERS = {api_key: handler for area in AREAS for api_key, handler in area.handlers.items()}
_APPLIERS = {kind: applier for area in AREAS for kind, applier in area.appliers.items()}
_TIMERS = {kind: fire for area in AREAS for kind, fire in area.timers.items()}


class CoordinatorShard:
    """See `actors.ground.contract.Shard`. `new_id` yields UUID strings; `clock_us` times assignors."""

    def __init__(
        self,
        settings: GroupSettings,
        new_id: Callable[[], str],
        image: MetadataImage,
        gate: Gate | None = None,
        clock_us: Callable[[], int] = no_clock,
    ) -> None:
        self.state = ShardState(settings, new_id, image, gate, clock_us)

    @property
    def next_deadline_ms(self) -> int | None:
        return self.state.timers.next_deadline_ms

    def handle(self, request: Request, now_ms: int) -> Result:
        try:
            if self.state.dying:
                dying_groups.refuse(self.state, request)
            return _HANDLERS[request.api_key](self.state, request, now_ms)
        except GroupError as error:
            body = refusal(request, error.error_code, error.message)
            return Result(replies=(Reply(request.token, body, getattr(request.body, "group_id", None)),))

    def expire(self, now_ms: int) -> Result:
        """Carry out one due timer. A timer's key is (kind, group id, ...)."""
        key = self.state.timers.pop_due(now_ms)
        if key is None:
            return NOTHING
        assert isinstance(key, tuple)
        return _TIMERS[key[0]](self.state, key, now_ms)

    def apply(self, key: Key, value: Value | None) -> Value | None:
        """Record types of a newer version are skipped, as Kafka's loader does (R6)."""
        applier = _APPLIERS.get(key[0])
        return None if applier is None else applier(self.state, key, value)

    def singles(self, key: Key, replaced: Value | None) -> Iterable[tuple[Key, Value | None]]:
        return offsets_store.singles(key, replaced)

    def records(self) -> Iterator[Record]:
        for area in AREAS:
            yield from area.records(self.state)

    def on_elected(self, now_ms: int) -> Result:
        return begun(self._elected(now_ms), group_members(self.state))

    def _elected(self, now_ms: int) -> Iterator[Result]:
        for area in AREAS:
            result = area.on_elected(self.state, now_ms)
            yield result._replace(work=None)
            yield from result.work or ()

    def on_resigned(self) -> None:
        self.state.drop_volatile()

    def on_metadata(self, image: MetadataImage, now_ms: int) -> Result:
        """Offsets of deleted topics are swept out, a slice a timer (O16)."""
        old_image, self.state.image = self.state.image, image
        note_deleted_topics(self.state, old_image, image, now_ms)
        note_new_topics(self.state, old_image, image)
        return NOTHING

    def group_states(self) -> Iterator[str]:
        """The state of every live group, for `groupd status`."""
        for classic_group in self.state.classic.values():
            yield classic_group.state.value
        for group in self.state.consumer.values():
            yield group.state_name

    def summary(self, group_id: str) -> dict[str, Any]:
        """What no Kafka API tells of a group: its generation or epochs, and whether it waits for more joins
        and leaves before it rebalances (`batching`), as plain values; {} if unknown."""
        live = self.state.classic.get(group_id)
        if live is not None:
            return {
                "state": live.state.value,
                "members": len(live.members),
                "generation": live.generation,
                "waiting_joins_and_leaves": live.changes,
                "rebalance_due_ms": self.state.timers.deadline_ms(live.join_key) if live.changes else None,
            }
        group = self.state.consumer.get(group_id)
        if group is None:
            return {}
        return {
            "state": group.state_name,
            "members": group.size,
            "group_epoch": group.group_epoch,
            "assignment_epoch": group.assignment_epoch,
        }

    def settled(self, request: Request, owned: TopicPartitions | None, now_ms: int) -> Settled | None:
        """Of the member that heartbeats; None if its answer has something to say."""
        return settled(self.state, request, owned, now_ms)

    def stamp(self, group_id: str, now_ms: int) -> Stamp | None:
        """Of a group, None if there is none: whose members have to be looked at when it changes."""
        return stamp(self.state, group_id, now_ms)

    def refusal(self, request: Request, error_code: int) -> Any:
        return refusal(request, error_code)
