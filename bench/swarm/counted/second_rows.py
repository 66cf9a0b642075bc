"""A run second by second as rows, for spreadsheets and data frames: the content of seconds.csv.

PURE. Times are the wall clock's, as charts and the server's logs have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from bench.swarm.counted.seconds import Seconds
from bench.swarm.counted.wall import Wall


class Column(NamedTuple):
    """A column of a table."""

    name: str
    type: str
    """The type's name in DuckDB."""
    unit: str
    meaning: str


COLUMNS: Final = (
    Column(
        "at_utc",
        "TIMESTAMP",
        "UTC",
        "When the second began; empty if the run did not say what time it was.",
    ),
    Column("second", "BIGINT", "s", "Time since the run's beginning."),
    Column("requests", "BIGINT", "requests", "Sent, connects and look-ups among them."),
    Column("errors", "BIGINT", "requests", "Refused or lost, by the time of the answer or of the loss."),
    Column("refused", "BIGINT", "requests", "Answered with an error that is no mere news."),
    Column("lost", "BIGINT", "requests", "Connection closed, or time-out, before an answer."),
    Column("commits", "BIGINT", "requests", "OffsetCommits that were acknowledged."),
    Column(
        "p50_ms", "DOUBLE", "ms", "Latency of what was answered, joins and syncs left out; empty without any."
    ),
    Column("p99_ms", "DOUBLE", "ms", "The same."),
    Column("members_settled", "BIGINT", "members", "At the end of the second."),
    Column("members_rebalancing", "BIGINT", "members", "At the end of the second."),
    Column(
        "groups_stable", "BIGINT", "groups", "All of whose members are settled, at the end of the second."
    ),
    Column("groups_without_coordinator", "BIGINT", "groups", "At any time of the second."),
    Column("rebalances_began", "BIGINT", "rebalances", "Generations and epochs that members learned of."),
    Column(
        "rebalances_ended",
        "BIGINT",
        "rebalances",
        "Rebalances that ended, by the last member's settled answer.",
    ),
    Column("partitions_moved", "BIGINT", "partitions", "Told to be a member's that another one had."),
    Column(
        "lag",
        "BIGINT",
        "records",
        "Records that all groups together were behind at the second's end; empty if none were written.",
    ),
)


def names() -> list[str]:
    return [column.name for column in COLUMNS]


def rows(seconds: Seconds, wall: Wall, lag: Sequence[int] = ()) -> Iterator[tuple[Any, ...]]:
    """Make a row for each second, in the order of COLUMNS. `seconds` has steps of one second; `lag` is empty
    if no records were written."""
    assert seconds.step_s == 1, "a row is a second"
    for place in range(len(seconds.requests_s)):
        refused, lost = round(seconds.refused_s[place]), round(seconds.lost_s[place])
        yield (
            wall.iso(wall.began_us + place * 1_000_000),
            place,
            round(seconds.requests_s[place]),
            refused + lost,
            refused,
            lost,
            round(seconds.commits_s[place]),
            seconds.p50_ms[place],
            seconds.p99_ms[place],
            seconds.settled[place],
            seconds.rebalancing[place],
            seconds.groups_stable[place],
            seconds.without_coordinator[place],
            seconds.rebalances[place],
            seconds.rebalances_ended[place],
            seconds.moved[place],
            lag[place] if place < len(lag) else None,
        )


def csv_lines(found: Iterable[tuple[Any, ...]]) -> Iterator[str]:
    """Make the lines of a CSV file. There are only numbers and times, which need no quotes; an unknown value
    is empty."""
    yield ",".join(names())
    for row in found:
        yield ",".join("" if value is None else str(value) for value in row)
