"""The records in a run's report: how many were written and processed, and how far groups were behind.
PURE."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from bench.swarm.counted.wall import Wall
from bench.swarm.records.lag import Lags
from bench.swarm.told import charts
from bench.swarm.told.charts import Band, Line
from bench.swarm.told.page import Section, number, plots, table

DRAWN_MAX: Final = 6
"""How many groups have a line of their own."""


def plain(lags: Lags | None) -> dict[str, Any]:
    """Return plain values for report.json; nothing if there were no records."""
    if lags is None:
        return {}
    groups = [{**group._asdict(), "most": group.most, "last": group.last} for group in lags.groups]
    return {**lags._asdict(), "produced": lags.produced, "groups": groups}


def lines(lags: Lags | None) -> Iterator[str]:
    """Lines for a terminal."""
    if lags is None:
        return
    processed = sum(group.processed for group in lags.groups)
    behind = ", ".join(f"{group.group_id} by {group.last:,}" for group in lags.groups[:3] if group.last)
    yield (
        f"records: {lags.produced:,} produced, {processed:,} processed; "
        f"at the end {f'behind: {behind}' if behind else 'nobody was behind'}"
    )


def sections(lags: Lags | None, bands: Sequence[Band], wall: Wall) -> Iterator[Section]:
    """Sections for the page."""
    if lags is None:
        return
    rates = [
        Line("produced", lags.produced_s, charts.BLUE),
        Line("processed", lags.processed_s, charts.GREEN),
    ]
    colours = charts.BAND_COLOURS
    behind = [
        Line(group.group_id, group.lag, colours[place % len(colours)], True)
        for place, group in enumerate(lags.groups[:DRAWN_MAX])
    ]
    drawn = [charts.over_time("Records a second", rates, lags.step_s, bands, wall)]
    drawn.append(charts.over_time("Lag in records", behind, lags.step_s, bands, wall))
    rows = [
        (group.group_id, number(group.processed), number(group.most), number(group.last))
        for group in lags.groups
    ]
    yield Section("Records", plots(drawn) + table(("group", "processed", "lag, most", "lag, end"), rows))
