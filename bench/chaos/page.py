"""What a chaos run adds to the page of a swarm, and its own page over all of its parts.

PURE, but for the plots' library.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from bench.chaos import table
from bench.chaos.availability import Availability
from bench.chaos.outcome import Outcome, PartReport
from bench.swarm.counted.figures import Figures
from bench.swarm.told import charts, sections
from bench.swarm.told import page as pages
from bench.swarm.told.charts import Dots, Line
from bench.swarm.told.page import Headline, Section

VIOLATIONS_MAX: Final = 20


def availability(found: Sequence[Availability]) -> Section:
    """Make a section with the availability by kind of fault, of one part or of all."""
    rows = table.rows(found)
    notes = "; ".join(f"{name}: {what}" for name, what in table.HEADINGS if what)
    html = pages.table([name for name, _ in table.HEADINGS], [table.cells(row) for row in rows])
    dots = dots_of(rows)
    drawn = [charts.dots("Without service, of the groups hit", dots)] if dots else []
    return Section("Availability by fault", html + pages.note(f"{notes}.") + pages.plots(drawn))


def dots_of(rows: Sequence[table.Row]) -> dict[str, Dots]:
    """The dots of a chart, row by row: one for each group that was hit, and the row's median."""
    return {
        row.kind: Dots(row.each_ms, row.without.p50_ms, row.never)
        for row in rows
        if row.groups_hit and row.kind != table.ALL
    }


def course(part: str, figures: Figures) -> list[str]:
    """Plot one part second by second, with its faults in the background."""
    told, behind = figures.seconds, sections.bands(figures)
    refused, lost = (
        Line(name, values, colour, is_peak=True)
        for name, values, colour in (
            ("refused", told.refused_s, charts.ORANGE),
            ("lost", told.lost_s, charts.RED),
        )
    )
    without = Line("groups", told.without_coordinator, charts.RED, is_peak=True)
    return [
        charts.over_time(
            f"{part}: requests refused and lost, a second",
            [refused, lost],
            told.step_s,
            behind,
            figures.wall,
        ),
        charts.over_time(f"{part}: groups without service", [without], told.step_s, behind, figures.wall),
    ]


def page(outcome: Outcome, parts: Sequence[PartReport]) -> str:
    """Make the page of the whole run."""
    state = outcome.state
    headline = Headline(
        title=f"Chaos: {state.scenario.name}",
        about=f"{state.scenario.about} {state.software or f'groupd {state.version}'} · {outcome.done}",
        verdict=outcome.status,
        because=outcome.summary,
        promises=outcome.verdict.promises,
        words=(*state.words, *outcome.remarks, *state.unmended),
    )
    return pages.page(headline, _sections(outcome, parts))


def _sections(outcome: Outcome, parts: Sequence[PartReport]) -> Iterator[Section]:
    told = outcome.verdict.violations[:VIOLATIONS_MAX]
    if told:
        rows = [(each.rule, each.group_id, each.text) for each in told]
        yield Section("Broken promises", pages.table(("rule", "group", "what"), rows, text=(2,)))
    if outcome.rows:
        yield availability([part.found for part in parts])
    if by_kind := sorted(outcome.state.killed_by.items(), key=lambda item: -item[1]):
        counts = [*by_kind, ("all", outcome.state.killed)]
        table_of_kills = pages.table(("fault", "processes"), [(kind, f"{count:,}") for kind, count in counts])
        yield Section("Processes killed", table_of_kills)
    links = "".join(
        f'<p><a href="{escape(part.page)}">{escape(part.name)}</a>: {escape(part.verdict.summary)}</p>'
        for part in parts
    )
    if parts:
        yield Section("Parts", links + pages.plots(plot for part in parts for plot in part.course))
