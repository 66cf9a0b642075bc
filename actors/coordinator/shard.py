"""The coordinator shard: every group of one offsets partition behind the `Shard` contract.

This file only dispatches. The rules live in the kinds of groups (`kinds`: `classic` with the C rows,
`consumer` with the M and G rows), in `offsets` (O rows), `admin` (list, delete), `restore` (from a backup)
and `transactions` (O7), and in `split`; each brings its handlers, appliers and timers in an `Area`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from itertools import starmap
from typing import Any

from kio.schema.errors import ErrorCode

from actors.coordinator.areas import areas
from actors.coordinator.ground.held import Heard, Settled, Stamp
from actors.coordinator.ground.kind import Kind, OfOtherKind, kind_of, kinds_of
from actors.coordinator.ground.refusals import coordinator_error
from actors.coordinator.ground.slices import begun, group_members
from actors.coordinator.ground.state import NO_HOME, Home, ShardState, Whole, no_clock
from actors.coordinator.kinds import KINDS
from actors.coordinator.offsets import dying as dying_groups
from actors.coordinator.offsets import store as offsets_store
from actors.coordinator.offsets import together as offsets_together
from actors.coordinator.offsets.together import Steady, Together
from actors.coordinator.split import place
from actors.coordinator.split.inside import ARRIVED, DROP
from actors.coordinator.split.seal import let_go
from actors.coordinator.take_over.inside import REQUESTS as OF_TAKE_OVER
from actors.ground.changeable import in_force
from actors.ground.contract import NOTHING, Key, Record, Reply, Request, Result, Value
from actors.ground.features import Features
from actors.ground.image import NO_NODE, MetadataImage
from actors.ground.records import TopicPartitions
from actors.ground.settings import GroupSettings
from actors.protocol.api_keys import OFFSET_COMMIT
from actors.protocol.errors import GroupError
from actors.security.gate import Gate

_FOR_ALL = OF_TAKE_OVER | {ARRIVED, DROP}
"""The requests that decide for all groups, wherever these are, and while nobody is served."""


class CoordinatorShard:
    """See `actors.ground.contract.Shard`. `new_id` yields UUID strings; `clock_us` times assignors; `node_id`
    is the node whose settings hold (W43); `home` is the offsets partition."""

    def __init__(
        self,
        settings: GroupSettings,
        new_id: Callable[[], str],
        image: MetadataImage,
        gate: Gate | None = None,
        clock_us: Callable[[], int] = no_clock,
        *,
        kinds: tuple[Kind, ...] = KINDS,
        node_id: int = NO_NODE,
        home: Home = NO_HOME,
    ) -> None:
        self._started_settings = settings
        """The settings that the tier was started with; those in force are the state's."""
        self._node_id = node_id
        self.state = ShardState(
            in_force(settings, image.broker_configs, node_id),
            new_id,
            image,
            kinds,
            gate,
        )
        self.state.settle(home)
        self.state.clock_us = clock_us
        self._areas = areas(kinds)
        self._handlers = self._areas.handlers
        self.state.whole = Whole(self._records_one_by_one, self.records, self._elected)
        self.heard: Heard | None = None
        """What hears members besides; None: nothing has."""
        self._kinds = kinds
        self._off = _switched_off(kinds, settings, image.features)
        """API keys of the requests that nobody serves at present."""
        self._appliers = self._areas.appliers

    @property
    def next_deadline_ms(self) -> int | None:
        return None if self.state.is_closed else self.state.timers.next_deadline_ms

    def handle(self, request: Request, now_ms: int) -> Result:
        if self.state.is_closed or self.state.is_split:
            try:
                place.check(self.state, request)
            except GroupError as error:
                return self._refused(request, error)
        result = self._decided(request, now_ms)
        if (result.work is not None or self.state.is_split) and request.api_key not in _FOR_ALL:
            return place.of_those_here(self.state, result)
        return result

    def commit_together(self, commits: Sequence[Steady], packed: bytes, now_ms: int) -> Together:
        """Decide commits that came together, as `together` has it. All are left where each has to be looked
        at."""
        state = self.state
        is_plain = not (state.is_closed or state.is_split or state.dying or state.readings)
        if not is_plain or OFFSET_COMMIT in self._off:
            return Together([], [], [], list(range(len(commits))))
        return offsets_together.commit_together(state, commits, packed, now_ms)

    def _decided(self, request: Request, now_ms: int) -> Result:
        state = self.state
        try:
            if state.dying:
                dying_groups.refuse(state, request)
            if request.api_key in self._off:
                raise GroupError(ErrorCode.unsupported_version)
            return self._handlers[request.api_key](state, request, now_ms)
        except OfOtherKind as found:
            return self._handed_on(request, found, now_ms)
        except GroupError as error:
            return self._refused(request, error)

    def _handed_on(self, request: Request, found: OfOtherKind, now_ms: int) -> Result:
        """The kind of the group answers the request, if it answers such requests at all."""
        handler = self._areas.of_kinds[request.api_key].get(found.kind.name)
        if handler is None:
            return self._refused(request, found.error)
        try:
            return handler(self.state, request, now_ms)
        except GroupError as error:
            return self._refused(request, error)

    def _refused(self, request: Request, error: GroupError) -> Result:
        body = self.refusal(request, error.error_code, error.message)
        return Result(replies=(Reply(request.token, body, getattr(request.body, "group_id", None)),))

    def expire(self, now_ms: int) -> Result:
        """Carry out one due timer. A timer's key is (kind, group id, ...)."""
        key = self.state.timers.pop_due(now_ms)
        if key is None:
            return NOTHING
        assert isinstance(key, tuple)
        if self.state.seals and place.is_timer_away(self.state, key):
            return NOTHING
        if self.heard is not None:
            ends_ms = self.heard.ends_ms(key)
            if ends_ms is not None and ends_ms > now_ms:
                self.state.timers.schedule_early(key, ends_ms, now_ms)
                return NOTHING
            self.heard.fired(key)
        result = self._areas.timers[key[0]](self.state, key, now_ms)
        if self.state.seals or result.work is not None:
            return place.of_those_here(self.state, result)
        return result

    def apply(self, key: Key, value: Value | None) -> Value | None:
        """Record types of a newer version are skipped, as Kafka's loader does (R6)."""
        applier = self._appliers.get(key[0])
        return None if applier is None else applier(self.state, key, value)

    def singles(self, key: Key, replaced: Value | None) -> Iterable[tuple[Key, Value | None]]:
        return offsets_store.singles(key, replaced)

    def one_by_one(self, key: Key, value: Value) -> Iterable[tuple[Key, Value]]:
        return offsets_store.one_by_one(key, value)

    def records(self) -> Iterator[Record]:
        for area in self._areas.every:
            yield from area.records(self.state)

    def _records_one_by_one(self) -> Iterator[Record]:
        for key, value in self.records():
            assert value is not None
            yield from starmap(Record, offsets_store.one_by_one(key, value))

    def on_elected(self, now_ms: int) -> Result:
        if self.state.awaits_groups:
            return NOTHING
        return begun(self._elected(now_ms), group_members(self.state))

    def _elected(self, now_ms: int) -> Iterator[Result]:
        state = self.state
        for area in self._areas.every:
            result = area.on_elected(state, now_ms)
            yield place.of_those_here(state, result._replace(work=None))
            yield from map(partial(place.of_those_here, state), result.work or ())
        if state.seals:
            yield from let_go(state)
        state.is_closed = False

    def on_resigned(self) -> None:
        self.state.drop_volatile()

    def on_metadata(self, image: MetadataImage, now_ms: int) -> Result:
        before, self.state.image = self.state.image, image
        if image.broker_configs != before.broker_configs:
            self.state.settings = in_force(self._started_settings, image.broker_configs, self._node_id)
        if image.features != before.features:
            self._off = _switched_off(self._kinds, self._started_settings, image.features)
            self.state.note_level()
        for area in self._areas.every:
            area.on_metadata(self.state, before, now_ms)
        return NOTHING

    def group_states(self) -> Iterator[str]:
        """The state of every live group, for `groupd status`."""
        for groups, _ in self.state.groups_by_kind:
            for group in groups.values():
                yield group.state_name

    def summary(self, group_id: str) -> dict[str, Any]:
        """What no Kafka API tells of a group, as plain values; {} if there is none."""
        kind = kind_of(self.state, group_id)
        return {} if kind is None else kind.summary(self.state, group_id)

    def settled(self, request: Request, owned: TopicPartitions | None, now_ms: int) -> Settled | None:
        """What is to be known of the member that heartbeats; None if its answer has something to say.
        `owned`: what it last said that it owns, None if that is not known."""
        if self.is_elsewhere(request):
            return None
        for kind in kinds_of(self.state):
            if request.api_key in kind.held:
                return kind.held[request.api_key].settled(self.state, request, owned, now_ms)
        return None

    def repeats(self, request: Request, now_ms: int) -> tuple[Hashable, int] | None:
        """Return the key of the session's timer and the session timeout in ms of the member of a heartbeat,
        if the same heartbeat will get the same answer until something concerns its group; else None."""
        group_id = request.body.group_id
        if group_id in self.state.dying or self.is_elsewhere(request):
            return None
        for kind in kinds_of(self.state):
            held = kind.held.get(request.api_key)
            if held is not None:
                session_ms = held.repeats(self.state, request, now_ms)
                return None if session_ms is None else (held.session_key(request), session_ms)
        return None

    @property
    def told_to_all(self) -> Hashable:
        """Return what the answers of heartbeats of all groups depend on, besides image and settings."""
        return tuple(kind.told_to_all(self.state) for kind in self._kinds)

    def stamp(self, group_id: str, now_ms: int) -> Stamp | None:
        """Where a group is, None if there is none: its members have to be looked at when that changes."""
        is_away = self.state.is_closed or self.state.is_away(group_id)
        kind = None if is_away else kind_of(self.state, group_id)
        return None if kind is None else kind.stamp(self.state, group_id, now_ms)

    def is_elsewhere(self, request: Request) -> bool:
        """Whether a request is for a group that is served elsewhere: it has moved to another offsets
        partition, or nobody is served here."""
        state = self.state
        if state.is_closed:
            return request.api_key not in place.ALWAYS
        return state.is_split and place.is_away(state, request)

    def refusal(self, request: Request, error_code: int, message: str | None = None) -> Any:
        refused = self._areas.refusals[request.api_key]
        return refused(request, coordinator_error(error_code), message)


def _switched_off(kinds: tuple[Kind, ...], settings: GroupSettings, features: Features) -> frozenset[int]:
    """Return the API keys of the own requests of the kinds whose protocol is not served (A26), or whose
    feature is at level 0 (W44)."""
    served = settings.group_coordinator_rebalance_protocols
    off = (
        kind
        for kind in kinds
        if kind.name not in served or (kind.feature and not features.level(kind.feature))
    )
    return frozenset(api_key for kind in off for api_key in kind.own)
