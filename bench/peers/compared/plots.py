"""Draws the figures as pictures (PNG): heartbeats at every rate, time until stable, time without a
coordinator."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from bench.peers.plan import Outcome, Report, Row, part_of
from bench.peers.table import number
from bench.peers.works.heartbeats import KINDS

MISSING: Final = 'no plots: matplotlib is not installed (pip install "groupd[bench]")'
COLOURS: Final = {
    "groupd-1": "#08519c",
    "groupd-3": "#6baed6",
    "unsynced-1": "#54278f",
    "unsynced-3": "#bcbddc",
    "kafka-1": "#a63603",
    "kafka-3": "#fd8d3c",
    "mock": "#756bb1",
    "kfake": "#31a354",
    "floor": "#969696",
}
MARKERS: Final = dict(zip(COLOURS, "osDv^P.<>", strict=True))
STEP_WORKS: Final = (3, 4)
FAILOVER_WORK: Final = 5
BAR: Final = 0.8
DPI: Final = 100


def draw(report: Report, directory: Path) -> list[Path]:
    """Draw the plots that there are figures for into an existing directory. Returns the files. Raises
    ImportError without matplotlib."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawn = []
    for name, size, fill in (
        ("heartbeats", (10, 4.6), _heartbeats),
        ("stable", (10, 10), _stable),
        ("failover", (10, 4.2), _failover),
    ):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        if not fill(figure, report):
            continue
        figure.supxlabel(_source(report), fontsize=7, color="0.4")
        path = directory / f"{name}.png"
        figure.savefig(path, dpi=DPI)
        drawn.append(path)
    return drawn


def _source(report: Report) -> str:
    processor = report.machine.split(",")[0]
    dates = sorted({command.date for command in report.commands})
    return f"groupd bench peers, {processor}, {report.cores} cores, {dates[-1]}"


def _heartbeats(figure: Any, report: Report) -> bool:
    """Draw the CPU per heartbeat over heartbeats per second: open loops, then the closed loop of 500
    connections."""
    kinds = [kind for kind in KINDS if _curves(report, kind)]
    if not kinds:
        return False
    for axes, kind in zip(figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0], kinds, strict=True):
        for peer, points in _curves(report, kind).items():
            rates, least, middle, most = zip(*points, strict=True)
            colour = COLOURS[peer]
            axes.plot(rates, middle, color=colour, marker=MARKERS[peer], markersize=5, lw=1.6, label=peer)
            axes.fill_between(rates, least, most, color=colour, alpha=0.15, lw=0)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_title(kind, fontsize=10)
        axes.set_xlabel("requests a second (the last: as many as it takes)", fontsize=8)
        axes.xaxis.set_major_formatter(_thousands)
        axes.yaxis.set_major_formatter(_thousands)
        axes.set_yticks([5, 10, 20, 50, 100, 200, 500], minor=False)
        axes.yaxis.set_minor_locator(_no_ticks())
        axes.grid(which="major", alpha=0.25)
        axes.tick_params(labelsize=8)
    figure.axes[0].set_ylabel("us CPU of all server processes, a request", fontsize=8)
    figure.axes[0].legend(fontsize=8, frameon=False)
    return True


def _thousands(value: float, _: int) -> str:
    return f"{value:,.0f}"


def _nothing(value: float, _: int) -> str:
    return ""


def _no_ticks() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()


Point = tuple[float, float, float, float]
"""Requests per second, and the least, median and most CPU of one request."""


def _curves(report: Report, kind: str) -> dict[str, list[Point]]:
    """The points of each peer, by rising rate."""
    curves: dict[str, list[Point]] = {}
    for outcome in report.outcomes:
        row = outcome.row
        if row.work != 1 or row.heading != kind or not outcome.samples:
            continue
        if row.rate is None and ", 500 " not in row.label:
            continue
        rate, middle = outcome.median("per_s"), outcome.median("cpu_us")
        assert rate is not None
        assert middle is not None
        values = outcome.values("cpu_us")
        curves.setdefault(outcome.peer, []).append((rate, min(values), middle, max(values)))
    return {peer: sorted(points) for peer, points in curves.items()}


