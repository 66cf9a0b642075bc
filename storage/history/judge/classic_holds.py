"""When members of classic groups definitely held partitions.

A member holds what SyncGroup tells it, from that answer on. It ends

- for an eager member (its JoinGroup says nothing of what it owns) when it sends its next JoinGroup; for a
  cooperative one (KIP-429) when it sends a JoinGroup in which it owns the partition no longer, or is answered
  a SyncGroup without it;
- when it sends LeaveGroup, crashes, or hears UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID or ILLEGAL_GENERATION;
- and no later than the coordinator may have removed it without its knowing: its session after the sending
  of the last request that was answered as a member's, or its rebalance time-out after the sending of the
  last one that was answered well. A rebalance begins after that one at the earliest, and waits so long.

Once that time is over nothing is held before the next SyncGroup, whatever is answered. A coordinator that
loads its groups answers heartbeats as if all were well (W4): what they say around a fault counts for nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from storage.history.calls import CLASSIC, Call, History
from storage.history.judge.findings import FENCED
from storage.history.judge.holds import Hold, Partition, flat, owner_of, turns
from storage.history.judge.loading import Loading

ILLEGAL_GENERATION: Final = 22
REBALANCE_IN_PROGRESS: Final = 27
_LOSES: Final = FENCED | {ILLEGAL_GENERATION}
_OF_MEMBERS: Final = frozenset({"JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit"})
_SHOWN_BY: Final = frozenset({"JoinGroup", "SyncGroup", "Heartbeat"})
"""A good answer shows that the group was at the member's generation, or at the one that it joined."""


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
    holds: dict[tuple[str, Partition], list[Hold]] = defaultdict(list)
    for (group_id, client), calls in by_member.items():
        member = _Member(loading)
        member.follow(calls, gone.get(client, history.ended_us))
        for partition, hold in member.ended:
            holds[group_id, partition].append(hold)
    return holds


class _Member:
    """What one client held, while its calls are gone through."""

    def __init__(self, loading: Loading) -> None:
        self._loading = loading
        self.ended: list[tuple[Partition, Hold]] = []
        self._held: dict[Partition, _Held] = {}
        self._session_end_us = -1
        self._removed_us = -1
        """When a rebalance that it takes no part in may be over, at the earliest."""
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
        session_end_us = call.sent_us + call.session_timeout_ms * 1_000
        self._session_end_us = max(self._session_end_us, session_end_us)
        if call.error_code:
            return
        self._removed_us = max(self._removed_us, call.sent_us + call.rebalance_timeout_ms * 1_000)
        if call.api == "SyncGroup" and call.assigned is not None:
            now = set(flat(call.assigned))
            self._end([partition for partition in self._held if partition not in now], at_us)
            for partition in now:
                self._held.setdefault(partition, _Held(at_us, call))

    def _lapse(self, at_us: int) -> None:
        """Nothing is held beyond what is certain."""
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
