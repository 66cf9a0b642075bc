"""Finds the topics that a replay needs, how many partitions they have, and which groups read them.

PURE. History has no subscriptions, only the partitions that members were assigned. Each member of a group is
taken to read all topics that the group was assigned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from bench.swarm.planning.plan import TopicPlan
from bench.swarm.planning.scenario import BadScenario
from bench.swarm.planning.tables import PARTITIONS_MAX
from bench.swarm.replay.past import GroupPast, Width
from storage.history.period import Period

NAME_MAX: Final = 249
"""The longest name of a topic in Kafka."""


class Growth(NamedTuple):
    """A topic gets more partitions."""

    at_ms: int
    topic: str
    partitions: int


class Subscriptions(NamedTuple):
    """The subscriptions of all groups, by the names of the replay."""

    topics: tuple[TopicPlan, ...]
    of_group: dict[str, tuple[str, ...]]
    """The topics of each recorded group."""
    growths: tuple[Growth, ...]


def subscriptions(span: Period, found: Sequence[GroupPast], prefix: str) -> Subscriptions:
    """Find the subscriptions of all groups. Raises BadScenario if a topic has too many partitions."""
    widths = {past.group_id: _whole(past) for past in found}
    by_topic: dict[str, list[Width]] = {}
    for seen_by_group in widths.values():
        for width in seen_by_group:
            by_topic.setdefault(width.topic, []).append(width)
    names = dict(_names(by_topic, prefix))
    topics, growths = [], []
    for topic, seen in by_topic.items():
        partitions, later = _grown(span, sorted(seen))
        if (most := max([partitions, *(each.partitions for each in later)])) > PARTITIONS_MAX:
            raise BadScenario(f"{topic} has {most:,} partitions; {PARTITIONS_MAX:,} at most are replayed")
        topics.append(TopicPlan(names[topic], partitions))
        growths += [Growth(each.at_ms, names[topic], each.partitions) for each in later]
    of_group = {
        group_id: tuple(sorted({names[width.topic] for width in of_one}))
        for group_id, of_one in widths.items()
    }
    return Subscriptions(tuple(topics), of_group, tuple(growths))


def owned_at_most(past: GroupPast) -> int:
    """How many partitions the group's members can own."""
    return sum({width.topic: width.partitions for width in _whole(past)}.values())


def _whole(past: GroupPast) -> list[Width]:
    """The group's widths, with those that no event tells: moves are told only of some partitions where there
    are very many, and not at all of groups whose assignments only their members can read."""
    if not past.widths:
        partitions = past.partitions or len(past.lives)
        return [Width(0, f"{past.group_id}.0", partitions, is_growth=False)]
    latest = {width.topic: width for width in past.widths}
    missing = past.partitions - sum(width.partitions for width in latest.values())
    if missing <= 0:
        return list(past.widths)
    widest = max(latest.values(), key=lambda width: width.partitions)
    return [*past.widths, widest._replace(partitions=widest.partitions + missing, is_growth=False)]


def _grown(span: Period, seen: Sequence[Width]) -> tuple[int, list[Width]]:
    """How many partitions a topic has at the beginning, and when it gets more. Partitions that show only
    later, and are no growth, were there all along."""
    grows = [each for each in seen if each.is_growth and each.at_ms >= span.since_ms]
    first_ms = min((each.at_ms for each in grows), default=span.until_ms)
    at_first = max(each.partitions for each in seen if each.at_ms < first_ms or not each.is_growth)
    later: list[Width] = []
    for each in grows:
        if each.partitions > max(at_first, *(width.partitions for width in later), 0):
            later.append(each)
    return at_first, later


def _names(topics: Iterable[str], prefix: str) -> Iterable[tuple[str, str]]:
    """The names of a replay's own topics."""
    for place, topic in enumerate(topics):
        name = f"{prefix}{topic}"
        is_allowed = len(name) <= NAME_MAX and all(map(_is_allowed, name))
        yield topic, name if is_allowed else f"{prefix}topic-{place}"


def _is_allowed(letter: str) -> bool:
    return letter.isascii() and (letter.isalnum() or letter in "._-")
