"""Sets then and now side by side: as values for JSON, as a table for terminals, as a section of a page.
PURE."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from bench.swarm.replay.counts import Counts, together
from bench.swarm.told.page import Section, duration, note, number, table

ALL: Final = "all groups"
GROUPS_SHOWN: Final = 3
"""How many groups a terminal shows; a page has all."""
HEADINGS: Final = ("", "then", "now", "now / then")


class Row(NamedTuple):
    """One figure of then and now."""

    label: str
    then: float | None
    now: float | None
    is_ms: bool = False

    @property
    def cells(self) -> tuple[str, str, str, str]:
        tell = duration if self.is_ms else number
        ratio = number(float(self.now / self.then)) if self.then and self.now is not None else ""
        return self.label, tell(_whole(self.then)), tell(_whole(self.now)), ratio


class Part(NamedTuple):
    """The figures of one group, or of all together."""

    name: str
    rows: tuple[Row, ...]


class Beside(NamedTuple):
    """The figures of all groups."""

    parts: tuple[Part, ...]
    """All groups together first, then the groups with most joins and leaves."""
    remarks: tuple[str, ...]


def beside(
    then: Mapping[str, Counts],
    now: Mapping[str, Counts],
    groups: Mapping[str, str],
    remarks: Iterable[str] = (),
) -> Beside:
    """Compare. `then` has the counts of recorded groups, `now` those of the run's; `groups` is the recorded
    group of each of the run's. Groups that were not replayed are left out."""
    played = sorted(set(groups.values()))
    of_group = {
        name: together(now[each] for each, of in groups.items() if of == name and each in now)
        for name in played
    }
    before = {name: then.get(name, Counts()) for name in played}
    busiest = sorted(played, key=lambda name: _bustle(before[name]), reverse=True)
    parts = [Part(ALL, tuple(_rows(together(before.values()), together(of_group.values()))))]
    parts += [Part(name, tuple(_rows(before[name], of_group[name]))) for name in busiest]
    return Beside(tuple(parts), tuple(remarks))


def _bustle(counts: Counts) -> tuple[int, float]:
    return counts.joins + counts.leaves + counts.expired + (counts.fenced or 0), counts.commits


def _rows(then: Counts, now: Counts) -> Iterator[Row]:
    def row(label: str, figure: Callable[[Counts], float | None], *, is_ms: bool = False) -> Row:
        return Row(label, figure(then), figure(now), is_ms)

    yield row("groups", lambda each: each.groups)
    yield row("members, most at a time", lambda each: each.members)
    yield row("joins", lambda each: each.joins)
    yield row("leaves", lambda each: each.leaves)
    yield row("removed by a timeout", lambda each: each.expired)
    yield row("replaced by their next life", lambda each: each.fenced)
    yield row("rebalances", lambda each: each.rebalances)
    for cause in sorted({*(then.by_cause or ()), *(now.by_cause or ())}):
        yield Row(f"  {cause or 'not told why'}", _caused(then, cause), _caused(now, cause))
    yield row("rebalance, p50", lambda each: each.duration_ms(0.5), is_ms=True)
    yield row("rebalance, p99", lambda each: each.duration_ms(0.99), is_ms=True)
    yield row("time not stable", lambda each: each.unstable_ms, is_ms=True)
    yield row("commits", lambda each: each.commits)
    yield row("commits a second", lambda each: each.commits_s)
    yield row("partitions in commits", lambda each: each.offsets)
    yield row("partitions moved", lambda each: each.moved)


def _caused(counts: Counts, cause: str) -> int | None:
    return None if counts.by_cause is None else counts.by_cause.get(cause, 0)


def _whole(value: float | None) -> float | None:
    """A sum rounded: sums of parts are whole but for the last digits."""
    return round(value) if value is not None and abs(value - round(value)) < 1e-6 else value


def plain(found: Beside) -> dict[str, Any]:
    """Return it as plain values for JSON."""
    return {
        "parts": [{"name": part.name, "rows": [row._asdict() for row in part.rows]} for part in found.parts],
        "remarks": list(found.remarks),
    }


def lines(found: Beside) -> list[tuple[str, str, str, str]]:
    """The rows of a terminal's table: all groups together, then the busiest ones, each under its name."""
    rows: list[tuple[str, str, str, str]] = []
    shown = found.parts[:1] if len(found.parts) == 2 else found.parts[: 1 + GROUPS_SHOWN]
    for part in shown:
        rows += [(part.name.upper() if part.name == ALL else part.name, *HEADINGS[1:])]
        rows += [(f"  {row.label}", *row.cells[1:]) for row in part.rows]
    return rows


def section(found: Beside) -> Section:
    """The section of a page."""
    rows: list[Sequence[str]] = []
    for part in found.parts:
        rows += [(part.name,), *(row.cells for row in part.rows)]
    return Section("Then and now", table(HEADINGS, rows) + "".join(note(remark) for remark in found.remarks))
