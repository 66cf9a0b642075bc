"""The load shapes. Their fields are the keys of a scenario file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from types import MappingProxyType
from typing import Annotated, ClassVar, Final, Literal, get_args

from pydantic import Field

from bench.swarm.planning.plan import (
    CONSUMER,
    CONSUMER_SESSION_MS,
    CRASH,
    CUT,
    GROW,
    LEAVE,
    SLEEP,
    START,
    Action,
    MemberPlan,
)
from bench.swarm.planning.shape import Count, Disturbance, Pause, Seconds, Shape, Share, Stage, everybody


class Steady(Shape):
    """All members start at the beginning, and stay."""

    shape: Literal["steady"] = "steady"
    within_s: Seconds = 3.0
    brings_members: ClassVar[bool] = True

    def actions(self, stage: Stage, chance: Random) -> Iterator[Action]:
        for member in everybody(stage.groups):
            yield Action(chance.uniform(0, self.within_s), START, member.name)


class Ramp(Shape):
    """Members start one after the other, and may leave so, too."""

    shape: Literal["ramp"] = "ramp"
    up_s: Seconds | None = None
    """How long the members take to start; None: the first 60 % of the run."""
    down_s: Seconds = 0.0
    """How long they take to leave, before the calm end; 0: they stay."""
    brings_members: ClassVar[bool] = True

    def actions(self, stage: Stage, chance: Random) -> Iterator[Action]:
        up_s = stage.duration_s * 0.6 if self.up_s is None else self.up_s
        members = everybody(stage.groups)
        chance.shuffle(members)
        for place, member in enumerate(members):
            yield Action(place / len(members) * up_s, START, member.name)
            if self.down_s:
                going_s = max(up_s, stage.calm_from_s - self.down_s)
                down_s = max(0.0, min(self.down_s, stage.calm_from_s - going_s))
                yield Action(going_s + place / len(members) * down_s, LEAVE, member.name)


class JoinStorm(Shape):
    """All members start at the same moment; later all leave, and start again."""

    shape: Literal["join-storm"] = "join-storm"
    begin_s: Seconds = 2.0
    within_s: Seconds = 0.2
    every_s: Pause = 30.0
    away_s: Seconds = 5.0
    """The time between the leaving of all and the next storm."""
    brings_members: ClassVar[bool] = True

    def actions(self, stage: Stage, chance: Random) -> Iterator[Action]:
        storm_s = self.begin_s
        members = everybody(stage.groups)
        while True:
            for member in members:
                yield Action(storm_s + chance.uniform(0, self.within_s), START, member.name)
            storm_s += max(self.every_s, self.within_s + self.away_s + 0.1)
            if storm_s >= stage.calm_from_s:
                return
            for member in members:
                yield Action(storm_s - self.away_s, LEAVE, member.name)


class RollingDeploy(Disturbance):
    """Each group is restarted, a few members at a time, again and again."""

    shape: Literal["rolling-deploy"] = "rolling-deploy"
    at_a_time: Count = 1
    away_s: Seconds = 2.0
    pause_s: Pause = 3.0
    """The time until the next members are restarted."""
    rest_s: Pause = 30.0
    """The pause from one deploy of a group to the next."""

    def actions(self, stage: Stage, chance: Random) -> Iterator[Action]:
        for members in stage.groups:
            at_s = self.begin_s + chance.uniform(0, self.pause_s)
            while at_s < stage.calm_from_s:
                for first in range(0, len(members), self.at_a_time):
                    if at_s >= stage.calm_from_s:
                        break
                    for member in members[first : first + self.at_a_time]:
                        yield from _gone(LEAVE, member, at_s, self.away_s)
                    at_s += self.away_s + self.pause_s
                at_s += self.rest_s


class CrashLoop(Disturbance):
    """Some members of each group crash, come back, and crash again. A crash is over when the session has
    ended: the last one is so long before the calm end, if that leaves half of the time to crash in."""

    shape: Literal["crash-loop"] = "crash-loop"
    members: Count = 1
    """How many members of each group crash."""
    up_s: Pause = 8.0
    away_s: Seconds = 2.0

    def actions(self, stage: Stage, chance: Random) -> Iterator[Action]:
        for member in self._looping(stage, chance):
            last_s = self._last_s(stage, member)
            for at_s in self.times(stage, self.up_s + self.away_s, chance):
                if at_s <= last_s:
                    yield from _gone(CRASH, member, at_s, self.away_s)

    def _last_s(self, stage: Stage, member: MemberPlan) -> float:
        is_consumer = member.protocol == CONSUMER
        session_ms = CONSUMER_SESSION_MS if is_consumer else member.session_timeout_ms
        return max(stage.calm_from_s - session_ms / 1_000, (self.begin_s + stage.calm_from_s) / 2)

    def _looping(self, stage: Stage, chance: Random) -> Iterator[MemberPlan]:
        for members in stage.groups:
            yield from chance.sample(members, min(self.members, len(members)))


class Autoscaler(Shape):
    """Each group goes up to all of its members and down to a few, as one that is scaled by its lag."""

    shape: Literal["autoscaler"] = "autoscaler"
    low: Share = 0.4
    """The share of a group's members that are always there, at least one."""
    period_s: Pause = 40.0
    """The time from one peak to the next."""
    within_s: Seconds = 3.0
    """How long the members take that start or leave at a peak or low."""
    brings_members: ClassVar[bool] = True

    def actions(self, stage: Stage, chance: Random) -> Iterator[Action]:
        for members in stage.groups:
            few = max(1, round(len(members) * self.low))
            for member in members[:few]:
                yield Action(chance.uniform(0, self.within_s), START, member.name)
            turn_s, kind = chance.uniform(0.25, 0.5) * self.period_s, START
            while turn_s < stage.calm_from_s:
                for member in members[few:]:
                    yield Action(turn_s + chance.uniform(0, self.within_s), kind, member.name)
                turn_s, kind = turn_s + self.period_s / 2, LEAVE if kind == START else START


