"""Draws plots of a run as SVG inside a page; their text takes the page's colour, dark or light.

They are small on purpose: a plot as wide as a phone is read on one, and two stand side by side on a desk.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from math import ceil
from typing import Any, Final, NamedTuple

from bench.swarm.counted.histogram import lower_bound
from bench.swarm.counted.wall import Wall

SIZE_INCHES: Final = (5.0, 2.4)
ROW_INCHES: Final = 0.17
HISTOGRAM_INCHES: Final = 1.6
TIMES_MAX: Final = 5
"""How many times of day an axis has at most: each is wide."""
DOTS_SPREAD: Final = 0.12
"""The height over which `dots` are spread, in rows."""
POINTS_MAX: Final = 600
"""How many points a line has at most: more cannot be seen. A point of a longer line is the mean of its
seconds, or their most if peaks count."""
BAND_SHARE_MIN: Final = 0.003
"""The least share of the width that a band has, so that a fault that took no time is seen."""
LEAST_MS: Final = 1.0
"""Where shorter times are drawn: a logarithmic axis has no zero."""
HEADROOM: Final = 1.05
"""The height of a plot over time, as a multiple of its highest value."""
LEGEND_ROW_INCHES: Final = 0.18
LEGEND_CHARACTERS: Final = 72
"""How many characters of a legend are in one row."""
KINDS_MAX: Final = 6
"""How many kinds of faults have a colour of their own."""
BLUE, ORANGE, GREEN, RED, PURPLE, GREY = "#3d85c6", "#e07b39", "#4c9f70", "#d1495b", "#8d6cab", "#8a8f98"
BAND_COLOURS: Final = (RED, ORANGE, PURPLE, BLUE, GREEN, GREY)
_INK: Final = "#010203"
"""The colour that stands for the page's own."""
_STYLE: Final[dict[str, Any]] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 8.5,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.5,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "text.parse_math": False,  # a name may hold dollar signs
    "legend.fontsize": 8,
}


class Line(NamedTuple):
    """One line of a plot over time."""

    label: str
    values: Sequence[float | None]
    colour: str
    is_peak: bool = False
    """Whether a point that stands for several seconds is the most of them; otherwise it is their mean."""


class Band(NamedTuple):
    """A fault, in seconds from the run's beginning."""

    kind: str
    began_s: float
    ended_s: float


def over_time(
    title: str, lines: Sequence[Line], step_s: float, bands: Iterable[Band] = (), wall: Wall | None = None
) -> str:
    """Draw lines over the seconds of a run, with its faults in the background; `step_s` is the time between
    two values. With a `wall` the axis tells the time of day as well."""

    def fill(axes: Any) -> bool:
        unit, unit_s = _unit(step_s * max((len(line.values) for line in lines), default=1))
        for line in lines:
            at_s, values = _thinned(line, step_s)
            axes.plot([at / unit_s for at in at_s], values, color=line.colour, lw=1.2, label=line.label)
        end = step_s * max((len(line.values) for line in lines), default=1) / unit_s
        axes.set_xlim(0, end)
        most = max((value for line in lines for value in line.values if value is not None), default=0)
        axes.set_ylim(0, most * HEADROOM or 1)
        drawn = _bands(axes, bands, unit_s, end)
        axes.set_xlabel(unit)
        if wall is not None and wall.wall_us is not None:
            _time_of_day(axes, wall, unit, unit_s)
        return len(lines) + drawn > 1

    return _svg(title, fill)


def distribution(title: str, shapes: Sequence[tuple[str, Sequence[float], str]]) -> str:
    """Draw distributions, each with its name, percentiles 0 to 100 in milliseconds and a colour: the share
    that took no longer. One without a name belongs to the one before it."""

    def fill(axes: Any) -> bool:
        for name, shape_ms, colour in shapes:
            share = [100 * place / (len(shape_ms) - 1) for place in range(len(shape_ms))]
            axes.step(
                [max(value, LEAST_MS) for value in shape_ms],
                share,
                where="post",
                color=colour,
                lw=1.4,
                label=name,
            )
        _logarithmic(axes, [value for _, shape_ms, _ in shapes for value in shape_ms])
        axes.set_ylim(0, 101)
        axes.set_xlabel("took no longer than")
        axes.set_ylabel("%")
        return len(shapes) > 1

    return _svg(title, fill)


