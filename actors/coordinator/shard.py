"""The coordinator shard: every group of one offsets partition behind the `Shard` contract.

This file only dispatches. The rules live in `classic` (C rows), `consumer` (M rows), `offsets` (O rows),
`admin` (list, describe, delete) and `restore` (from a backup); each brings its handlers, appliers and
timers in an `Area`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from actors.contract import NOTHING, Key, Record, Reply, Request, Result, Value
from actors.coordinator import admin, classic, consumer, offsets, restore
from actors.coordinator.area import Area
from actors.coordinator.refusals import refusal
from actors.coordinator.settings import GroupSettings
from actors.coordinator.state import ShardState
from actors.metadata.image import MetadataImage
from actors.protocol.errors import GroupError

AREAS: tuple[Area, ...] = (offsets.AREA, classic.AREA, consumer.AREA, admin.AREA, restore.AREA)
_HANDLERS = {api_key: handler for area in AREAS for api_key, handler in area.handlers.items()}
_APPLIERS = {kind: applier for area in AREAS for kind, applier in area.appliers.items()}
_TIMERS = {kind: fire for area in AREAS for kind, fire in area.timers.items()}


class CoordinatorShard:
    """See `actors.contract.Shard`. `new_id` yields UUID strings."""

    def __init__(self, settings: GroupSettings, new_id: Callable[[], str], image: MetadataImage) -> None:
        self.state = ShardState(settings, new_id, image)

    @property
    def next_deadline_ms(self) -> int | None:
        return self.state.timers.next_deadline_ms

    def handle(self, request: Request, now_ms: int) -> Result:
        try:
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

    def records(self) -> Iterator[Record]:
        for area in AREAS:
            yield from area.records(self.state)

    def on_elected(self, now_ms: int) -> Result:
        results = [area.on_elected(self.state, now_ms) for area in AREAS]
        return Result(
            records=[record for result in results for record in result.records],
            events=[event for result in results for event in result.events],
        )

    def on_resigned(self) -> None:
        self.state.drop_volatile()

    def on_metadata(self, image: MetadataImage, now_ms: int) -> Result:
        """Tombstones for offsets of deleted topics (O16); the host drops the Result on a follower."""
        old_image, self.state.image = self.state.image, image
        return Result(offsets.forget_deleted_topics(self.state, old_image, image))

    def group_states(self) -> Iterator[str]:
        """The state of every live group, for `groupd status`."""
        for listed in (*classic.listed(self.state), *consumer.listed(self.state)):
            yield listed.group_state

    def summary(self, group_id: str) -> dict[str, Any]:
        """What no Kafka API tells of a group: its generation or epochs, as plain values; {} if unknown."""
        live = self.state.classic.get(group_id)
        if live is not None:
            return {
                "state": classic.describe(self.state, group_id).group_state,
                "members": len(live.members),
                "generation": live.generation,
            }
        group = self.state.consumer.get(group_id)
        if group is None:
            return {}
        return {
            "state": consumer.describe(self.state, group_id).group_state,
            "members": group.size,
            "group_epoch": group.group_epoch,
            "assignment_epoch": group.assignment_epoch,
        }

    def refusal(self, request: Request, error_code: int) -> Any:
        return refusal(request, error_code)