class SlowMember(Disturbance):
    """Some members of each group take longer than max.poll.interval.ms now and then."""

    shape: Literal["slow-member"] = "slow-member"
    members: Count = 1
    """How many members of each group are slow."""
    beyond_s: Annotated[float, Field(ge=0.1, le=3_600)] = 5.0
    """How much longer than the rebalance time-out, which is Kafka's max.poll.interval.ms, they take."""
    every_s: Pause = 40.0

    def actions(self, stage: Stage, chance: Random) -> Iterator[Action]:
        for members in stage.groups:
            for member in chance.sample(members, min(self.members, len(members))):
                processing_s = member.rebalance_timeout_ms / 1_000 + self.beyond_s
                for at_s in self.times(stage, max(self.every_s, processing_s + 0.1), chance):
                    if at_s + processing_s < stage.calm_from_s:
                        yield Action(at_s, SLEEP, member.name, processing_s)


class FlappingNetwork(Disturbance):
    """The connections of some members end, again and again."""

    shape: Literal["flapping-network"] = "flapping-network"
    share: Share = 0.3
    """The share of all members whose connections end; they are chosen anew each time."""
    every_s: Pause = 5.0

    def actions(self, stage: Stage, chance: Random) -> Iterator[Action]:
        members = everybody(stage.groups)
        many = max(1, round(len(members) * self.share))
        for at_s in self.times(stage, self.every_s, chance):
            for member in chance.sample(members, many):
                yield Action(at_s + chance.uniform(0, self.every_s / 2), CUT, member.name)


class CommitHeavy(Shape):
    """Members commit all that they own, all the time."""

    shape: Literal["commit-heavy"] = "commit-heavy"
    interval_ms: Annotated[int, Field(ge=10, le=3_600_000)] = 200
    partitions_max: Count = 1_000
    """How many partitions one OffsetCommit has at most."""

    def fitted(self, member: MemberPlan) -> MemberPlan:
        return member._replace(commit_interval_ms=self.interval_ms, commit_partitions_max=self.partitions_max)


class TopicsGrowing(Disturbance):
    """Topics get more partitions again and again."""

    shape: Literal["topics-growing"] = "topics-growing"
    by: Count = 4
    every_s: Pause = 15.0
    partitions_max: Count = 1_000
    """How many partitions a topic grows to at most."""

    def actions(self, stage: Stage, chance: Random) -> Iterator[Action]:
        for topic in stage.topics:
            partitions = topic.partitions
            for at_s in self.times(stage, self.every_s, chance):
                if partitions + self.by > self.partitions_max:
                    break
                partitions += self.by
                yield Action(at_s, GROW, topic.name, partitions)


AnyShape = Annotated[
    Steady
    | Ramp
    | JoinStorm
    | RollingDeploy
    | CrashLoop
    | Autoscaler
    | SlowMember
    | FlappingNetwork
    | CommitHeavy
    | TopicsGrowing,
    Field(discriminator="shape"),
]
SHAPES: Final[Mapping[str, type[Shape]]] = MappingProxyType(
    {shape.model_fields["shape"].default: shape for shape in get_args(get_args(AnyShape)[0])}
)
"""Every shape by the name that a scenario file uses."""


def _gone(how: str, member: MemberPlan, at_s: float, away_s: float) -> Iterator[Action]:
    yield Action(at_s, how, member.name)
    yield Action(at_s + away_s, START, member.name)
