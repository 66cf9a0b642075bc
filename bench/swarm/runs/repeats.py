"""The common figures of several runs of one scenario: every figure's median, least and most, and each
verdict. PURE."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from bench.swarm.counted.intervals import spread_percent
from bench.swarm.told.comparison import Comparison, Report, Row, Subject, at, compared
from bench.swarm.told.page import duration, number
from storage.history.judge.findings import KEPT

VERSION: Final = 1
"""The version of repeat.json."""
HEADINGS: Final = ("", "median", "least", "most", "spread")


class Run(NamedTuple):
    """A run that was finished."""

    name: str
    """The name of the run's directory."""
    seed: int
    exit_code: int
    report: Report

    @property
    def status(self) -> str:
        return str(self.report.get("status"))

    @property
    def because(self) -> str:
        """The verdict in a line, and which thresholds were not kept."""
        summary = str(at(self.report, "verdict", "summary") or "")
        missed = (each for each in self.report.get("thresholds") or () if each["status"] != KEPT)
        told = (f"{each['text']}: {each['because']}" for each in missed)
        return "; ".join((summary.removeprefix(f"{at(self.report, 'verdict', 'status')}: "), *told))

    def plain(self) -> dict[str, Any]:
        """Return it as plain values for repeat.json."""
        return {
            "directory": self.name,
            "seed": self.seed,
            "exit_code": self.exit_code,
            "status": self.status,
            "because": self.because,
        }


class Repeat(NamedTuple):
    """All runs so far."""

    scenario: str
    planned: int
    runs: tuple[Run, ...]
    words: tuple[str, ...] = ()
    """Why there are fewer runs than planned."""

    @property
    def exit_codes(self) -> list[int]:
        return [run.exit_code for run in self.runs]

    def figures(self) -> Comparison:
        """All runs as the samples of one subject."""
        return compared([Subject(self.scenario, tuple(run.report for run in self.runs))])

    def side_by_side(self) -> Comparison:
        """Each run as a subject of its own."""
        return compared([Subject(f"{run.name}, seed {run.seed}", (run.report,)) for run in self.runs])


def rows(repeat: Repeat) -> Iterator[tuple[str, ...]]:
    """A row for each figure, with the columns of HEADINGS; a heading is a row of one cell."""
    for part in repeat.figures().parts:
        yield (part.heading,)
        for row in part.rows:
            yield (f"  {row.label}", *_cells(row))


def verdicts(repeat: Repeat) -> list[tuple[str, ...]]:
    """The name, seed, status and reason of each run."""
    return [(run.name, str(run.seed), run.status, run.because) for run in repeat.runs]


def summary(repeat: Repeat) -> str:
    """The verdicts in one line."""
    counts = [run.status for run in repeat.runs]
    told = ", ".join(f"{counts.count(status)} {status}" for status in dict.fromkeys(counts)) or "none"
    return f"{len(counts)} of {repeat.planned} runs: {told}"


def plain(repeat: Repeat) -> dict[str, Any]:
    """Return it as plain values for repeat.json."""
    return {
        "version": VERSION,
        "scenario": repeat.scenario,
        "planned": repeat.planned,
        "runs": [run.plain() for run in repeat.runs],
        "words": list(repeat.words),
        "figures": [
            {"heading": part.heading, "rows": [_plain(row) for row in part.rows]}
            for part in (repeat.figures().parts if repeat.runs else ())
        ],
    }


def _plain(row: Row) -> Mapping[str, Any]:
    (samples,) = row.samples
    return {
        "label": row.label,
        "is_ms": row.is_ms,
        "values": samples,
        "median": _median(samples),
        "least": min(samples, default=None),
        "most": max(samples, default=None),
        "spread_percent": spread_percent(samples),
    }


def _cells(row: Row) -> tuple[str, ...]:
    (samples,) = row.samples
    tell = duration if row.is_ms else number
    spread = spread_percent(samples)
    figures = (_median(samples), min(samples, default=None), max(samples, default=None))
    return *map(tell, figures), "-" if spread is None else f"{number(spread)} %"


def _median(samples: Sequence[float]) -> float | None:
    return statistics.median(samples) if samples else None
