"""Counts what happened in a swarm's own record, as `counts` counts recorded events.

PURE. Clients do not know why a rebalance began, nor which partitions went from and to nobody. Rebalances are
counted as clients saw them: an epoch at which no member settled has no end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from bench.swarm.counted.life import Rebalance
from bench.swarm.counted.lives import lives_of
from bench.swarm.replay.counts import Counts, length_of_union, most_at_a_time
from storage.history.calls import NEVER, Call, History
from storage.history.judge.recovery import COMES_BACK

MEMBERSHIP: Final = ("JoinGroup", "ConsumerGroupHeartbeat", "LeaveGroup")
LEAVES: Final = -1
"""The epoch of a KIP-848 member that leaves for good."""


class Window(NamedTuple):
    """The part of a run that replays recorded time, on the record's clock."""

    began_us: int
    ended_us: int

    def has(self, at_us: int) -> bool:
        return self.began_us <= at_us < self.ended_us

    def within(self, began_us: int, ended_us: int) -> tuple[int, int]:
        """The part of a stretch of time that lies within the window."""
        return max(began_us, self.began_us), min(ended_us, self.ended_us)


class _Member:
    """One life of one fake consumer, as a member of its group."""

    __slots__ = (
        "away_us",
        "ended_us",
        "ids",
        "is_crashed",
        "is_static",
        "joined_us",
        "session_us",
        "waiting_us",
    )

    def __init__(self, call: Call) -> None:
        self.joined_us: list[int] = []
        """The times at which it became a member."""
        self.ids: set[str] = set()
        """The ids with which a classic member joined."""
        self.waiting_us = NEVER
        """When it last tried to join and got no answer."""
        self.ended_us = NEVER
        """When it left, or when its session ended after a crash."""
        self.away_us = NEVER
        """When it left for a while, as a static KIP-848 member does."""
        self.is_crashed = False
        self.is_static = call.group_instance_id is not None
        self.session_us = call.session_timeout_ms * 1_000

    def asks(self, call: Call) -> None:
        """Note a request that was answered without an error, or not at all."""
        is_beat = call.api == "ConsumerGroupHeartbeat"
        if not call.is_answered:
            waits = call.api == "JoinGroup" and (call.member_id or self.is_static)
            if waits or (is_beat and call.epoch == 0):
                self.waiting_us = call.sent_us
            return
        if call.api == "JoinGroup" and call.member_id not in self.ids:
            if not self.is_static or not call.member_id:
                self.joined_us.append(call.sent_us)
            self.ids.add(call.member_id)
        elif is_beat and call.epoch == 0:
            self.joined_us.append(call.sent_us)
        elif call.api == "LeaveGroup" or (is_beat and call.epoch == LEAVES):
            self.ended_us = call.ended_us
        elif is_beat and call.epoch == COMES_BACK:
            self.away_us = call.ended_us


def of_record(history: History, window: Window) -> dict[str, Counts]:
    """Count what happened in the run's groups."""
    members: dict[str, dict[str, _Member]] = defaultdict(dict)
    commits: dict[str, list[int]] = defaultdict(list)
    for call in history.calls:
        if call.is_answered and not call.is_fine:
            continue
        if call.api == "OffsetCommit" and call.is_fine and window.has(call.ended_us):
            commits[call.group_id].append(len(call.offsets))
        elif call.api in MEMBERSHIP:
            of_group = members[call.group_id]
            if call.client not in of_group:
                of_group[call.client] = _Member(call)
            of_group[call.client].asks(call)
    for of_group in members.values():
        away_us = {client: each.away_us for client, each in of_group.items() if each.away_us != NEVER}
        gone_us = {gone.client: gone.at_us for gone in history.gone if gone.client in of_group}
        _crash(of_group, away_us | gone_us)
    rebalances = {life.group_id: life.rebalances for life in lives_of(history).groups}
    return {
        group_id: _counts(window, of_group, rebalances.get(group_id, []), commits[group_id], history.ended_us)
        for group_id, of_group in sorted(members.items())
    }


def _crash(of_group: Mapping[str, _Member], gone_us: Mapping[str, int]) -> None:
    """Count a crash: it is noticed when the session has ended, and not at all if a static member is back
    before."""
    for client, at_us in gone_us.items():
        member = of_group[client]
        if not member.joined_us and member.waiting_us != NEVER:
            member.joined_us.append(member.waiting_us)  # it became a member all the same
        name, _, life = client.rpartition("#")
        back = of_group.get(f"{name}#{int(life) + 1}") if life.isdigit() else None
        noticed_us = at_us + member.session_us
        returns = member.is_static and back is not None and back.joined_us[:1] < [noticed_us]
        member.ended_us = at_us if returns else noticed_us
        member.is_crashed = not returns


def _counts(
    window: Window,
    of_group: Mapping[str, _Member],
    rebalances: Sequence[Rebalance],
    commits: Sequence[int],
    ended_us: int,
) -> Counts:
    members = list(of_group.values())
    over = [each for each in members if each.ended_us != NEVER and window.has(each.ended_us)]
    began = [each for each in rebalances if window.has(each.began_us)]
    lengths_us = [each.length_us for each in began]
    stays = [
        window.within(each.joined_us[0], ended_us if each.ended_us == NEVER else each.ended_us)
        for each in members
        if each.joined_us
    ]
    unstable = [
        window.within(each.began_us, each.settled_us) for each in rebalances if each.settled_us != NEVER
    ]
    return Counts(
        groups=1,
        members=most_at_a_time(stay for stay in stays if stay[0] < stay[1]),
        joins=sum(window.has(at_us) for each in members for at_us in each.joined_us),
        leaves=sum(not each.is_crashed and not each.is_static for each in over),
        expired=sum(each.is_crashed for each in over),
        fenced=None,
        by_cause=None,
        rebalances=len(began),
        durations_ms=tuple(length_us // 1_000 for length_us in lengths_us if length_us is not None),
        unstable_ms=length_of_union(stay for stay in unstable if stay[0] < stay[1]) // 1_000,
        commits=len(commits),
        offsets=sum(commits),
        moved=None,
        span_ms=(window.ended_us - window.began_us) // 1_000,
    )
