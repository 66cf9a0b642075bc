"""What a report tells, as plain values: taken from the tables by Spark (`gather`), shown by `page`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from storage.history.jobs.events import Period
from storage.history.schema import LIVES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    Tables = Mapping[str, DataFrame]

Row = dict[str, Any]
TOP: Final = 12
"""Rows of each list."""
LANES_MAX: Final = 40
COMINGS_MAX: Final = 20_000
"""Of one group's members, looked at for the lanes."""
WINDOW_MS: Final = 3_600_000
"""That the lanes show: the costliest hour, without what is quiet before and after."""
WINDOW_MS_MIN: Final = 60_000
BANDS_MAX: Final = 500


class Life(NamedTuple):
    """One stay of a consumer in its group, cut to the window."""

    from_ms: int
    until_ms: int
    end: str | None
    """How it ended: "left", "expired", "fenced"; None if it went on."""


class Lane(NamedTuple):
    """One consumer."""

    client: str
    lives: tuple[Life, ...]


class Timeline(NamedTuple):
    """A group's hour."""

    group_id: str
    from_ms: int
    until_ms: int
    lanes: tuple[Lane, ...]
    lanes_left_out: int
    bands: tuple[Row, ...]
    """Its rebalances."""


class Facts(NamedTuple):
    """Everything on the page."""

    period: Period
    group_id: str | None
    """The only one it is about."""
    totals: Row
    heat: dict[str, list[int]]
    """Cause -> rebalances by hour of the day."""
    bills: list[Row]
    costliest: list[Row]
    storms: list[Row]
    members: list[Row]
    invariants: list[Row]
    expiring: list[Row]
    """Groups and days of which offsets were about to expire."""
    forecast: Row | None
    timeline: Timeline | None
    skipped: list[tuple[str, str]]


def gather(
    tables: Tables, events: DataFrame, period: Period, group_id: str | None, skipped: list[tuple[str, str]]
) -> Facts:
    """tables: by name, of all days; events: `digest`'s or all of them."""
    mine = {name: _mine(table, period, group_id) for name, table in tables.items()}
    groups, rebalances = mine["groups"], mine["rebalances"]
    bills = _rows(_bills(groups))
    forecast = _rows(tables["forecast"].where(f"date <= '{period.last}'").orderBy("date", ascending=False), 1)
    shown = group_id or (bills[0]["group_id"] if bills and bills[0]["idle_member_ms"] else None)
    return Facts(
        period=period,
        group_id=group_id,
        totals=_totals(groups, mine),
        heat=_heat(rebalances),
        bills=bills,
        costliest=_rows(rebalances.orderBy("idle_member_ms", ascending=False)),
        storms=_rows(mine["storms"].orderBy("idle_member_ms", ascending=False)),
        members=_rows(_suspects(mine["members"])),
        invariants=_rows(mine["invariants"].orderBy("rule", "at_ms")),
        expiring=_rows(groups.where("offsets_expiring > 0").orderBy("expires_ms", ascending=False)),
        forecast=forecast[0] if forecast else None,
        timeline=None if shown is None else _timeline(rebalances, events, shown),
        skipped=skipped,
    )


def _mine(table: DataFrame, period: Period, group_id: str | None) -> DataFrame:
    from pyspark.sql import functions as f

    found = table.where(f"date BETWEEN '{period.first}' AND '{period.last}'")
    if group_id is not None and "group_id" in table.columns:
        found = found.where(f.col("group_id") == group_id)
    return found


def _rows(frame: DataFrame, count: int = TOP) -> list[Row]:
    return [row.asDict(recursive=True) for row in frame.limit(count).collect()]


def _bills(groups: DataFrame) -> DataFrame:
    """By group, over the period."""
    return (
        groups.groupBy("group_id")
        .agg(
            *_sql(
                ("sum(idle_member_ms)", "idle_member_ms"),
                ("sum(rebalances)", "rebalances"),
                ("sum(unstable_ms)", "unstable_ms"),
                ("avg(availability)", "availability"),
                ("max_by(worst_client, coalesce(worst_idle_member_ms, -1))", "worst_client"),
                ("max_by(causes, rebalances)", "causes"),
            )
        )
        .orderBy("idle_member_ms", ascending=False)
    )


def _suspects(members: DataFrame) -> DataFrame:
    """Consumers with a bad day, over these days."""
    bad = members.where("is_flapping OR is_slow OR is_stuck").groupBy("group_id", "client")
    verdicts = [(f"bool_or(is_{verdict})", f"is_{verdict}") for verdict in ("flapping", "slow", "stuck")]
    return bad.agg(
        *_sql(
            *verdicts,
            ("count(*)", "days"),
            ("sum(short_lives)", "short_lives"),
            ("sum(waited_ms)", "waited_ms"),
            ("max(client_software)", "client_software"),
        )
    ).orderBy("days", "waited_ms", "short_lives", ascending=False)


