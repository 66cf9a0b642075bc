"""Held heartbeats: the answer of a heartbeat that has nothing to say waits until it has.

A settled member then hears of a rebalance at once instead of at its next heartbeat. Not every client bears
that, so only those are held whose software (the name and version of ApiVersions, KIP-511) is on a list. The
rules:

* An answer is held if it says nothing and goes to a settled member (`actors.coordinator.ground.held`) that
  has said that it has what it was given. Of each member, only the newest answer is held.
* It is held for as long as the kind of the group says (`HeldApi.hold_ms`): a share of the time until the
  client's next heartbeat, and never so long that the client might take the silence for a failure, or that its
  session might end before it speaks again.
* A hold ends when there is news for the member, when any further bytes come on the connection, when its time
  is over, or when the replica leads no longer.
* A connection that several members share holds nothing: the answers of all would wait behind one.
* Holds that repeat may be the lane's (`actors.leader.lane.memory`), on `Terms` that are computed here. Before
  anything happens that might end them early, it gives them back, and they go on here.

To hold a heartbeat is to decide it, to drop the answer, and to decide the same request again at the end, so
that the member hears what is true then. Its session counts from when the heartbeat came (C12, M17): a member
that falls silent is out as soon as without a hold.

This module is a pure machine beside the replica, which tells it what happens; time comes as an argument.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any, Final

from kio.schema.errors import ErrorCode

from actors.coordinator.ground.held import Beats, HeldApi, Lane, Settled, Stamp, Terms, terms
from actors.coordinator.ground.kind import kinds_of
from actors.coordinator.ground.timers import Timers
from actors.coordinator.shard import CoordinatorShard
from actors.coordinator.told.consumer_events import QUIET
from actors.ground.contract import Request, Result, Token
from actors.ground.limits import HELD_LOOKS_PER_TURN_MAX
from actors.ground.records import TopicPartitions
from actors.ground.settings import CLASSIC_ONLY
from actors.protocol.api_keys import HEARTBEAT
from actors.replica.replica import Replica

CLASSIC_SPACING_MS_MIN: Final = 1_000
"""The least time in ms between two heartbeats of a classic member that is held. If they are closer together,
the member would have to be let go at once."""
LOOK_AGAIN_MS: Final = 20
"""How often, in ms, a group is looked at again of which only time will tell whether its members are
settled."""


class HoldEnd(Enum):
    """Why a hold ended; the values are the metric's labels."""

    NEWS = "news"
    REQUEST = "request"
    TIMEOUT = "timeout"
    MOVED = "moved"
    CLOSED = "closed"


class HoldCounts:
    """The counts of held heartbeats since this process began, for metrics."""

    __slots__ = ("began", "ended", "saved_ms")

    def __init__(self) -> None:
        self.began = 0
        self.ended = dict.fromkeys(HoldEnd, 0)
        self.saved_ms = 0
        """The time in ms between news and the next heartbeat that would have fetched them, over all
        members."""


class Holding:
    """What is known of one connection whose heartbeats may be held."""

    __slots__ = (
        "_held",
        "_new_members",
        "apis",
        "beat_at_ms",
        "is_hurried",
        "is_listed",
        "is_shared",
        "kept",
        "member",
        "owned",
        "request",
        "spacing_ms",
        "told_ms",
        "until_ms",
    )

    def __init__(self, held: HeldHeartbeats, apis: frozenset[int]) -> None:
        self.apis = apis
        """API keys of the heartbeats that may be held."""
        self.member = ("", "")
        """(group id, member id) of the last heartbeat; all else is known of that one."""
        self.request: Request | None = None
        """The heartbeat whose answer is held; None: no answer is held."""
        self.until_ms = 0
        self.beat_at_ms: int | None = None
        """When the last heartbeat came, in ms; None: none came on this connection."""
        self.spacing_ms = 0
        """The time in ms between the last two heartbeats; 0: not known."""
        self.told_ms = 0
        """The interval in ms that the member was last told, if its answers tell one; 0: not known."""
        self.owned: TopicPartitions | None = None
        """What the member last said that it owns; None: it said nothing on this connection."""
        self.is_hurried = False
        """Whether more has come on the connection since the last heartbeat, or it is gone: then the answer is
        not held."""
        self.is_listed = False
        """Whether the member is on the list of those that are to be looked at."""
        self.is_shared = False
        """Whether several members take turns on the connection."""
        self.kept: Any = None
        """What the service keeps of the heartbeat that is held; it is not looked at here."""
        self._new_members = 0
        """How many heartbeats in a row were each of another member than the one before."""
        self._held = held

    def submit(self, request: Request, now_ms: int) -> Any | None:
        """Submit a heartbeat, as `Replica.submit` does: return the answer, or None if it comes later."""
        body = request.body
        member = body.group_id, body.member_id
        if member == self.member:
            self._new_members = 0
        else:
            self._new_members += 1
            self.is_shared |= self._new_members > 2
            self.member, self.beat_at_ms, self.told_ms, self.owned = member, None, 0, None
        before_ms, self.beat_at_ms = self.beat_at_ms, now_ms
        self.spacing_ms = 0 if before_ms is None else now_ms - before_ms
        owned = self._held.api(request).owned(request)
        if owned is not None:
            self.owned = owned
        self.is_hurried = False
        return self._held.submit(self, request, now_ms)

    def holds(self, request: Request) -> bool:
        """Return whether heartbeats of this API may be held on the connection."""
        return request.api_key in self.apis and not self.is_shared

    def note(self, response: Any) -> Any:
        """Note what `response`, which is on its way to the client, tells the member, and return it."""
        self.told_ms = getattr(response, "heartbeat_interval_ms", 0)
        return response


