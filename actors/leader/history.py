"""The history of one offsets partition, as its leader sees it. Every event gets its place, is remembered for
a while, and goes on to whoever keeps it for good.

What groups do comes from the shard (`Result.events`). What the leader sees beside (commits in sum, refused
requests, followers that lag, its own election and fall) is looked at every few seconds.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import nlargest
from itertools import islice
from typing import Any, NamedTuple

from actors.coordinator import explain
from actors.coordinator.ground.group_offsets import NO_OFFSETS
from actors.coordinator.ground.kind import kind_of
from actors.coordinator.ground.slices import SLICE_MAX
from actors.coordinator.offsets import tallies as commit_tallies
from actors.coordinator.shard import CoordinatorShard
from actors.leader.history_ring import GroupPast, HistoryRing, Kept
from actors.leader.serving import serving_shard
from actors.metrics.counts import RequestCounts
from actors.protocol.api_keys import SCHEMA_NAMES
from actors.replica.host import ReplicaHost
from storage.history.schema import Recorded, Stretch, row

INTERVAL_S = 10.0
"""How often, in seconds, the leader looks at what history tells in sum."""
SLICE_PAUSE_S = 0.02
LAG_ENTRIES_MIN = 1_000
"""How many entries a follower must be behind to be worth an event."""
OFFSETS_SEARCHED_MAX = 10_000
"""How many offsets of a group are searched for its last commit, if it has not committed since this leader
began."""


class CoordinatorElected(NamedTuple):
    """The event that this leader begins to serve."""

    at_ms: int
    replica_id: int

    @property
    def kind(self) -> str:
        return "coordinator_elected"


class CoordinatorLost(NamedTuple):
    """The event that this leader serves no longer."""

    at_ms: int
    replica_id: int
    cause: str

    @property
    def kind(self) -> str:
        return "coordinator_lost"


class CoordinatorMoved(NamedTuple):
    """The event that this leader has handed over, as it was asked to."""

    at_ms: int
    replica_id: int
    cause: str

    @property
    def kind(self) -> str:
        return "coordinator_moved"


class ReplicaLagging(NamedTuple):
    """The event that a follower is far behind."""

    at_ms: int
    replica_id: int
    lag: int

    @property
    def kind(self) -> str:
        return "replica_lagging"


class RequestsRefused(NamedTuple):
    """The event that requests were answered with an error code, and how often since the last such event."""

    at_ms: int
    api: str
    error_code: int
    count: int  # type: ignore[assignment]  # the column's name, and a tuple's method

    @property
    def kind(self) -> str:
        return "requests_refused"


class History:
    """The history that the leader of `partition` tells. `keep` is told of all events, and must return at
    once. `newly_dropped` yields an event for what it was told and could not keep."""

    def __init__(
        self,
        partition: int,
        host: ReplicaHost,
        requests: RequestCounts,
        keep: Callable[[Stretch], None] = lambda _: None,
        newly_dropped: Callable[[int], Iterable[Any]] = lambda _: (),
    ) -> None:
        self.hands_over = False
        """Whether leadership is being moved, because somebody asked for it."""
        self.ring = HistoryRing()
        self._partition = partition
        self._host = host
        self._requests = requests
        self._keep = keep
        self._newly_dropped = newly_dropped
        self._term = -1
        self._sequence = 0
        self._refused: Counter[tuple[int, int]] = Counter()
        """(API key, error code) -> how many refusals history has told so far."""
        self._timer: asyncio.TimerHandle | None = None
        self._slices: Iterator[Any] = iter(())
        """What is left of the events that this look tells in sum."""

    def start(self) -> None:
        self._arm(INTERVAL_S)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def record(self, events: Iterable[Any]) -> None:
        """Give every event that has a kind its place, remember it and have it kept."""
        raft = self._host.raft
        if raft is None:
            return
        if raft.term != self._term:
            self._term, self._sequence = raft.term, 0
            self.ring.begin(self._host.now_ms())
        told = [event for event in events if hasattr(event.__class__, "kind")]
        if not told:
            return
        stretch = self._next(told)
        for sequence, event in enumerate(told, stretch.first_sequence):
            self.ring.add(sequence, event)
        self._keep(stretch)

    def _next(self, told: Sequence[Any]) -> Stretch:
        """Return these events with their places: the leader's term and their sequence numbers."""
        stretch = Stretch(self._term, self._sequence + 1, told)
        self._sequence += len(told)
        return stretch

    def elected(self) -> None:
        """Record that this replica serves from now on."""
        self.hands_over = False
        self.record([CoordinatorElected(self._host.now_ms(), self._host.replica_id)])

    def lost(self, cause: str = "leads no longer") -> None:
        """Record that this replica serves no longer, and forget what it remembers: it is not to be told as a
        leader's."""
        kind = CoordinatorMoved if self.hands_over else CoordinatorLost
        event = kind(self._host.now_ms(), self._host.replica_id, cause)
        self._keep(self._next([event]))
        self.ring = HistoryRing()

    # Events that are told in sum, at every look.

    def _look(self) -> None:
        shard = serving_shard(self._host)
        if shard is not None:
            now_ms = self._host.now_ms()
            self.record([*self._newly_refused(now_ms), *self._lagging(now_ms), *self._newly_dropped(now_ms)])
            self._slices = commit_tallies.taken(shard.state, now_ms)
        self._tell_commits()

    def _tell_commits(self) -> None:
        """Tell some of the events in sum, and the rest after a pause in which clients are served."""
        some = list(islice(self._slices, SLICE_MAX)) if self._host.replica.serving else []
        self.record(some)
        if len(some) < SLICE_MAX:
            self._arm(INTERVAL_S)
        else:
            self._timer = asyncio.get_running_loop().call_later(SLICE_PAUSE_S, self._tell_commits)

    def _arm(self, delay_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._look)

    def _newly_refused(self, now_ms: int) -> Iterator[RequestsRefused]:
        for api_key, counts in self._requests.by_api.items():
            for code, total in counts.errors.items():
                told = self._refused[api_key, code]
                if total > told:
                    self._refused[api_key, code] = total
                    api = SCHEMA_NAMES.get(api_key, str(api_key))
                    yield RequestsRefused(now_ms, api, code, total - told)

    def _lagging(self, now_ms: int) -> Iterator[ReplicaLagging]:
        raft = self._host.raft
        peers = {} if raft is None else raft.status().get("peers", {})
        for replica_id, peer in peers.items():
            if (peer["lag"] or 0) >= LAG_ENTRIES_MIN:
                yield ReplicaLagging(now_ms, int(replica_id), peer["lag"])

    # What the command line asks.

    def explain(self, group_id: str, after: int) -> dict[str, Any]:
        """Return what is known of a group, as plain values, with its events after the one of the sequence
        number `after`; {} if this replica does not serve."""
        shard = serving_shard(self._host)
        if shard is None:
            return {}
        now_ms = self._host.now_ms()
        if shard.heard is not None:
            shard.heard.tell(group_id)
        found = explain.explain(shard.state, group_id, now_ms)
        past = self.ring.past(group_id) or GroupPast()
        kind = kind_of(shard.state, group_id)
        if found is not None and kind is not None and not kind.knows_since:
            found = found._replace(since_ms=past.since_ms(found.state) or found.since_ms)
        return {
            "group_id": group_id,
            "now_ms": now_ms,
            "offsets_partition": self._partition,
            "node_id": self._host.node_id,
            "term": self._term,
            "leads_since_ms": self.ring.since_ms,
            "now": None if found is None else _plain(found),
            "last_commit_ms": past.last_commit_ms or _last_commit_ms(shard, group_id),
            "rebalances": [self._shown(each) for each in past.rebalances if each.sequence > after],
            "events": [self._shown(each) for each in past.events if each.sequence > after],
        }

    def _shown(self, kept: Kept) -> dict[str, Any]:
        """Return the event's row as JSON has it."""
        told = row(Recorded(self._partition, self._host.node_id, self._term, *kept))
        if "moves" in told:
            told["moves"] = [move._asdict() for move in told["moves"]]
        return told

    def top(self, by: str, limit: int) -> dict[str, Any]:
        """Return the groups of this leader that have most of `by`, a key of the rows, as plain values; {} if
        this replica does not serve."""
        shard = serving_shard(self._host)
        if shard is None:
            return {}
        now_ms = self._host.now_ms()
        rows = [{"group_id": group_id, **past.counts(now_ms)} for group_id, past in self.ring.groups()]
        rows = nlargest(limit, rows, key=lambda each: each[by])
        states = explain.states(shard.state, (each["group_id"] for each in rows))
        for each in rows:
            each["state"], each["members"] = states.get(each["group_id"], ("-", 0))
        since_ms = self.ring.since_ms
        return {"now_ms": now_ms, "leads_since_ms": since_ms, "known": len(self.ring), "groups": rows}


def _plain(found: explain.Explanation) -> dict[str, Any]:
    return found._asdict() | {"waited_for": [each._asdict() for each in found.waited_for]}


def _last_commit_ms(shard: CoordinatorShard, group_id: str) -> int | None:
    """Return when the group last committed, in ms, as its replicated offsets tell; None if it has none, or
    too many to search."""
    offsets = shard.state.offsets.get(group_id, NO_OFFSETS)
    if len(offsets) > OFFSETS_SEARCHED_MAX:
        return None
    return max((each.commit_timestamp_ms for each in offsets.values()), default=None)
