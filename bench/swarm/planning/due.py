"""Counts how many requests a plan makes due until any moment, so low that no healthy server falls short of
it.

PURE. Members heartbeat while they are there, and commit while they are awake and own partitions. A classic
member's heartbeats go out at their interval, whether the last one is answered or held. A KIP-848 member may
count from the answer, which may be held for up to HELD of the interval that the server tells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from bench.swarm.planning.plan import CONSUMER, CRASH, LEAVE, SLEEP, START, Plan
from storage.history.judge.service import Planned

STEPS: Final = 200
HELD: Final = 0.8
CONSUMER_INTERVAL_MS: Final = 5_000
"""Kafka's default of group.consumer.heartbeat.interval.ms."""


class Due(NamedTuple):
    """The requests that are due; one entry per step from the plan's beginning on counts all until then."""

    step_s: float
    requests: list[float]
    member_s: list[float]

    def plain(self) -> dict[str, Any]:
        """Return it as plain values for run.json."""
        return {
            "step_s": self.step_s,
            "requests": [round(value, 1) for value in self.requests],
            "member_s": [round(value, 1) for value in self.member_s],
        }


def due_of(plan: Plan, consumer_interval_ms: int = CONSUMER_INTERVAL_MS) -> Due:
    """Count the requests that all members have to send."""
    step_s = plan.duration_s / STEPS
    requests, member_s = _Sum(step_s), _Sum(step_s)
    owners = _owners(plan)
    members = {member.name: member for member in plan.members}
    for name, began_s, ended_s, asleep in _lives(plan):
        member = members[name]
        interval_ms = member.heartbeat_interval_ms
        if member.protocol == CONSUMER:
            interval_ms = int(consumer_interval_ms * (1 + HELD))
        requests.at(began_s, 1.0)
        requests.over(began_s, ended_s, _a_second(interval_ms))
        member_s.over(began_s, ended_s, 1.0)
        commits_s = owners[member.group_id] * _a_second(member.commit_interval_ms)
        if member.records is not None:  # a member commits only when it has processed something
            commits_s = 0.0
        requests.over(began_s, ended_s, commits_s)
        for sleeps_s, wakes_s in asleep:
            requests.over(sleeps_s, min(wakes_s, ended_s), -commits_s)
            left_s = min(sleeps_s + member.rebalance_timeout_ms / 1_000, wakes_s, ended_s)
            requests.over(left_s, min(wakes_s, ended_s), -_a_second(interval_ms))
            member_s.over(left_s, min(wakes_s, ended_s), -1.0)
    return Due(step_s, requests.cumulated(), member_s.cumulated())


def _a_second(interval_ms: int) -> float:
    return 1_000 / interval_ms if interval_ms else 0.0


def planned(run: Mapping[str, Any], ended_us: int) -> Planned | None:
    """How many requests of a run were due until its record ended; None: run.json does not say."""
    due, began_us = run.get("due"), run.get("began_us")
    if not isinstance(due, dict) or began_us is None:
        return None
    place = max(0.0, (ended_us - began_us) / 1e6 / due["step_s"]) if due["step_s"] else 0.0
    return Planned(_between(due["requests"], place), _between(due["member_s"], place))


def _between(values: list[float], place: float) -> float:
    if place >= len(values) - 1:
        return float(values[-1])
    before = int(place)
    return float(values[before] + (values[before + 1] - values[before]) * (place - before))


def _owners(plan: Plan) -> Mapping[str, float]:
    """The share of each group's members that own partitions when all are there."""
    partitions = {topic.name: topic.partitions for topic in plan.topics}
    sizes = Counter(member.group_id for member in plan.members)
    topics: dict[str, set[str]] = {}
    for member in plan.members:
        topics.setdefault(member.group_id, set()).update(member.topics)
    return {
        group_id: min(1.0, sum(partitions.get(topic, 0) for topic in topics[group_id]) / size)
        for group_id, size in sizes.items()
    }


def _lives(plan: Plan) -> Iterator[tuple[str, float, float, list[tuple[float, float]]]]:
    """The lives of all members: the member, its beginning and end, and when it sleeps meanwhile."""
    began: dict[str, float] = {}
    asleep: dict[str, list[tuple[float, float]]] = {}
    for action in plan.actions:
        name = action.subject
        if action.kind == START:
            began.setdefault(name, action.at_s)
        elif action.kind == SLEEP and name in began:
            asleep.setdefault(name, []).append((action.at_s, action.at_s + action.value))
        elif action.kind in (LEAVE, CRASH) and name in began:
            yield name, began.pop(name), action.at_s, asleep.pop(name, [])
    for name, began_s in began.items():
        yield name, began_s, plan.duration_s, asleep.get(name, [])


class _Sum:
    """The sum of rates over spans of time, by steps."""

    def __init__(self, step_s: float) -> None:
        self._step_s = step_s
        self._at = [0.0] * (STEPS + 1)
        """What is due within each step beside the rates of whole steps."""
        self._turns = [0.0] * (STEPS + 2)
        """The changes of the rate of whole steps."""

    def at(self, at_s: float, amount: float) -> None:
        self._at[self._place(at_s)] += amount

    def over(self, since_s: float, until_s: float, rate_s: float) -> None:
        if until_s <= since_s or not rate_s:
            return
        first, last = self._place(since_s), self._place(until_s)
        if first == last:
            self._at[first] += (until_s - since_s) * rate_s
            return
        self._at[first] += ((first + 1) * self._step_s - since_s) * rate_s
        self._at[last] += (until_s - last * self._step_s) * rate_s
        self._turns[first + 1] += rate_s
        self._turns[last] -= rate_s

    def cumulated(self) -> list[float]:
        """How much was due by the end of each step; the first entry is the beginning."""
        found, total, rate_s = [0.0], 0.0, 0.0
        for step in range(STEPS):
            rate_s += self._turns[step]
            total += rate_s * self._step_s + self._at[step]
            found.append(total)
        return found

    def _place(self, at_s: float) -> int:
        return min(max(int(at_s / self._step_s), 0), STEPS) if self._step_s else 0
