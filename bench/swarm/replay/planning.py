"""Makes a swarm's plan of the lives of recorded groups.

PURE. A plan has three parts: first the members start that were there already, and settle; then the recorded
time passes, faster if wished; its end is calm, because the judge has to see that all groups are stable again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from bench.swarm.planning.plan import GROW, Action, Plan
from bench.swarm.planning.scenario import MEMBERS_MAX, BadScenario
from bench.swarm.replay import casting
from bench.swarm.replay.past import pasts
from bench.swarm.replay.subscriptions import Subscriptions, subscriptions
from bench.swarm.replay.timeline import Timeline, timeline_of
from bench.swarm.replay.told import Recording
from bench.swarm.replay.words import words
from storage.history.judge.findings import LEAST_ANSWERED

SCENARIO: Final = "replay"
DURATION_MAX_S: Final = 7 * 86_400.0


class Wish(NamedTuple):
    """How history is replayed."""

    faster: float = 1.0
    """How many times as fast joins, leaves and commits follow each other. Timeouts stay as they were."""
    times: int = 1
    """How many copies of each group there are, which read the same topics."""
    prefix: str = ""
    """The beginning of the names of groups and topics: a Kafka remembers those of earlier runs."""
    members_per_connection: int = 1
    thresholds: tuple[str, ...] = ()
    """The limits of the figures."""
    least_answered: float = LEAST_ANSWERED


class Replay(NamedTuple):
    """The plan of a replay, and how it relates to the recorded history."""

    plan: Plan
    timeline: Timeline
    groups: dict[str, str]
    """The recorded group of each of the plan's."""
    words: tuple[str, ...]
    """Sentences about what is not known, or not as it was."""


def replay(recording: Recording, wish: Wish, seed: int) -> Replay:
    """Make the plan of a replay. Raises BadScenario if there is nothing to replay, or too much of it."""
    found = pasts(recording)
    lives = sum(len(past.lives) for past in found) * wish.times
    if not found:
        raise BadScenario(f"no group that has a member is recorded from {recording.span}")
    if lives > MEMBERS_MAX:
        raise BadScenario(
            f"{lives:,} lives of members would be replayed, and {MEMBERS_MAX:,} at most are allowed: choose"
            " a shorter time, one --group, or fewer --times"
        )
    timeline = timeline_of(recording.span, found, wish.faster)
    if timeline.duration_s > DURATION_MAX_S:
        raise BadScenario("a replay lasts a week at most: choose a shorter time, or --faster")
    read = subscriptions(recording.span, found, wish.prefix)
    cast = {
        f"{wish.prefix}{past.group_id}{_mark(copy)}": (past, copy)
        for past in found
        for copy in range(wish.times)
    }
    played = [
        casting.played(name, past, read.of_group[past.group_id], timeline) for name, (past, _) in cast.items()
    ]
    plan = Plan(
        scenario=SCENARIO,
        seed=seed,
        duration_s=round(timeline.duration_s, 3),
        topics=read.topics,
        members=tuple(member for each in played for member in each.members),
        actions=_by_time(read, timeline, [action for each in played for action in each.actions]),
        members_per_connection=wish.members_per_connection,
        thresholds=wish.thresholds,
        least_answered=wish.least_answered,
    )
    late = sum(each.late for each in played)
    groups = {name: past.group_id for name, (past, _) in cast.items()}
    return Replay(plan, timeline, groups, tuple(words(recording, found, late)))


def _mark(copy: int) -> str:
    """The addition to the name of a copy; empty for the first one, which is named as the group was."""
    return f"~{copy + 1}" if copy else ""


def _by_time(read: Subscriptions, timeline: Timeline, actions: Sequence[Action]) -> tuple[Action, ...]:
    """What happens to one member stays in its order where the time is the same."""
    grown = [Action(timeline.at_s(each.at_ms), GROW, each.topic, each.partitions) for each in read.growths]
    return tuple(sorted((*grown, *actions), key=lambda action: action.at_s))
