"""A group's membership, replayed through assignors: what would have moved, and how evenly?

The assignors are the caller's (`Replay`): nothing here knows them. History does not tell subscriptions: all
members are taken to subscribe to all topics that the group has owned. Of a group that has owned one topic
only that is no guess; of any other the row says that it is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from storage.history.jobs.engine import Replayed, Row
from storage.history.jobs.table import Column, Table

WHAT_IF = Table(
    "what_if",
    "One row for each group, day and assignor.",
    (
        Column("group_id", "string", "The group."),
        Column("assignor", "string", "Assignor that was asked."),
        Column("assignments", "bigint", "Assignments made on this day: one for each change of members."),
        Column("moved", "bigint", "Partitions that would have changed owner, from members that stayed."),
        Column("uneven", "bigint", "Greatest difference between two members' numbers of partitions."),
        Column("members_max", "bigint", "Most members at one time."),
        Column("partitions", "bigint", "Partitions of these topics."),
        Column("topics", "bigint", "Topics of which the group has owned partitions."),
        Column("assumes", "string", "What was guessed because history does not say it; null: nothing."),
    ),
)
SAME_TOPICS: Final = "each member subscribes to all topics"


class Assigned(NamedTuple):
    """What one assignment changed; a group without members has zeros."""

    moved: int
    """How many partitions changed their owner although the former owner was still a member."""
    least: int
    """How many partitions the member has that has fewest."""
    most: int


Step = Callable[[Sequence[str], Sequence[str]], Assigned]
"""Member ids that came and that went -> what the assignor made of it."""
Replay = Callable[[str, Mapping[str, int]], Step]
"""An assignor's name, topics with how many partitions they have -> a group without members."""


def replayed_with(assignors: Sequence[str], replay: Replay) -> Replayed:
    """Replay the days of groups, given as columns of `memberships`; an engine's `replay` calls it."""
    names = tuple(assignors)

    def replayed(groups: Any, turns: Any, topics: Any) -> list[list[Row]]:
        each = zip(groups, turns, topics, strict=True)
        return [_replayed(group, made, owned, names, replay) for group, made, owned in each]

    return replayed


def _replayed(
    group_id: str,
    turns: Sequence[Mapping[str, Any]],
    topics: Sequence[Mapping[str, Any]],
    assignors: tuple[str, ...],
    replay: Replay,
) -> list[Row]:
    """Return a row for each day of one group."""
    counts = {each["topic"]: each["partitions"] for each in topics}
    in_order = sorted(turns, key=lambda turn: (turn["at_ms"], turn["date"]))
    common = {
        "group_id": group_id,
        "partitions": sum(counts.values()),
        "topics": len(counts),
        "assumes": SAME_TOPICS if len(counts) > 1 else None,
    }
    return [
        {**day, **common, "assignor": assignor}
        for assignor in assignors
        for day in _days(in_order, replay(assignor, counts))
    ]


def _days(turns: Sequence[Mapping[str, Any]], step: Step) -> Iterator[Row]:
    members: set[str] = set()
    day: Row = {}
    for turn in turns:
        if turn["date"] != day.get("date"):
            if day:
                yield day
            day = {"date": turn["date"], "assignments": 0, "moved": 0, "uneven": 0, "members_max": 0}
        # Who left was there before events are known, perhaps: it is not ours to take away.
        went = [member for member in sorted(turn["went"] or ()) if member in members]
        came = [member for member in dict.fromkeys(sorted(turn["came"] or ())) if member not in members]
        members = (members - set(went)) | set(came)
        if not (went or came):
            continue
        made = step(came, went)
        day["assignments"] += 1
        day["moved"] += made.moved
        day["uneven"] = max(day["uneven"], made.most - made.least)
        day["members_max"] = max(day["members_max"], len(members))
    if day:
        yield day
