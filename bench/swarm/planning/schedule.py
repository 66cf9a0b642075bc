"""Makes one plan of actions of what several shapes want of the same members. PURE."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from random import Random
from typing import Final, NamedTuple, TypeVar

from bench.swarm.planning.clients import CLIENTS
from bench.swarm.planning.plan import CUT, GROW, SLEEP, START, Action, MemberPlan, ProducerPlan, TopicPlan
from bench.swarm.planning.shape import Groups, Shape, Stage
from bench.swarm.planning.shapes import Steady
from bench.swarm.planning.tables import GroupsTable

Name = TypeVar("Name", bound=str)
AT_DIGITS: Final = 3
"""The digits of a time in seconds: more than milliseconds only make plans hard to read."""


class Said(NamedTuple):
    """An action, and the place of the shape that wants it."""

    action: Action
    shape: int
    brings_members: bool


def stage_of(table: GroupsTable, prefix: str, duration_s: float) -> Stage:
    """Make the groups and topics of a table, as its shapes want them."""
    protocols = spread(table.protocols, table.count)
    groups, topics, producers = [], [], []
    for number, protocol in enumerate(protocols):
        group_id = f"{prefix}{table.name}-{number}"
        own = _topics(table, prefix + table.name if table.topics.shared else group_id)
        if number == 0 or not table.topics.shared:
            topics += own
            producers += _producers(table, group_id, own)
        groups.append(tuple(_member(table, group_id, place, protocol, own) for place in range(table.members)))
    return Stage(fitted(tuple(groups), table.shapes), tuple(topics), duration_s, tuple(producers))


def spread(weights: Mapping[Name, float], count: int) -> list[Name]:
    """Make so many names in proportion to weights, mixed evenly: the first ones are in proportion, however
    many are taken."""
    credit = dict.fromkeys(weights, 0.0)
    chosen = []
    for _ in range(count):
        for name, weight in weights.items():
            credit[name] += weight
        name = max(credit, key=lambda each: credit[each])
        credit[name] -= sum(weights.values())
        chosen.append(name)
    return chosen


def _topics(table: GroupsTable, of: str) -> list[TopicPlan]:
    return [TopicPlan(f"{of}.{number}", table.topics.partitions) for number in range(table.topics.count)]


def _producers(table: GroupsTable, group_id: str, topics: Sequence[TopicPlan]) -> list[ProducerPlan]:
    """The producers of a table: one for the topics of each group, or one for those that all groups read."""
    records = table.records
    if records is None:
        return []
    names = tuple(topic.name for topic in topics)
    return [ProducerPlan(f"{group_id}/producer", names, records.produce_s, records.bytes)]


def _member(
    table: GroupsTable, group_id: str, place: int, protocol: str, topics: Sequence[TopicPlan]
) -> MemberPlan:
    name = f"{group_id}/{place}"
    client = CLIENTS[table.client]
    return MemberPlan(
        name=name,
        group_id=group_id,
        protocol=protocol,
        topics=tuple(topic.name for topic in topics),
        instance_id=name if table.static else None,
        session_timeout_ms=table.session_timeout_ms or client.session_timeout_ms,
        heartbeat_interval_ms=table.heartbeat_interval_ms or client.heartbeat_interval_ms,
        rebalance_timeout_ms=table.rebalance_timeout_ms,
        commit_interval_ms=table.commit_interval_ms,
        commit_partitions_max=table.commit_partitions_max,
        client=client.name,
        records=None if table.records is None else table.records.plan,
    )


def fitted(groups: Groups, shapes: Sequence[Shape]) -> Groups:
    """The members as all shapes want them; the last shape that wants something has it."""
    for shape in shapes:
        groups = tuple(tuple(map(shape.fitted, members)) for members in groups)
    return groups


def actions(stage: Stage, shapes: Sequence[Shape], seed: str) -> Iterator[Action]:
    """The actions of all shapes together, in the order of time."""
    if not any(shape.brings_members for shape in shapes):
        shapes = (Steady(), *shapes)
    return consistent(
        chain.from_iterable(_said(place, shapes, stage, seed) for place in range(len(shapes))),
        stage.duration_s,
    )


def _said(place: int, shapes: Sequence[Shape], stage: Stage, seed: str) -> Iterator[Said]:
    """The actions of one shape. Each has a random source of its own, so that one more shape does not move the
    others' actions."""
    shape = shapes[place]
    alike = sum(type(each) is type(shape) for each in shapes[:place])
    chance = Random(f"{seed}/{type(shape).__name__}/{alike}")
    for action in shape.actions(stage, chance):
        at_s = round(action.at_s, AT_DIGITS)
        yield Said(action._replace(at_s=at_s), place, shape.brings_members)


def consistent(said: Iterable[Said], duration_s: float) -> Iterator[Action]:
    """The actions in the order of time, without those that make no sense."""
    so_far = _SoFar()
    for each in sorted((s for s in said if s.action.at_s < duration_s), key=lambda s: s.action.at_s):
        if so_far.allows(each):
            yield each.action


class _SoFar:
    """Which members are there: only one that is gone can start, only one that is there can leave, crash,
    sleep or be cut off."""

    def __init__(self) -> None:
        self._asleep_until_s: dict[str, float] = {}
        """The time until which each member that is there sleeps."""
        self._taken_by: dict[str, int] = {}
        """The shape that has to bring a member back: a deploy restarts no member that the autoscaler took
        away."""
        self._partitions: dict[str, float] = {}

    def allows(self, said: Said) -> bool:
        """Whether the action makes sense; then it counts as done."""
        action = said.action
        if action.kind == GROW:
            return self._grows(action)
        if action.kind == START:
            return self._starts(said)
        if action.subject not in self._asleep_until_s:
            if said.brings_members:
                self._taken_by[action.subject] = said.shape
            return False
        if action.kind == CUT:
            return True
        if action.kind == SLEEP:
            return self._sleeps(action)
        del self._asleep_until_s[action.subject]
        self._taken_by[action.subject] = said.shape
        return True

    def _starts(self, said: Said) -> bool:
        name = said.action.subject
        if name in self._asleep_until_s or not (
            said.brings_members or self._taken_by.get(name) == said.shape
        ):
            return False
        self._asleep_until_s[name] = 0.0
        return True

    def _sleeps(self, action: Action) -> bool:
        if action.at_s < self._asleep_until_s[action.subject]:
            return False
        self._asleep_until_s[action.subject] = action.at_s + action.value
        return True

    def _grows(self, action: Action) -> bool:
        if action.value <= self._partitions.get(action.subject, 0):
            return False
        self._partitions[action.subject] = action.value
        return True
