"""When members of KIP-848 groups definitely held partitions.

A member holds a partition from the moment in which it is told so until it sends a heartbeat that no longer
owns it, leaves, or hears that it is fenced; and no longer than the coordinator must keep it: its session
counts from the sending of its last heartbeat that was answered well, its time to give a partition up from the
last one that was answered with the partition still its own. Whoever does not give a partition up in time is
removed, and holds none of the others either.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from storage.history.calls import Call, History
from storage.history.judge.findings import FENCED
from storage.history.judge.holds import Hold, Partition, flat, owner_of, turns


def consumer_holds(history: History) -> dict[tuple[str, Partition], list[Hold]]:
    """All holds of KIP-848 groups, by group and partition."""
    by_member: dict[tuple[str, str], list[Call]] = defaultdict(list)
    for call in history.calls:
        if call.api == "ConsumerGroupHeartbeat":
            by_member[call.group_id, call.client].append(call)
    gone = {row.client: row.at_us for row in history.gone}
    holds: dict[tuple[str, Partition], list[Hold]] = defaultdict(list)
    for (group_id, client), calls in by_member.items():
        member = _Member(gone.get(client, history.ended_us))
        for partition, hold in member.follow(calls):
            holds[group_id, partition].append(hold)
    return holds


class _Held(NamedTuple):
    since_us: int
    told: Call
    assured_us: int
    """Sending of the last heartbeat that was answered with the partition still the member's."""
    is_asked_for: bool = False
    """Whether the last answer no longer assigns the partition, so that the member has to give it up."""


class _Member:
    """What one client held, while its heartbeats are gone through."""

    def __init__(self, end_us: int) -> None:
        self._end_us = end_us
        self._held: dict[Partition, _Held] = {}
        self._alive_us = -1
        """Sending of the last heartbeat that was answered well."""
        self._last: Call | None = None
        self._parted_us = -1
        """Sending of its last leaving or joining: what was asked before tells of a life that is over."""
        self._ended: list[tuple[Partition, Hold]] = []

    def follow(self, calls: list[Call]) -> list[tuple[Partition, Hold]]:
        """A member has one heartbeat on its way, seldom more."""
        for at_us, is_sent, call in turns(calls):
            if is_sent:
                self._sent(call, at_us)
            else:
                self._answered(call, at_us)
        self._end(list(self._held), self._end_us)
        return self._ended

    def _sent(self, call: Call, at_us: int) -> None:
        self._last = call
        if call.epoch <= 0:  # it joins, or leaves
            self._parted_us = at_us
            self._end(list(self._held), at_us)
        elif call.owned is not None:
            owned = set(flat(call.owned))
            self._end([partition for partition in self._held if partition not in owned], at_us)

    def _answered(self, call: Call, at_us: int) -> None:
        if call.sent_us < self._parted_us:
            return
        self._last = call
        if call.error_code in FENCED:
            self._end(list(self._held), at_us)
        if call.error_code != 0 or call.epoch < 0 or call.told_epoch <= 0:
            return
        self._alive_us = call.sent_us
        if call.assigned is not None:
            now = set(flat(call.assigned))
            for partition in now:
                before = self._held.get(partition)
                since_us, told = (at_us, call) if before is None else (before.since_us, before.told)
                self._held[partition] = _Held(since_us, told, call.sent_us)
            for partition in self._held.keys() - now:
                self._held[partition] = self._held[partition]._replace(is_asked_for=True)
            return
        for partition, held in self._held.items():
            if not held.is_asked_for:
                self._held[partition] = held._replace(assured_us=call.sent_us)

    def _end(self, partitions: list[Partition], at_us: int) -> None:
        to_give_up_us = min(
            (held.assured_us for held in self._held.values() if held.is_asked_for), default=None
        )
        for partition in partitions:
            held = self._held.pop(partition)
            until_us = min(at_us, self._bound_us(held, to_give_up_us))
            if until_us > held.since_us:
                owner = owner_of(held.told)
                self._ended.append((partition, Hold(held.since_us, until_us, owner, held.told)))

    def _bound_us(self, held: _Held, to_give_up_us: int | None) -> int:
        """`to_give_up_us`: since when the member has been asked for a partition that it still holds, this
        one or another. When its time for that is over the member is removed, with all that it holds (M16)."""
        last = self._last or held.told
        session_us = self._alive_us + last.session_timeout_ms * 1_000
        assured_us = held.assured_us if to_give_up_us is None else min(held.assured_us, to_give_up_us)
        return min(session_us, assured_us + last.rebalance_timeout_ms * 1_000)