class Dots(NamedTuple):
    """A row of dots."""

    each_ms: Sequence[float]
    median_ms: float | None
    """The median, as in the table beside the chart; None: it is among those that never ended."""
    never: int = 0
    """How many more values there are that never ended."""


def dots(title: str, rows: Mapping[str, Dots]) -> str:
    """Draw a row for each name, the first on top: a dot for each of its milliseconds, and a line at their
    median."""

    def fill(axes: Any) -> bool:
        axes.figure.set_size_inches(SIZE_INCHES[0], 0.8 + ROW_INCHES * len(rows))
        names = list(rows)[::-1]
        labels = [f"{name} ({rows[name].never} never)" if rows[name].never else name for name in names]
        for place, name in enumerate(names):
            values = sorted(max(value, LEAST_MS) for value in rows[name].each_ms)
            # Dots are drawn one behind the other, so that equal ones are seen.
            at = [place + DOTS_SPREAD * (number % 5 - 2) for number in range(len(values))]
            axes.scatter(values, at, s=5, alpha=0.5, color=RED, linewidths=0)
            median_ms = rows[name].median_ms
            if median_ms is not None:
                axes.plot([max(median_ms, LEAST_MS)] * 2, [place - 0.4, place + 0.4], color=_INK, lw=1.2)
        axes.set_yticks(range(len(names)), labels)
        axes.set_ylim(-0.6, len(names) - 0.4)
        _logarithmic(axes, [value for row in rows.values() for value in row.each_ms] or [LEAST_MS])
        return False

    return _svg(title, fill)


def _time_of_day(axes: Any, wall: Wall, unit: str, unit_s: float) -> None:
    """Write the time of day, as the server's logs have it, below the run's own time."""
    from matplotlib.ticker import MaxNLocator

    def tell(value: float, _: int) -> str:
        return f"{value:g}\n{wall.clock(wall.began_us + round(value * unit_s * 1e6))[:8]}"

    axes.xaxis.set_major_locator(MaxNLocator(nbins=TIMES_MAX, steps=[1, 2, 3, 6, 10]))
    axes.xaxis.set_major_formatter(tell)
    axes.set_xlabel(f"{unit}, and UTC")


def histogram(title: str, buckets: Sequence[tuple[float, int]]) -> str:
    """Draw how many requests took how long; both axes are logarithmic, so that the tail is seen."""

    from matplotlib.ticker import NullLocator

    def fill(axes: Any) -> bool:
        axes.figure.set_size_inches(SIZE_INCHES[0], HISTOGRAM_INCHES)
        lows = [lower_bound(bound_ms) for bound_ms, _ in buckets]
        widths = [bound_ms - low for low, (bound_ms, _) in zip(lows, buckets, strict=True)]
        axes.bar(lows, [count for _, count in buckets], widths, align="edge", color=BLUE, lw=0)
        axes.set_yscale("log")
        axes.set_ylim(0.5)
        _logarithmic(axes, [lows[0], buckets[-1][0]], least_ms=lows[0])
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_ylabel("requests")
        return False

    return _svg(title, fill)


def against(title: str, unit: str, points: Sequence[tuple[float, float, str]], limit: float) -> str:
    """Draw dots of a colour each over a load in `unit`, and their limit as a line."""

    def fill(axes: Any) -> bool:
        at = [place for place, _, _ in points]
        values = [value for _, value, _ in points]
        axes.scatter(at, values, s=18, color=[colour for _, _, colour in points], linewidths=0)
        axes.axhline(limit, color=_INK, lw=0.8, ls="--")
        axes.set_ylim(0, max(*values, limit) * HEADROOM or 1)
        axes.set_xlim(0, max(at) * HEADROOM)
        axes.set_xlabel(unit)
        return False

    return _svg(title, fill)