class HeldHeartbeats:
    """The held heartbeats of one replica. `release(token, response)` is called with an answer that was
    held."""

    def __init__(
        self,
        replica: Replica,
        release: Callable[[Token, Any], None],
        clock_ms: Callable[[], int],
        clients: Iterable[str],
        *,
        spacing_ms_min: int = CLASSIC_SPACING_MS_MIN,
    ) -> None:
        """Hold the heartbeats of `clients`: patterns of `name/version`, or of the name alone (`*` is
        anything), each perhaps with CLASSIC_ONLY behind it. `spacing_ms_min` stands in for
        CLASSIC_SPACING_MS_MIN."""
        self.counts = HoldCounts()
        self.parked: dict[Token, tuple[Holding, Request]] = {}
        """Token -> a heartbeat whose answer waits for a commit, and may be held after it: see `keeps`."""
        self.lane: Lane | None = None
        """What holds answers as well; None: nothing does."""
        self._replica = replica
        self._release = release
        self._clock_ms = clock_ms
        self._clients = tuple(clients)
        self._spacing_ms_min = spacing_ms_min
        self._groups: dict[str, dict[str, Holding]] = {}
        """Group id -> member id -> the connection that has this member's held answer."""
        self._stamps: dict[str, Stamp | None] = {}
        """Group id -> the group's stamp when all its members were last looked at."""
        self._size = 0
        self._timers = Timers()
        """When to look at a member again (the key is its `Holding`) or at a whole group (the key is its
        id)."""
        self._changed: OrderedDict[str, None] = OrderedDict()
        """The groups of which all members are to be looked at."""
        self._listed: deque[Holding] = deque()
        """The members that are to be looked at."""
        kinds = kinds_of(self._shard.state)
        self._apis: dict[int, HeldApi] = {key: api for kind in kinds for key, api in kind.held.items()}
        self._of_member = frozenset().union(*(kind.of_member for kind in kinds))
        self._of_group = frozenset().union(*(kind.of_group for kind in kinds))

    def api(self, request: Request) -> HeldApi:
        """Return how answers of the heartbeat's API are held."""
        return self._apis[request.api_key]

    def __len__(self) -> int:
        """Return how many answers are held now."""
        return self._size

    def of_client(self, name: str, version: str) -> Holding | None:
        """Return what a new connection of this software gets to hold answers; None if all its heartbeats are
        answered at once."""
        for client in self._clients:
            pattern, is_classic_only = client.removesuffix(CLASSIC_ONLY), client.endswith(CLASSIC_ONLY)
            if name and fnmatchcase(f"{name}/{version}" if "/" in pattern else name, pattern):
                return Holding(self, frozenset({HEARTBEAT}) if is_classic_only else frozenset(self._apis))
        return None

    # Requests.

    def submit(self, holding: Holding, request: Request, now_ms: int) -> Any | None:
        """Decide the heartbeat that came on `holding`'s connection. Return the answer, or None if it comes
        later."""
        self._end_older(holding, request, now_ms)
        self.parked[request.token] = (holding, request)
        response = self._replica.submit(request, now_ms)
        if response is None:
            return None
        del self.parked[request.token]
        return None if self._hold(holding, request, response, now_ms) else holding.note(response)

    def _end_older(self, holding: Holding, request: Request, now_ms: int) -> None:
        """End what is held of the member that this heartbeat is of."""
        group_id, lane, key = request.body.group_id, self.lane, self.api(request).session_key(request)
        if lane is not None:
            lane.submitted(holding, group_id, key)
        older = self._groups.get(group_id, {}).get(request.body.member_id)
        if older is not None:
            self._end(older, HoldEnd.REQUEST, now_ms)
            if lane is not None:
                lane.submitted(holding, group_id, key)  # the newer one is to be held

    def keeps(self, token: Token, response: Any) -> bool:
        """Return whether an answer that waited for its commit, and that the replica releases now, has to wait
        on, held."""
        parked = self.parked.pop(token, None)
        if parked is None or parked[0].is_hurried:
            return False
        holding, request = parked
        if self.lane is not None:  # a newer one may be held there
            self.lane.submitted(holding, request.body.group_id, self.api(request).session_key(request))
        return self._hold(holding, request, response, self._clock_ms())

    def _hold(self, holding: Holding, request: Request, response: Any, now_ms: int) -> bool:
        """Hold the answer if it may be held, and return whether it is."""
        api, beats = self.api(request), self._beats(holding)
        if not holding.holds(request) or not api.says_nothing(request, response, beats):
            return False
        settled = api.settled(self._shard.state, request, holding.owned, now_ms)
        hold_ms = 0 if settled is None else api.hold_ms(request, settled, beats)
        if settled is None or hold_ms <= 0:
            return False
        assert holding.beat_at_ms is not None
        group_id = request.body.group_id
        members = self._groups.get(group_id)
        if members is not None and request.body.member_id in members:
            return False  # a newer answer, of another connection, is held already
        if members is None:
            members = self._groups[group_id] = {}
            self._stamps[group_id] = self._stamp(group_id, now_ms)
        members[request.body.member_id] = holding
        holding.request = request
        holding.until_ms = holding.beat_at_ms + hold_ms
        self._size += 1
        self.counts.began += 1
        self._look_later(holding, settled, now_ms)
        return True

    def take_in(self, holding: Holding, request: Request, until_ms: int) -> None:
        """Hold on a heartbeat that the lane has held, as if it were held here since it came. It is looked at
        in `run`: something has happened that concerns it."""
        holding.request, holding.until_ms, holding.is_hurried = request, until_ms, False
        group_id = request.body.group_id
        self._groups.setdefault(group_id, {})[request.body.member_id] = holding
        self._stamps.setdefault(group_id, None)
        self._changed[group_id] = None
        self._list(holding)

    def lane_counts(self, began: int, over: int, by_request: int) -> None:
        """Count the holds of the lane that began, that were over, and that ended by a request."""
        self.counts.began += began
        self.counts.ended[HoldEnd.TIMEOUT] += over
        self.counts.ended[HoldEnd.REQUEST] += by_request
        self._size += began - over - by_request

    def _terms(self, holding: Holding, request: Request, response: Any, now_ms: int) -> Terms | None:
        """Return on which terms the heartbeats after this one may be held; None: they have to be decided."""
        api, beats = self.api(request), self._beats(holding)
        settled = self._shard.settled(request, holding.owned, now_ms)
        if settled is None or not api.says_nothing(request, response, beats):
            return None
        return terms(api, request, settled, beats)

    def _beats(self, holding: Holding) -> Beats:
        return Beats(holding.told_ms, holding.spacing_ms, self._spacing_ms_min)

    def end(self, holding: Holding, why: HoldEnd) -> None:
        """Answer the held heartbeat now; if its answer is still to come, it will not be held."""
        holding.is_hurried = True
        if holding.request is not None:
            self._end(holding, why, self._clock_ms())

    def forget(self, holding: Holding) -> Token | None:
        """Drop the held heartbeat of a connection that is gone. Return the token of the request that nobody
        takes the answer of."""
        holding.is_hurried = True
        request = holding.request
        if request is None:
            return None
        self._drop(holding, HoldEnd.CLOSED)
        return request.token

    def end_all(self, why: HoldEnd) -> None:
        """Answer every held heartbeat now."""
        for holding in self._all():
            self.end(holding, why)

    def refuse_all(self) -> None:
        """Answer every held heartbeat with NOT_COORDINATOR: this replica leads no longer, or ends, and
        clients are to look for the coordinator at once."""
        for holding in self._all():
            request = holding.request
            if request is not None:
                self._drop(holding, HoldEnd.MOVED)
                self._release(request.token, self._shard.refusal(request, ErrorCode.not_coordinator))

    def _all(self) -> list[Holding]:
        return [holding for members in self._groups.values() for holding in members.values()]

    # What the replica tells (actors.replica.replica.Watcher).

    @property
    def next_deadline_ms(self) -> int | None:
        return 0 if self._listed or self._changed else self._timers.next_deadline_ms

    def happened(self, result: Result) -> None:
        """List the members and groups whose answers may be changed by records that were applied, to be looked
        at in `run`."""
        groups = self._groups
        if not groups:
            return
        for key, _ in result.records:
            members = groups.get(key[1])
            if members is None:
                continue
            if key[0] in self._of_member:
                self._list(members.get(key[2]))
            elif key[0] in self._of_group:
                self._changed[key[1]] = None
        for event in result.events:
            if type(event) in QUIET:
                continue
            group_id = getattr(event, "group_id", None)
            if group_id in groups:
                self._changed[group_id] = None
                self._list(groups[group_id].get(getattr(event, "member_id", None) or ""))

    def image_changed(self) -> None:
        self._changed.update(dict.fromkeys(self._groups))

    def run(self, now_ms: int) -> None:
        """Look at a bounded number of the members and groups that are due, so that no group waits for the
        answers of a big one."""
        for _ in range(HELD_LOOKS_PER_TURN_MAX):
            if self._listed:
                holding = self._listed.popleft()
                holding.is_listed = False
                self._look(holding, now_ms)
            elif self._changed:
                self._look_at_group(self._changed.popitem(last=False)[0], now_ms)
            else:
                key = self._timers.pop_due(now_ms)
                if key is None:
                    return
                if isinstance(key, Holding):
                    self._look(key, now_ms)
                else:
                    self._look_at_group(str(key), now_ms)

    # Looking at members and groups.

    @property
    def _shard(self) -> CoordinatorShard:
        shard = self._replica.shard
        assert isinstance(shard, CoordinatorShard)
        return shard

    def _list(self, holding: Holding | None) -> None:
        if holding is not None and not holding.is_listed:
            holding.is_listed = True
            self._listed.append(holding)

    def _look_at_group(self, group_id: str, now_ms: int) -> None:
        members = self._groups.get(group_id)
        if members is None:
            return
        stamp = self._stamp(group_id, now_ms)
        before, self._stamps[group_id] = self._stamps[group_id], stamp
        if stamp is None or before is None or stamp.position != before.position:
            for holding in members.values():
                self._list(holding)

    def _stamp(self, group_id: str, now_ms: int) -> Stamp | None:
        """Return the group's stamp of now. A group whose assignment is still being computed is looked at
        again soon, because no record will tell."""
        stamp = self._shard.stamp(group_id, now_ms)
        if stamp is not None and stamp.is_assigning:
            self._timers.schedule_late(group_id, now_ms + LOOK_AGAIN_MS)
        return stamp

    def _look(self, holding: Holding, now_ms: int) -> None:
        """Answer the member's heartbeat if there is news for it, or if its time is over."""
        request = holding.request
        if request is None:
            return
        if now_ms >= holding.until_ms:
            self._end(holding, HoldEnd.TIMEOUT, now_ms)
            return
        settled = self._shard.settled(request, holding.owned, now_ms)
        if settled is None:
            # What unsettles a member may be no news for it: a new image that has nothing for its group.
            response = self._decide_again(request, now_ms)
            if response is not None and self.api(request).says_nothing(
                request, response, self._beats(holding)
            ):
                settled = self._shard.settled(request, holding.owned, now_ms)
            if settled is None:
                self._drop(holding, HoldEnd.NEWS)
                self._count_saved(holding, now_ms)
                if response is not None:
                    self._release(request.token, response)
                return
        self._look_later(holding, settled, now_ms)

    def _look_later(self, holding: Holding, settled: Settled, now_ms: int) -> None:
        at_ms = holding.until_ms
        if settled.waits:
            at_ms = min(now_ms + LOOK_AGAIN_MS, at_ms)
        self._timers.schedule_late(holding, at_ms)

    def _end(self, holding: Holding, why: HoldEnd, now_ms: int) -> None:
        request = holding.request
        assert request is not None
        self._drop(holding, why)
        response = self._decide_again(request, now_ms)
        if response is None:
            return
        if self.lane is not None and why in (HoldEnd.TIMEOUT, HoldEnd.REQUEST):
            # Before the answer goes out: with it, more of the connection's requests may be served.
            found = self._terms(holding, request, response, now_ms)
            if found is not None:
                self.lane.ended(holding, request, found, response)
        self._release(request.token, response)

    def _decide_again(self, request: Request, now_ms: int) -> Any | None:
        """Decide a held heartbeat again, as `Replica.submit` does. If its member is still there, its session
        ends when it would have ended without this decision."""
        timers, key = self._shard.state.timers, self.api(request).session_key(request)
        ends_ms = timers.deadline_ms(key)
        response = self._replica.submit(request, now_ms)
        if ends_ms is not None and key in timers:
            timers.schedule(key, ends_ms)
        return response

    def _drop(self, holding: Holding, why: HoldEnd) -> None:
        request, holding.request = holding.request, None
        assert request is not None
        self._timers.cancel(holding)
        self._size -= 1
        self.counts.ended[why] += 1
        group_id = request.body.group_id
        members = self._groups[group_id]
        del members[request.body.member_id]
        if not members:
            del self._groups[group_id]
            del self._stamps[group_id]
            self._timers.cancel(group_id)

    def _count_saved(self, holding: Holding, now_ms: int) -> None:
        assert holding.beat_at_ms is not None
        next_ms = holding.beat_at_ms + (holding.told_ms or holding.spacing_ms)
        self.counts.saved_ms += max(next_ms - now_ms, 0)
