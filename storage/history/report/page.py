"""The report as one HTML page: no script, no picture, no other file. Pure.

Everything that came from clients is escaped; lengths are in percent, so that it reads on a phone as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final, NamedTuple

from storage.history.jobs.engine import Row
from storage.history.report.facts import Facts, Timeline
from storage.history.report.words import clock, duration, moment, share

CSS: Final = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
COLOURS: Final = 6
"""--c0 and so on; the last one is shared by causes that are rare."""
TICKS: Final = 6


class Shown(NamedTuple):
    """One column of a list."""

    name: str
    cell: Callable[[Row], Any]
    style: str = ""
    """n: a number; w: words, which are wrapped rather than cut."""


def page(facts: Facts) -> str:
    """The whole page."""
    about = "All groups" if facts.group_id is None else facts.group_id
    title = f"Rebalances: {about}"
    colours = {cause: min(place, COLOURS - 1) for place, cause in enumerate(facts.heat)}
    body = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{facts.period}, UTC</p>",
        _totals(facts.totals),
        _timeline(facts.timeline, colours),
        _heat(facts.heat),
        *_lists(facts),
    ]
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>\n{CSS}</style></head><body><main>\n" + "\n".join(body) + "\n</main></body></html>\n"
    )


def _totals(totals: Row) -> str:
    shown = (
        ("rebalances", f"{totals['rebalances']:,}", ""),
        ("groups", f"{totals['groups']:,}", ""),
        ("group time not stable", duration(totals["unstable_ms"]), ""),
        ("member time without work", duration(totals["idle_member_ms"]), ""),
        ("partitions moved", f"{totals['moved']:,}", ""),
        ("commits", f"{totals['commits']:,}", ""),
        ("storms", f"{totals['storms']:,}", "bad" if totals["storms"] else ""),
        ("invariants broken", f"{totals['invariants']:,}", "bad" if totals["invariants"] else ""),
    )
    cells = (f'<div class="{style}"><b>{value}</b><span>{name}</span></div>' for name, value, style in shown)
    return f'<div class="totals">{"".join(cells)}</div>'


def _timeline(timeline: Timeline | None, colours: dict[str, int]) -> str:
    if timeline is None:
        return ""
    length_ms = timeline.until_ms - timeline.from_ms

    def span(from_ms: int, until_ms: int) -> str:
        left = 100 * (from_ms - timeline.from_ms) / length_ms
        width = min(100 * (until_ms - from_ms) / length_ms, 100 - left)
        return f"left:{left:.3f}%;width:{width:.3f}%"

    tracks = "".join(
        f'<div class="name" style="--row:{row}">{escape(lane.client)}</div>'
        f'<div class="track" style="--row:{row}">'
        + "".join(
            f'<div class="life {life.end or ""}" style="{span(life.from_ms, life.until_ms)}" title="'
            f"{escape(lane.client)}: {moment(life.from_ms)}, {duration(life.until_ms - life.from_ms)}"
            f'{", " + life.end if life.end else ""}"></div>'
            for life in lane.lives
        )
        + "</div>"
        for row, lane in enumerate(timeline.lanes, start=1)
    )
    bands = "".join(
        f'<div class="band" style="{span(band["began_ms"], band["ended_ms"] or timeline.until_ms)};'
        f'background:var(--c{colours.get(_cause(band), COLOURS - 1)})" title="{escape(_told(band))}"></div>'
        for band in timeline.bands
    )
    seen = dict.fromkeys(_cause(band) for band in timeline.bands)
    legend = "".join(
        f'<span><i style="background:var(--c{colours.get(cause, COLOURS - 1)})"></i>{escape(cause)}</span>'
        for cause in seen
    )
    ticks = "".join(
        f"<span>{clock(timeline.from_ms + length_ms * tick // TICKS)}</span>" for tick in range(TICKS + 1)
    )
    left_out = f" {timeline.lanes_left_out} more are left out." if timeline.lanes_left_out else ""
    return (
        f"<section><h2>{escape(timeline.group_id)}: its costliest hour</h2>"
        f"<p>{moment(timeline.from_ms)} to {clock(timeline.until_ms)}. A lane is a consumer, a bar"
        f" one of its lives, red where a timeout ended it; a band is a rebalance.{left_out}</p>"
        f'<div class="lanes" style="--lanes:{max(1, len(timeline.lanes))}">{tracks}'
        f'<div class="bands">{bands}</div>'
        f'<div class="axis">{ticks}</div></div><div class="legend">{legend}</div></section>'
    )


def _heat(heat: dict[str, list[int]]) -> str:
    if not heat:
        return ""
    most = max(max(counts) for counts in heat.values())
    cells = []
    for cause, counts in heat.items():
        cells.append(f'<div class="cause">{escape(cause)}</div>')
        for hour, count in enumerate(counts):
            shade = 0.06 + 0.94 * (count / most) ** 0.7 if count else 0.04
            told = f"{escape(cause)}, {hour:02}:00: {count:,}"
            cells.append(f'<div class="cell" style="--heatness:{shade:.2f}" title="{told}"></div>')
    cells.append('<div class="cause"></div>')
    cells += [
        f'<div class="hour{" minor" if hour % 6 else ""}">{f"{hour:02}" if hour % 3 == 0 else ""}</div>'
        for hour in range(24)
    ]
    return (
        "<section><h2>When and why</h2>"
        f"<p>Rebalances by cause and hour of the day (UTC); the strongest cell is {most:,}.</p>"
        f'<div class="heat">{"".join(cells)}</div></section>'
    )


def _lists(facts: Facts) -> Iterable[str]:
    most = max((row["idle_member_ms"] or 0 for row in facts.bills), default=0) or 1
    yield _list(
        "Top bills",
        "Member time without work, by group. Available: share of the time with members in which a group was"
        " stable.",
        facts.bills,
        (
            Shown("group", lambda row: row["group_id"], "w"),
            Shown("bill", lambda row: _Html(_bill(row["idle_member_ms"], most)), "n"),
            Shown("rebalances", lambda row: f"{row['rebalances']:,}", "n"),
            Shown("available", lambda row: share(row["availability"]), "n"),
            Shown("whose doing most", lambda row: row["worst_client"], "w"),
        ),
    )
    yield _list("Costliest rebalances", "By the time that members had no work.", facts.costliest, COSTLIEST)
    yield _list("Storms", "Rebalances that fed each other, with the one that began it.", facts.storms, STORMS)
    yield _list("Members to look at", "They flap, are slow, or do not follow.", facts.members, MEMBERS)
    yield _list("Invariants broken", "What must never be in a history.", facts.invariants, INVARIANTS)
    yield _list(
        "Expiries ahead", "Offsets that expire unless they are committed again.", facts.expiring, EXPIRING
    )
    if facts.forecast is not None and facts.group_id is None:
        yield _forecast(facts.forecast)
    skipped = [{"path": path, "why": why} for path, why in facts.skipped]
    yield _list("Files left out", "They could not be read.", skipped, SKIPPED)


COSTLIEST: Final = (
    Shown("began", lambda row: moment(row["began_ms"])),
    Shown("group", lambda row: row["group_id"], "w"),
    Shown("bill", lambda row: duration(row["idle_member_ms"]), "n"),
    Shown("took", lambda row: duration(row["duration_ms"]), "n"),
    Shown("cause", lambda row: _cause(row), "w"),
    Shown("member", lambda row: row["member_id"], "w"),
)
STORMS: Final = (
    Shown("began", lambda row: moment(row["began_ms"])),
    Shown("group", lambda row: row["group_id"], "w"),
    Shown("bill", lambda row: duration(row["idle_member_ms"]), "n"),
    Shown("rebalances", lambda row: row["rebalances"], "n"),
    Shown("not stable", lambda row: duration(row["unstable_ms"]), "n"),
    Shown("began with", lambda row: _cause(row), "w"),
    Shown("member", lambda row: row["member_id"], "w"),
)
MEMBERS: Final = (
    Shown("consumer", lambda row: row["client"], "w"),
    Shown("group", lambda row: row["group_id"], "w"),
    Shown("days", lambda row: row["days"], "n"),
    Shown("what", lambda row: ", ".join(word for word in ("flapping", "slow", "stuck") if row[f"is_{word}"])),
    Shown("short lives", lambda row: row["short_lives"], "n"),
    Shown("waited for", lambda row: duration(row["waited_ms"]), "n"),
    Shown("software", lambda row: row["client_software"], "w"),
)
INVARIANTS: Final = (
    Shown("rule", lambda row: row["rule"], "w"),
    Shown("since", lambda row: moment(row["at_ms"])),
    Shown("group", lambda row: row["group_id"], "w"),
    Shown(
        "partition", lambda row: None if row["topic"] is None else f"{row['topic']}-{row['partition']}", "w"
    ),
    Shown("from", lambda row: row["before"], "n"),
    Shown("to", lambda row: row["after"], "n"),
    Shown("members", lambda row: ", ".join(member for member in row["members"] or () if member), "w"),
)
EXPIRING: Final = (
    Shown("expires", lambda row: moment(row["expires_ms"])),
    Shown("group", lambda row: row["group_id"], "w"),
    Shown("offsets", lambda row: f"{row['offsets_expiring']:,}", "n"),
    Shown("told on", lambda row: row["date"]),
)
SKIPPED: Final = (Shown("file", lambda row: row["path"], "w"), Shown("why", lambda row: row["why"], "w"))


class _Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def _list(title: str, says: str, rows: Sequence[Row], columns: Sequence[Shown]) -> str:
    """Return a list as a section of the page, or "" if there are no rows."""
    if not rows:
        return ""
    head = "".join(f'<th class="{column.style}">{escape(column.name)}</th>' for column in columns)
    lines = "".join(
        "<tr>"
        + "".join(
            f'<td class="{column.style}" data-name="{escape(column.name)}">{_cell(column.cell(row))}</td>'
            for column in columns
        )
        + "</tr>"
        for row in rows
    )
    return (
        f"<section><h2>{escape(title)}</h2><p>{escape(says)}</p><table>"
        f"<thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></section>"
    )


def _cell(value: Any) -> str:
    if isinstance(value, _Html):
        return value
    return "-" if value is None or value == "" else escape(str(value))


def _bill(ms: int | None, most: int) -> str:
    return f'{duration(ms or 0)}<span class="bar" style="width:{100 * (ms or 0) / most:.1f}%"></span>'


def _forecast(row: Row) -> str:
    trend = row["trend_per_day"]
    ahead = (
        "no trend yet: three days are needed"
        if trend is None
        else f"{trend:+,.1f} a day, so {row['forecast_commits_per_s']:,.1f} in 30 days"
    )
    return (
        f"<section><h2>Capacity</h2><p>{row['peak_commits_per_s']:,.1f} commits a second in the busiest"
        f" minute, {ahead}. "
        f"Offsets partitions needed: {row['partitions_now']} now, {row['partitions_ahead']} then; the"
        f" busiest bears {100 * (row['hot_partition_share'] or 0):.0f} % of the peak.</p></section>"
    )


def _cause(row: Row) -> str:
    return str(row["cause"] or "unknown")


def _told(band: Row) -> str:
    said = f"{_cause(band)}, {moment(band['began_ms'])}, {duration(band['duration_ms'])}"
    return f"{said}, by {band['member_id']}" if band["member_id"] else said