def _stable(figure: Any, report: Report) -> bool:
    """Draw the seconds until groups are stable: bars of medians, whiskers from least to most."""
    rows = [
        (row, shown)
        for row in report.rows
        for shown in row.shown
        if row.work in STEP_WORKS and shown.endswith("seconds") and _of(report, row, shown)
    ]
    if not rows:
        return False
    peers = [peer for peer in report.peers if any(peer in _of(report, *each) for each in rows)]
    axes, height = figure.subplots(), BAR / len(peers)
    for place, peer in enumerate(peers):
        found = {at: _of(report, *each)[peer] for at, each in enumerate(rows) if peer in _of(report, *each)}
        spreads = [(outcome.values(shown), at) for at, (outcome, shown) in found.items()]
        _bars(axes, spreads, place * height, height, peer)
    titles = [_title(row, shown) for row, shown in rows]
    axes.set_yticks([at + (BAR - height) / 2 for at in range(len(rows))], titles)
    axes.invert_yaxis()
    axes.set_xlabel("seconds until every member is stable: medians, least to most", fontsize=8)
    axes.grid(axis="x", alpha=0.25)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)
    axes.legend(fontsize=8, frameon=False)
    return True


def _title(row: Row, shown: str) -> str:
    part = part_of(shown)
    return f"{part}\n(heartbeats every {row.label})" if part else f"join: {row.label}"


def _of(report: Report, row: Row, shown: str) -> dict[str, tuple[Outcome, str]]:
    """The outcomes by peer, of those peers that have this figure."""
    outcomes = ((peer, report.outcome(row, peer)) for peer in report.peers)
    return {peer: (each, shown) for peer, each in outcomes if each is not None and each.values(shown)}


def _bars(axes: Any, spreads: list[tuple[list[float], int]], offset: float, height: float, peer: str) -> None:
    middles = [sorted(values)[len(values) // 2] for values, _ in spreads]
    errors = [
        [middle - min(values) for (values, _), middle in zip(spreads, middles, strict=True)],
        [max(values) - middle for (values, _), middle in zip(spreads, middles, strict=True)],
    ]
    at = [place + offset for _, place in spreads]
    style = {"color": COLOURS[peer], "ecolor": "0.3", "error_kw": {"lw": 0.8}}
    drawn = axes.barh(at, middles, height * 0.92, xerr=errors, label=peer, **style)
    axes.bar_label(drawn, [number(middle) for middle in middles], padding=3, fontsize=7)


def _failover(figure: Any, report: Report) -> bool:
    """Draw the share of groups that is served again after so many seconds, for each number of groups."""
    rows = [row for row in report.rows if row.work == FAILOVER_WORK and _gaps(report, row)]
    if not rows:
        return False
    everything = [gap for row in rows for gaps in _gaps(report, row).values() for gap in gaps]
    least, most = min(everything), max(everything)
    for axes, row in zip(figure.subplots(1, len(rows), sharey=True, squeeze=False)[0], rows, strict=True):
        for peer, gaps in _gaps(report, row).items():
            share = [100 * (place + 1) / len(gaps) for place in range(len(gaps))]
            axes.step([gaps[0], *gaps], [0, *share], where="post", color=COLOURS[peer], lw=2, label=peer)
        axes.set_xscale("log")
        axes.set_xlim(0.1 if least >= 0.1 else least / 2, 2 * most)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.xaxis.set_minor_formatter(_nothing)
        axes.set_title(f"{row.heading}: {row.label}", fontsize=9)
        axes.set_xlabel("seconds after the SIGKILL, logarithmic", fontsize=8)
        axes.grid(which="both", alpha=0.25)
        axes.tick_params(labelsize=8)
    handles = figure.axes[0].get_legend_handles_labels()
    figure.legend(*handles, fontsize=8, loc="outside upper center", ncols=len(handles[1]), frameon=False)
    figure.axes[0].set_ylabel("% of the groups hit that are served again", fontsize=8)
    return True


def _gaps(report: Report, row: Row) -> dict[str, list[float]]:
    """The percentiles of all runs, by peer."""
    found = {}
    for peer in dict.fromkeys([ours for ours, _ in report.pairs] + [theirs for _, theirs in report.pairs]):
        outcome = report.outcome(row, peer)
        gaps = sorted(gap for sample in (outcome.samples if outcome else ()) for gap in sample.percentiles)
        if gaps:
            found[peer] = gaps
    return found
