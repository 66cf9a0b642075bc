"""What a load shape is: it says what happens to the members of some groups, and when.

PURE: chance is an argument, so a seed gives the same actions always. Several shapes may work on the same
groups; `schedule` makes one plan of what they say. A shape that disturbs begins at `begin_s` and stops before
a calm end, in which every group has to become stable again.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Annotated, ClassVar, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from bench.swarm.planning.plan import Action, MemberPlan, ProducerPlan, TopicPlan

CALM_S: Final = 20.0
"""The calm at a run's end, at most a quarter of the run: the judge needs it to see that all groups are stable
again."""

Seconds = Annotated[float, Field(ge=0, le=86_400)]
Pause = Annotated[float, Field(ge=0.1, le=86_400)]
"""The seconds between two actions of the same kind; the least one bounds a plan."""
Count = Annotated[int, Field(ge=1, le=100_000)]
Share = Annotated[float, Field(gt=0, le=1)]
Groups = tuple[tuple[MemberPlan, ...], ...]


class Stage(NamedTuple):
    """The groups and topics that a shape works on."""

    groups: Groups
    topics: tuple[TopicPlan, ...]
    duration_s: float
    producers: tuple[ProducerPlan, ...] = ()

    @property
    def calm_from_s(self) -> float:
        return self.duration_s - min(CALM_S, self.duration_s / 4)


class Shape(BaseModel):
    """A load shape."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    brings_members: ClassVar[bool] = False
    """Whether it starts members; False: it needs members that are there. Where no shape starts them, `Steady`
    does."""

    def fitted(self, member: MemberPlan) -> MemberPlan:
        """The member as this shape wants it."""
        return member

    def actions(self, stage: Stage, chance: Random) -> Iterator[Action]:
        """The actions of the shape, in any order. `schedule` drops those that make no sense together with
        other shapes' actions."""
        yield from ()


class Disturbance(Shape):
    """A shape that works on members that are there."""

    begin_s: Seconds = 10.0

    def times(self, stage: Stage, every_s: float, chance: Random) -> Iterator[float]:
        """Times from `begin_s` until the calm end; the first is drawn by chance, so that no two series are in
        step."""
        at_s = self.begin_s + chance.uniform(0, every_s)
        while at_s < stage.calm_from_s:
            yield at_s
            at_s += every_s


def everybody(groups: Groups) -> list[MemberPlan]:
    """The members of all groups."""
    return [member for members in groups for member in members]
