"""When members of classic groups definitely held partitions.

A member holds what SyncGroup tells it, from that answer on. It ends

- for an eager member (its JoinGroup says nothing of what it owns) when it sends its next JoinGroup; for a
  cooperative one (KIP-429) when it sends a JoinGroup in which it owns the partition no longer, or is answered
  a SyncGroup without it;
- when it sends LeaveGroup, crashes, or hears UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID or ILLEGAL_GENERATION;
- and no later than the coordinator may have removed it without its knowing. Its session begins with the end
  of the rebalance that made its generation, which was not before the last join of that rebalance was sent,
  and again with the sending of each heartbeat that was answered as a member's. A rebalance without it begins
  after the sending of its last request that was answered well, and waits for its rebalance time-out.
  A JoinGroup that is answered with a generation that others had been told before it was sent, and SyncGroup,
  begin no session: a coordinator answers them from what it knows.

Once that time is over nothing is held before the next SyncGroup, whatever is answered. A coordinator that
loads its groups answers heartbeats as if all were well (W4): what they say around a fault counts for nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from storage.history.calls import CLASSIC, NEVER, Call, History
from storage.history.judge.findings import FENCED
from storage.history.judge.holds import Hold, Partition, flat, owner_of, turns
from storage.history.judge.loading import Loading

ILLEGAL_GENERATION: Final = 22
REBALANCE_IN_PROGRESS: Final = 27
_LOSES: Final = FENCED | {ILLEGAL_GENERATION}
_OF_MEMBERS: Final = frozenset({"JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit"})
_SHOWN_BY: Final = frozenset({"JoinGroup", "SyncGroup", "Heartbeat"})
"""A good answer shows that the group was at the member's generation, or at the one that it joined."""


Generation = tuple[str, int]
"""A group and a member's generation in it."""


class _Held(NamedTuple):
    since_us: int
    told: Call


def classic_holds(history: History, loading: Loading) -> dict[tuple[str, Partition], list[Hold]]:
    """All holds of classic groups, by group and partition."""
    by_member: dict[tuple[str, str], list[Call]] = defaultdict(list)
    for call in history.calls:
        if call.protocol == CLASSIC and call.api in _OF_MEMBERS:
            by_member[call.group_id, call.client].append(call)
    gone = {row.client: row.at_us for row in history.gone}
    ends_us = _rebalance_ends_us(history.calls)
    holds: dict[tuple[str, Partition], list[Hold]] = defaultdict(list)
    for (group_id, client), calls in by_member.items():
        member = _Member(loading, ends_us)
        member.follow(calls, gone.get(client, history.ended_us))
        for partition, hold in member.ended:
            holds[group_id, partition].append(hold)
    return holds


def _rebalance_ends_us(calls: Sequence[Call]) -> dict[Generation, int]:
    """When the rebalance that made a generation ended, at the earliest: when the last of its joins was sent.
    Joins that were sent after somebody had been told of it took no part."""
    joins: dict[Generation, list[Call]] = defaultdict(list)
    for call in calls:
        if call.api == "JoinGroup" and call.is_fine:
            joins[call.group_id, call.told_epoch].append(call)
    ends_us = {}
    for generation, of_generation in joins.items():
        first_us = min(call.ended_us for call in of_generation)
        ends_us[generation] = max(call.sent_us for call in of_generation if call.sent_us <= first_us)
    return ends_us


class _Member:
    """What one client holds, followed through its calls."""

    def __init__(self, loading: Loading, ends_us: Mapping[Generation, int]) -> None:
        self._loading = loading
        self._ends_us = ends_us
        self.ended: list[tuple[Partition, Hold]] = []
        self._held: dict[Partition, _Held] = {}
        self._session_end_us = -1
        self._removed_us = -1
        """The earliest time at which a rebalance without this member may be over."""
        self._has_left = False

    def follow(self, calls: Sequence[Call], end_us: int) -> None:
        for at_us, is_sent, call in turns(calls):
            if at_us > end_us:
                break
            self._lapse(call.sent_us if not is_sent else at_us)
            if is_sent:
                self._sent(call, at_us)
            else:
                self._answered(call, at_us)
        self._end(list(self._held), end_us)

    def _sent(self, call: Call, at_us: int) -> None:
        if call.api == "LeaveGroup":
            self._has_left = True
            self._end(list(self._held), at_us)
        elif call.api == "JoinGroup":
            self._has_left = False
            keeps = set(flat(call.owned or ()))
            self._end([partition for partition in self._held if partition not in keeps], at_us)

    def _answered(self, call: Call, at_us: int) -> None:
        if call.error_code in _LOSES:
            self._end(list(self._held), at_us)
        if self._has_left or call.api not in _SHOWN_BY or call.error_code not in (0, REBALANCE_IN_PROGRESS):
            return
        if call.api == "Heartbeat" and self._loading.may_be(call):
            return
        self._begin_session(call)
        if call.error_code:
            return
        self._removed_us = max(self._removed_us, call.sent_us + call.rebalance_timeout_ms * 1_000)
        if call.api == "SyncGroup" and call.assigned is not None:
            now = set(flat(call.assigned))
            self._end([partition for partition in self._held if partition not in now], at_us)
            for partition in now:
                self._held.setdefault(partition, _Held(at_us, call))

    def _begin_session(self, call: Call) -> None:
        begins_us = call.sent_us
        if call.api != "Heartbeat":
            ended_us = self._ends_us.get((call.group_id, call.told_epoch), NEVER)
            if call.api != "JoinGroup" or call.sent_us > ended_us:
                return
            begins_us = ended_us
        self._session_end_us = max(self._session_end_us, begins_us + call.session_timeout_ms * 1_000)

    def _lapse(self, at_us: int) -> None:
        """End the holds that are no longer certain at this time."""
        if self._held and at_us > self._until_us:
            self._end(list(self._held), self._until_us)

    @property
    def _until_us(self) -> int:
        return min(self._session_end_us, self._removed_us)

    def _end(self, partitions: Iterable[Partition], at_us: int) -> None:
        until_us = min(at_us, self._until_us)
        for partition in partitions:
            held = self._held.pop(partition)
            if until_us > held.since_us:
                owner = owner_of(held.told)
                self.ended.append((partition, Hold(held.since_us, until_us, owner, held.told)))
