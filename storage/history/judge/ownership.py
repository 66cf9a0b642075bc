"""Rule 2: no partition belongs to two members of a group at once.

Classic groups: to two members of one generation, by what SyncGroup told them. KIP-848 groups: to two members
at one epoch, and to two at any time. There a member definitely holds a partition from the moment in which it
is told so until it sends a heartbeat that no longer owns it, leaves, or hears that it is fenced; and no
longer than the coordinator must keep it: its session counts from the sending of its last heartbeat that was
answered well, its time to give a partition up from the last one that was answered with the partition still
its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from storage.history.calls import CONSUMER, Call, History, Partitions
from storage.history.judge.findings import FENCED, Findings, Limits, Violation, has_members, story, when

Partition = tuple[str, int]


class Hold(NamedTuple):
    """A time in which a member of a KIP-848 group definitely held a partition."""

    since_us: int
    until_us: int
    owner: str
    """Its instance id, which outlives a member id; else its member id."""
    told: Call
    """What was answered so."""


def judge_ownership(history: History, limits: Limits) -> Findings:
    """Of every assignment that a member was told."""
    told = list(_told(history.calls))
    holds = consumer_holds(history)
    violations = [*_twice_at_one_epoch(told), *_twice_at_one_time(holds, limits.clock_skew_us)]
    return Findings(
        violations,
        {"assignments": len(told), "holds": sum(len(of_partition) for of_partition in holds.values())},
        seen=f"{len(told):,} assignments",
        unseen="" if told else "no member was told what it owns",
        is_required=has_members(history.calls),
    )


def owner_of(call: Call) -> str:
    """Who owns what `call` says: a static member stays itself when it restarts with another member id."""
    return call.group_instance_id or call.member_id


def flat(partitions: Partitions) -> Iterator[Partition]:
    """Topic and partition, one by one."""
    for topic, numbers in partitions:
        for number in numbers:
            yield topic, number


def _told(calls: Iterable[Call]) -> Iterator[Call]:
    for call in calls:
        if call.assigned is not None and call.is_fine and call.api in ("SyncGroup", "ConsumerGroupHeartbeat"):
            yield call


def _twice_at_one_epoch(told: Iterable[Call]) -> Iterator[Violation]:
    owners: dict[tuple[str, int, Partition], Call] = {}
    for call in told:
        epoch = call.told_epoch if call.protocol == CONSUMER else call.epoch
        for partition in flat(call.assigned or ()):
            first = owners.setdefault((call.group_id, epoch, partition), call)
            if owner_of(first) != owner_of(call):
                yield Violation(
                    "two owners at one epoch",
                    call.group_id,
                    f"{partition[0]}-{partition[1]} at {epoch}: {story(first)}, and {story(call)}",
                )


def _twice_at_one_time(
    holds: dict[tuple[str, Partition], list[Hold]], clock_skew_us: int
) -> Iterator[Violation]:
    for (group_id, (topic, partition)), of_partition in holds.items():
        longest: Hold | None = None
        for hold in sorted(of_partition, key=lambda hold: hold.since_us):
            if longest and longest.owner != hold.owner and hold.since_us + clock_skew_us < longest.until_us:
                yield Violation(
                    "two owners at one time",
                    group_id,
                    f"{topic}-{partition}: {longest.owner} holds it from {when(longest.since_us)} to "
                    f"{when(longest.until_us)}, {hold.owner} from {when(hold.since_us)}: "
                    f"{story(longest.told)}, and {story(hold.told)}",
                )
            if longest is None or hold.until_us > longest.until_us:
                longest = hold


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


_ANSWERED, _SENT, _ANSWERED_AT_ONCE = range(3)
"""The order within one microsecond."""


class _Held(NamedTuple):
    since_us: int
    told: Call
    assured_us: int
    """Sending of the last heartbeat that was answered with the partition still the member's."""
    is_asked_for: bool = False
    """The last answer has it no longer."""


class _Member:
    """What one client held, while its heartbeats are gone through."""

    def __init__(self, end_us: int) -> None:
        self._end_us = end_us
        self._held: dict[Partition, _Held] = {}
        self._alive_us = -1
        """Sending of the last heartbeat that was answered well."""
        self._last: Call | None = None
        self._ended: list[tuple[Partition, Hold]] = []

    def follow(self, calls: list[Call]) -> list[tuple[Partition, Hold]]:
        """Sendings and answers in the order of time; a member has one heartbeat on its way, seldom more.
        What a client sends in the microsecond of an answer it sends because of it."""
        events = [(call.sent_us, _SENT, number) for number, call in enumerate(calls)]
        for number, call in enumerate(calls):
            if call.is_answered:
                order = _ANSWERED if call.sent_us < call.ended_us else _ANSWERED_AT_ONCE
                events.append((call.ended_us, order, number))
        for at_us, order, number in sorted(events):
            if order == _SENT:
                self._sent(calls[number], at_us)
            else:
                self._answered(calls[number], at_us)
        self._end(list(self._held), self._end_us)
        return self._ended

    def _sent(self, call: Call, at_us: int) -> None:
        self._last = call
        if call.epoch <= 0:  # it joins, or leaves
            self._end(list(self._held), at_us)
        elif call.owned is not None:
            owned = set(flat(call.owned))
            self._end([partition for partition in self._held if partition not in owned], at_us)

    def _answered(self, call: Call, at_us: int) -> None:
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
