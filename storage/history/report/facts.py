"""What a report tells, as plain values: taken from the tables by an engine (`gather`), shown by `page`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from storage.history.jobs.engine import Engine, Row, literal
from storage.history.jobs.tables import named
from storage.history.period import Period

TOP: Final = 12
"""How many rows each list of the page has at most."""
LANES_MAX: Final = 40
COMINGS_MAX: Final = 20_000
"""How many comings of one group's members the lanes look at."""
WINDOW_MS: Final = 3_600_000
"""How much time the lanes show: the group's costliest hour, without quiet at its beginning and end."""
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
    """The rebalances of the group within that hour."""


class Facts(NamedTuple):
    """Everything on the page."""

    period: Period
    group_id: str | None
    """The group that the page is about; None if it is about all groups."""
    totals: Row
    heat: dict[str, list[int]]
    """The number of rebalances by hour of the day, for each cause."""
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


def gather(engine: Engine, period: Period, group_id: str | None, skipped: list[tuple[str, str]]) -> Facts:
    """Ask the engine for all facts, while it has the tables of the period (`made`)."""
    ask = _Asking(engine, period, group_id)
    groups, rebalances = ask.of("groups"), ask.of("rebalances")
    bills = ask.top(f"SELECT {BILLS} FROM {groups} GROUP BY group_id ORDER BY idle_member_ms DESC, group_id")
    forecast = ask.top(
        f"SELECT * FROM forecast WHERE date <= DATE '{period.last}' ORDER BY date DESC LIMIT 1"
    )
    shown = group_id or (bills[0]["group_id"] if bills and bills[0]["idle_member_ms"] else None)
    return Facts(
        period=period,
        group_id=group_id,
        totals=_totals(ask),
        heat=_heat(ask),
        bills=bills,
        costliest=ask.top(f"SELECT * FROM {rebalances} ORDER BY idle_member_ms DESC NULLS LAST, began_ms"),
        storms=ask.top(f"SELECT * FROM {ask.of('storms')} ORDER BY idle_member_ms DESC NULLS LAST, began_ms"),
        members=ask.top(
            f"SELECT {SUSPECTS} FROM {ask.of('members')} WHERE is_flapping OR is_slow OR is_stuck"
            " GROUP BY group_id, client ORDER BY days DESC, waited_ms DESC, short_lives DESC, client"
        ),
        invariants=ask.top(f"SELECT * FROM {ask.of('invariants')} ORDER BY rule, at_ms"),
        expiring=ask.top(f"SELECT * FROM {groups} WHERE offsets_expiring > 0 ORDER BY expires_ms DESC"),
        forecast=forecast[0] if forecast else None,
        timeline=None if shown is None else _timeline(ask, shown),
        skipped=skipped,
    )


BILLS: Final = (
    "group_id, sum(idle_member_ms) AS idle_member_ms, sum(rebalances) AS rebalances,"
    " sum(unstable_ms) AS unstable_ms,"
    " sum(availability * served_ms) / nullif(sum(served_ms), 0) AS availability,"
    " arg_max(worst_client, coalesce(worst_idle_member_ms, -1)) AS worst_client"
)
"""Figures by group, over the period."""
SUSPECTS: Final = (
    "group_id, client, bool_or(is_flapping) AS is_flapping, bool_or(is_slow) AS is_slow,"
    " bool_or(is_stuck) AS is_stuck, count(*) AS days, sum(short_lives) AS short_lives,"
    " sum(waited_ms) AS waited_ms, max(client_software) AS client_software"
)
"""Consumers with a bad day, over these days."""


class _Asking:
    """The engine that is asked, with the period and the group that the questions are about."""

    def __init__(self, engine: Engine, period: Period, group_id: str | None) -> None:
        self._engine = engine
        self._period = period
        self._group_id = group_id

    def of(self, name: str, group_id: str | None = None) -> str:
        """Return what a query reads in place of a table: its rows of the period, and of the group."""
        group_id = group_id or self._group_id
        wanted = []
        if self._period.is_whole_days:  # else there is nothing else in the tables
            wanted.append(f"date BETWEEN DATE '{self._period.first}' AND DATE '{self._period.last}'")
        if group_id is not None and any(column.name == "group_id" for column in named(name).columns):
            wanted.append(f"group_id = {literal(group_id)}")
        return f"(SELECT * FROM {name} WHERE {' AND '.join(wanted) or 'true'}) AS {name}"

    def rows(self, query: str) -> list[Row]:
        return self._engine.rows(query)

    def top(self, query: str) -> list[Row]:
        return self._engine.rows(query, TOP)


def _totals(ask: _Asking) -> Row:
    sums = ", ".join(
        f"coalesce(sum({name}), 0) AS {name}"
        for name in ("rebalances", "unstable_ms", "idle_member_ms", "moved", "commits")
    )
    [found] = ask.rows(f"SELECT {sums}, count(DISTINCT group_id) AS groups FROM {ask.of('groups')}")
    for name in ("storms", "invariants"):
        found |= ask.rows(f"SELECT count(*) AS {name} FROM {ask.of(name)}")[0]
    return found


def _heat(ask: _Asking) -> dict[str, list[int]]:
    counted = ask.rows(
        "SELECT coalesce(cause, 'unknown') AS cause, hour(epoch_ms(began_ms)) AS hour, count(*) AS count"
        f" FROM {ask.of('rebalances')} GROUP BY coalesce(cause, 'unknown'), hour(epoch_ms(began_ms))"
    )
    heat: dict[str, list[int]] = {}
    for row in counted:
        heat.setdefault(row["cause"], [0] * 24)[row["hour"]] += row["count"]
    return dict(sorted(heat.items(), key=lambda each: (-sum(each[1]), each[0])))


def _timeline(ask: _Asking, group_id: str) -> Timeline | None:
    mine = ask.of("rebalances", group_id)
    hour = f"began_ms - began_ms % {WINDOW_MS}"
    found = ask.rows(
        f"SELECT {hour} AS hour_ms FROM {mine} GROUP BY {hour}"
        f" ORDER BY sum(idle_member_ms) DESC NULLS LAST, {hour} LIMIT 1"
    )
    if not found:
        return None
    from_ms = found[0]["hour_ms"]
    until_ms = from_ms + WINDOW_MS
    bands = ask.rows(
        f"SELECT * FROM {mine} WHERE began_ms >= {from_ms} AND began_ms < {until_ms}"
        f" ORDER BY began_ms LIMIT {BANDS_MAX}"
    )
    told = ask.rows(
        f"SELECT at_ms, kind, member_id, client FROM lives WHERE group_id = {literal(group_id)}"
        f" AND at_ms < {until_ms} ORDER BY at_ms DESC LIMIT {COMINGS_MAX}"
    )
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