def _totals(groups: DataFrame, mine: Tables) -> Row:
    sums = ("rebalances", "unstable_ms", "idle_member_ms", "moved", "commits")
    found = groups.agg(
        *_sql(*((f"coalesce(sum({name}), 0)", name) for name in sums), ("count(DISTINCT group_id)", "groups"))
    )
    counts = {name: mine[name].count() for name in ("storms", "invariants")}
    return {**found.collect()[0].asDict(), **counts}


def _sql(*named: tuple[str, str]) -> list[Any]:
    from pyspark.sql import functions as f

    return [f.expr(expression).alias(name) for expression, name in named]


def _heat(rebalances: DataFrame) -> dict[str, list[int]]:
    counted = rebalances.selectExpr(
        "coalesce(cause, 'unknown') AS cause", "hour(timestamp_millis(began_ms)) AS hour"
    ).groupBy("cause", "hour")
    heat: dict[str, list[int]] = {}
    for row in counted.count().collect():
        heat.setdefault(row["cause"], [0] * 24)[row["hour"]] += row["count"]
    return dict(sorted(heat.items(), key=lambda each: -sum(each[1])))


def _timeline(rebalances: DataFrame, events: DataFrame, group_id: str) -> Timeline | None:
    from pyspark.sql import functions as f

    mine = rebalances.where(f.col("group_id") == group_id)
    hour = f.expr(f"began_ms - began_ms % {WINDOW_MS}").alias("hour_ms")
    costliest = mine.groupBy(hour).agg(f.sum("idle_member_ms").alias("bill")).orderBy("bill", ascending=False)
    found = _rows(costliest, 1)
    if not found:
        return None
    from_ms = found[0]["hour_ms"]
    until_ms = from_ms + WINDOW_MS
    bands = _rows(
        mine.where(f"began_ms >= {from_ms} AND began_ms < {until_ms}").orderBy("began_ms"), BANDS_MAX
    )
    client = f.coalesce("group_instance_id", f.concat_ws("@", "client_id", "client_host")).alias("client")
    comings = (
        events.where(f.col("group_id") == group_id)
        .where(f.col("kind").isin(*LIVES))
        .where(f"at_ms < {until_ms}")
        .select("at_ms", "kind", "member_id", client)
        .orderBy("at_ms", ascending=False)
    )
    told = _rows(comings, COMINGS_MAX)
    from_ms, until_ms = busy_part(bands, told, from_ms, until_ms)
    lanes = lanes_of(reversed(told), from_ms, until_ms)
    return Timeline(
        group_id,
        from_ms,
        until_ms,
        tuple(lanes[:LANES_MAX]),
        max(0, len(lanes) - LANES_MAX),
        tuple(bands),
    )


def busy_part(bands: Sequence[Row], comings: Sequence[Row], from_ms: int, until_ms: int) -> tuple[int, int]:
    """The part of a window in which anything happened, and a little more; at least a minute."""
    moments = [band[name] or until_ms for band in bands for name in ("began_ms", "ended_ms")]
    moments += [row["at_ms"] for row in comings if row["at_ms"] >= from_ms]
    first_ms, last_ms = min(moments), min(max(moments), until_ms)
    more_ms = max((last_ms - first_ms) // 20, (WINDOW_MS_MIN - last_ms + first_ms) // 2)
    return max(first_ms - more_ms, from_ms), min(last_ms + more_ms, until_ms)


def lanes_of(comings: Iterable[Mapping[str, Any]], from_ms: int, until_ms: int) -> list[Lane]:
    """Consumers with a life in the window, those that came and went most first."""
    begun: dict[str, tuple[str, int]] = {}
    lives: dict[str, list[Life]] = {}
    for row in comings:
        member = row["member_id"]
        if row["kind"] == "member_joined":
            begun[member] = (row["client"], row["at_ms"])
            continue
        client, began_ms = begun.pop(member, (row["client"], from_ms))
        if row["at_ms"] >= from_ms:
            end = row["kind"].removeprefix("member_")
            lives.setdefault(client, []).append(Life(max(began_ms, from_ms), row["at_ms"], end))
    for client, began_ms in begun.values():
        lives.setdefault(client, []).append(Life(max(began_ms, from_ms), until_ms, None))
    busiest = Counter({client: len(each) for client, each in lives.items()})
    return [Lane(client, _sorted(lives[client])) for client in sorted(lives, key=lambda c: (-busiest[c], c))]


def _sorted(lives: Sequence[Life]) -> tuple[Life, ...]:
    return tuple(sorted(lives))
