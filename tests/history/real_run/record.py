"""The same answers from what the swarm's members wrote down themselves: nothing here is the tier's word.

Times are told in unix ms, as history tells them; the swarm's clock is this machine's monotonic one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import groupby, pairwise
from typing import Final, NamedTuple

from bench.member.assigning import CLASSIC_COOPERATIVE
from bench.swarm.planning.plan import Plan
from bench.swarm.wire.clock import reading
from storage.history.calls import CONSUMER, NEVER, Call, History
from storage.history.judge.consumer_holds import consumer_holds
from storage.history.judge.findings import FENCED
from storage.history.judge.holds import flat
from tests.history.real_run.answers import Back, Gap, Place, Span

AT_ONCE: Final = frozenset({"OffsetCommit", "OffsetFetch", "Heartbeat"})
"""Requests that the coordinator answers at once, without waiting for any member."""
OUTAGE_MS: Final = 3_000
"""The time before and after a kill in which whatever is slow is slow because of the kill."""
TOGETHER_US: Final = 200_000
"""Two acts within this time are simultaneous: nobody outside knows which one the leader saw first."""


class Act(NamedTuple):
    """A member joined or left, and was told so."""

    sent_us: int
    ended_us: int
    member_id: str


class Record:
    """What one swarm's members saw, and what follows from it about their groups."""

    def __init__(self, plan: Plan, history: History) -> None:
        self.cooperative = {
            member.group_id for member in plan.members if member.protocol == CLASSIC_COOPERATIVE
        }
        self.consumer = {member.group_id for member in plan.members if member.protocol == CONSUMER}
        self.group_ids = sorted({member.group_id for member in plan.members})
        self.eager = set(self.group_ids) - self.cooperative - self.consumer
        self._history = history
        self._wall_us = reading().wall_us

    def ms(self, time_us: int) -> int:
        return (time_us + self._wall_us) // 1_000

    @property
    def ended_ms(self) -> int:
        return self.ms(self._history.ended_us)

    def slowest_ms(self, killed_ms: int) -> int:
        """How long an answer took that should take none, when nobody had been killed: the machine's doing."""
        return max(
            (call.ended_us - call.sent_us) // 1_000
            for call in self._history.calls
            if call.api in AT_ONCE
            and call.is_answered
            and not self.ms(call.sent_us) - OUTAGE_MS < killed_ms < self.ms(call.ended_us) + OUTAGE_MS
        )

    def triggers(self, group_id: str, number: int) -> set[str]:
        """Return the members that may have caused the group's rebalance of that number, the first being 1."""
        calls = [call for call in self._history.calls if call.group_id == group_id]
        return _bump(calls, number) if group_id in self.consumer else _generation(calls, number)

    def gaps(self, group_id: str) -> list[Gap]:
        """Return the gaps between the times in which somebody held a partition."""
        return [
            Gap(*place, self.ms(from_us), self.ms(until_us))
            for place, holds in self._holds(group_id).items()
            for from_us, until_us in _between(holds)
            if self.ms(from_us) < self.ms(until_us)
        ]

    def went_back(self) -> set[Back]:
        """Offsets lower than the one that was acknowledged last before they were sent."""
        commits = defaultdict(list)
        for call in self._history.calls:
            if call.api == "OffsetCommit" and call.is_answered:
                for topic, partition, offset, error_code in call.offsets:
                    if error_code == 0:
                        commits[call.group_id, topic, partition].append((call.sent_us, call.ended_us, offset))
        return {
            Back(*key, before, after)
            for key, of_key in commits.items()
            for (_, ended_us, before), (sent_us, _, after) in pairwise(sorted(of_key))
            if after < before and ended_us <= sent_us
        }

    def _holds(self, group_id: str) -> dict[Place, list[Span]]:
        found: dict[Place, list[Span]] = defaultdict(list)
        if group_id in self.consumer:
            for (holder, place), holds in consumer_holds(self._history).items():
                if holder == group_id:
                    found[place] += [Span(hold.since_us, hold.until_us) for hold in holds]
            return found
        calls = sorted(
            (call for call in self._history.calls if call.group_id == group_id),
            key=lambda call: (call.client, call.sent_us),
        )
        for _, of_client in groupby(calls, key=lambda call: call.client):
            for place, hold in _classic_holds(
                of_client, self._history.ended_us, group_id not in self.cooperative
            ):
                found[place].append(hold)
        return found


def _classic_holds(calls: Iterable[Call], end_us: int, is_eager: bool) -> list[tuple[Place, Span]]:
    """What a member held in one life: from the answer that assigns a partition until it gives it up or
    leaves."""
    held: dict[Place, int] = {}
    found: list[tuple[Place, Span]] = []

    def release(places: Iterable[Place], at_us: int) -> None:
        found.extend((place, Span(held.pop(place), at_us)) for place in list(places))

    for call in calls:
        if call.api == "LeaveGroup" or (call.api == "JoinGroup" and is_eager):
            release(held, call.sent_us)
        elif call.api == "SyncGroup" and call.is_fine and call.assigned is not None:
            now = set(flat(call.assigned))
            release(held.keys() - now, call.ended_us)
            held |= dict.fromkeys(now - held.keys(), call.ended_us)
        elif call.is_answered and call.error_code in FENCED:
            release(held, call.ended_us)
    release(held, end_us)
    return found


def _between(holds: list[Span]) -> list[tuple[int, int]]:
    found = []
    reach_us: int | None = None
    for since_us, until_us in sorted(holds):
        if reach_us is not None and since_us > reach_us:
            found.append((reach_us, since_us))
        reach_us = until_us if reach_us is None else max(reach_us, until_us)
    return found


def _generation(calls: list[Call], number: int) -> set[str]:
    """Return the members that came or went first before the classic group settled in this generation."""
    settled = sorted({call.epoch for call in calls if call.api == "SyncGroup" and call.is_fine})
    first, last = (0 if number == 1 else settled[number - 2]) + 1, settled[number - 1]
    told_us: dict[int, int] = {}
    joins = [call for call in calls if call.api == "JoinGroup" and call.is_fine]
    for join in joins:
        told_us[join.told_epoch] = min(join.ended_us, told_us.get(join.told_epoch, join.ended_us))
    acts = [_act(join) for join in joins if first <= join.told_epoch <= last]
    since_us = told_us.get(first - 1, NEVER)
    for leave in calls:
        if leave.api == "LeaveGroup" and leave.is_fine and since_us < leave.ended_us < told_us[last]:
            acts.append(_act(leave))
    earliest_us = min(act.sent_us for act in acts)
    return {act.member_id for act in acts if act.sent_us <= earliest_us + TOGETHER_US}


def _bump(calls: list[Call], number: int) -> set[str]:
    """Return the members that raised a consumer group's epoch: each join and each leave raises it by one."""
    every: list[Act] = []
    inside: set[str] = set()
    for call in calls:
        if call.api != "ConsumerGroupHeartbeat" or not call.is_fine or call.epoch > 0:
            continue
        if (call.epoch == 0) != (call.client in inside):  # a join may be asked for more than once
            inside ^= {call.client}
            every.append(_act(call))
    return {
        act.member_id
        for act in every
        if sum(other.ended_us < act.sent_us for other in every) < number
        and sum(other.sent_us < act.ended_us for other in every) >= number
    }


def _act(call: Call) -> Act:
    return Act(call.sent_us, call.ended_us, call.member_id)