def _logarithmic(axes: Any, values_ms: Sequence[float], least_ms: float = LEAST_MS) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    least, most = max(min(values_ms), least_ms), max(*values_ms, least_ms)
    axes.set_xscale("log")
    axes.set_xlim(least / 1.5, most * 1.5)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if most < 300 * least else (1.0,)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(_milliseconds)


def _milliseconds(value: float, _: int) -> str:
    return f"{value / 1e3:g} s" if value >= 1_000 else f"{value:g} ms"


def _unit(duration_s: float) -> tuple[str, float]:
    if duration_s <= 300:
        return "seconds", 1.0
    return ("minutes", 60.0) if duration_s <= 3 * 3_600 else ("hours", 3_600.0)


def _thinned(line: Line, step_s: float) -> tuple[list[float], list[float | None]]:
    width = -(-len(line.values) // POINTS_MAX) or 1
    parts = [line.values[start : start + width] for start in range(0, len(line.values), width)]
    return [start * width * step_s for start in range(len(parts))], [
        _one(part, line.is_peak) for part in parts
    ]


def _one(part: Sequence[float | None], is_peak: bool) -> float | None:
    known = [value for value in part if value is not None]
    if not known:
        return None
    return max(known) if is_peak else sum(known) / len(known)


def _bands(axes: Any, bands: Iterable[Band], unit_s: float, end: float) -> int:
    """Draw the faults as bands. Returns how many kinds have a colour."""
    by_kind: dict[str, list[tuple[float, float]]] = {}
    for band in bands:
        width = max((band.ended_s - band.began_s) / unit_s, BAND_SHARE_MIN * end)
        by_kind.setdefault(band.kind, []).append((band.began_s / unit_s, width))
    often = sorted(by_kind, key=lambda kind: -len(by_kind[kind]))
    rest = (
        [span for kind in often[KINDS_MAX - 1 :] for span in by_kind[kind]] if len(often) > KINDS_MAX else []
    )
    shown = {kind: by_kind[kind] for kind in (often[: KINDS_MAX - 1] if rest else often)}
    if rest:
        shown["other faults"] = rest
    for (kind, spans), colour in zip(shown.items(), BAND_COLOURS, strict=False):
        place = axes.get_xaxis_transform()
        axes.broken_barh(spans, (0, 1), transform=place, color=colour, alpha=0.28, lw=0, label=kind)
    return len(shown)


def _svg(title: str, fill: Callable[[Any], bool]) -> str:
    """Make a plot's SVG. `fill` draws, and says whether a legend is needed."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with mpl.rc_context({**_STYLE, "svg.hashsalt": title}):
        figure = Figure(figsize=SIZE_INCHES, layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.subplots()
        axes.grid(axis="y", color=_INK, alpha=0.15, lw=0.5)
        axes.set_axisbelow(True)
        axes.set_title(title)
        if fill(axes):
            handles, labels = axes.get_legend_handles_labels()
            columns = max(1, LEGEND_CHARACTERS // (8 + max(map(len, labels))))
            more = ceil(len(labels) / columns) - 1  # the legend's rows must not make the plot smaller
            figure.set_size_inches(figure.get_figwidth(), figure.get_figheight() + LEGEND_ROW_INCHES * more)
            figure.legend(handles, labels, loc="outside lower left", ncols=columns, handlelength=1.2)
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    return _inline(text.getvalue(), title)


def _inline(svg: str, title: str) -> str:
    """Make a plot fit for a page: it has no size of its own, and ids that no other plot of the page has."""
    svg = svg[svg.index("<svg") :].replace(_INK, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    prefix = re.sub(r"\W+", "-", title.lower())
    svg = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{prefix}-", svg)
    return f'<figure class="plot" role="img" aria-label="{escape(title)}">{svg}</figure>'
