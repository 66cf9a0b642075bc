"""A group's membership, replayed through assignors: what would have moved, and how evenly?

The assignors are the caller's (`Replay`): nothing here knows them. History does not tell subscriptions: all
members are taken to subscribe to all topics that the group has owned. Of a group that has owned one topic
only that is no guess; of any other the row says that it is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from storage.history.jobs.table import DATE, Column, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WHAT_IF = Table(
    "what_if",
    "One row for each group, day and assignor.",
    (
        Column("group_id", "string", ""),
        Column("assignor", "string", "That was asked."),
        Column("assignments", "bigint", "Made on this day: one for each change of members."),
        Column("moved", "bigint", "Partitions that would have changed owner, from members that stayed."),
        Column("uneven", "bigint", "The greatest difference of two members' partitions."),
        Column("members_max", "bigint", ""),
        Column("partitions", "bigint", ""),
        Column("topics", "bigint", "That the group has owned partitions of."),
        Column("assumes", "string", "What history does not tell, and was guessed; null: nothing."),
    ),
)
SAME_TOPICS: Final = "each member subscribes to all topics"


class Assigned(NamedTuple):
    """What one assignment did; nothing to a group without members."""

    moved: int
    """Partitions that changed owner although it stayed."""
    least: int
    """Partitions of the member that has fewest."""
    most: int


Step = Callable[[Sequence[str], Sequence[str]], Assigned]
"""Member ids that came and that went -> what the assignor made of it."""
Replay = Callable[[str, Mapping[str, int]], Step]
"""An assignor's name, topics with how many partitions they have -> a group without members."""


def what_if(events: DataFrame, lives: DataFrame, assignors: Sequence[str], replay: Replay) -> DataFrame:
    """events and lives: `digest`'s. `replay` is sent to Spark's workers, which must be able to import it."""
    from pyspark.sql import functions as f

    topics = (
        events.where("kind = 'rebalance_ended'")
        .select("group_id", f.explode("moves").alias("move"))
        .groupBy("group_id", "move.topic")
        .agg((f.max("move.partition") + 1).alias("count"))
        .groupBy("group_id")
        .agg(f.collect_list(f.struct("topic", "count")).alias("topics"))
    )
    came = f.col("kind") == "member_joined"
    changes = (
        lives.groupBy("date", "group_id", "at_ms")
        .agg(
            f.collect_list(f.when(came, f.col("member_id"))).alias("came"),
            f.collect_list(f.when(~came, f.col("member_id"))).alias("went"),
        )
        .groupBy("group_id")
        .agg(f.sort_array(f.collect_list(f.struct("at_ms", "date", "came", "went"))).alias("changes"))
        .join(topics, "group_id")
    )
    names = tuple(assignors)

    def replayed(group_id: pa.Array, changes: pa.Array, topics: pa.Array) -> pa.Array:
        groups = zip(*map(_plain, (group_id, changes, topics)), strict=True)
        days = [_replayed(group, made, owned, names, replay) for group, made, owned in groups]
        return pa.array(days, type=pa.list_(_ARROW))

    # A row is a group with all its changes, so that Arrow batches hold whole groups.
    found = f.arrow_udf(replayed, f"array<struct<{WHAT_IF.ddl}>>")("group_id", "changes", "topics")
    return changes.select(f.explode(found).alias("day")).select("day.*").select(*WHAT_IF.names)


_TYPES = {"string": pa.string(), "bigint": pa.int64(), "date": pa.date32()}
_ARROW = pa.struct([(column.name, _TYPES[column.type]) for column in (*WHAT_IF.columns, DATE)])


def _plain(column: pa.Array) -> list[Any]:
    values: list[Any] = column.to_pylist()
    return values


def _replayed(
    group_id: str,
    changes: Sequence[Mapping[str, Any]],
    topics: Sequence[Mapping[str, Any]],
    assignors: tuple[str, ...],
    replay: Replay,
) -> list[dict[str, Any]]:
    """One group's days, on a worker."""
    counts = {each["topic"]: each["count"] for each in topics}
    common = {
        "group_id": group_id,
        "partitions": sum(counts.values()),
        "topics": len(counts),
        "assumes": SAME_TOPICS if len(counts) > 1 else None,
    }
    return [
        {**day, **common, "assignor": assignor}
        for assignor in assignors
        for day in _days(changes, replay(assignor, counts))
    ]


def _days(changes: Sequence[Mapping[str, Any]], step: Step) -> Iterator[dict[str, Any]]:
    members: set[str] = set()
    day: dict[str, Any] = {}
    for change in changes:
        if change["date"] != day.get("date"):
            if day:
                yield day
            day = {"date": change["date"], "assignments": 0, "moved": 0, "uneven": 0, "members_max": 0}
        # Who left was there before events are known, perhaps: it is not ours to take away.
        went = [member for member in change["went"] if member in members]
        came = [member for member in dict.fromkeys(change["came"]) if member not in members]
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
