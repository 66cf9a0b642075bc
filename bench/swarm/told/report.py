"""Judges and counts the run in a directory, and writes report.html and report.json into it.

Everything comes from the rows of the clients and run.json, so that an interrupted run is reported as well.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from bench.ground.machine import machine as described
from bench.swarm.counted import marks_file, second_rows
from bench.swarm.counted.counting import figures_of
from bench.swarm.counted.figures import Figures
from bench.swarm.counted.marked import marked
from bench.swarm.counted.needs import plain as plain_needs
from bench.swarm.counted.needs import read as needs_of
from bench.swarm.counted.results import plain
from bench.swarm.counted.seconds import NO_STEPS_MAX
from bench.swarm.counted.wall import Wall
from bench.swarm.planning import due, thresholds
from bench.swarm.planning.thresholds import Checked
from bench.swarm.records.lag import Lags, lags_of
from bench.swarm.rows.recorder import file_name
from bench.swarm.told import moments, records, sections, server
from bench.swarm.told.charts import Band
from bench.swarm.told.page import Headline, Section, page
from storage.history.call_files import SUFFIX, UnreadableFile, read_history
from storage.history.calls import History
from storage.history.judge.findings import KEPT, LEAST_ANSWERED, Limits
from storage.history.judge.verdict import Verdict, judge

VERSION: Final = 1
"""The version of report.json."""
PAGE: Final = "report.html"
RESULTS: Final = "report.json"
RUN_FILE: Final = "run.json"
SECONDS: Final = "seconds.csv"
PROGRESS_FROM_BYTES: Final = 5_000_000
"""The bytes from which on a progress bar is shown: less is read and judged before one would see it."""


class NothingToReport(ValueError):
    """The directory is not that of a run; the text says why."""


class Addition(NamedTuple):
    """What another reader of the same history adds to its report."""

    sections: tuple[Section, ...] = ()
    """Sections of the page that stand before the tables of requests."""
    lines: tuple[str, ...] = ()
    """Lines for the terminal."""
    plain: Mapping[str, Any] = {}
    """Further keys of report.json."""


class _Judged(NamedTuple):
    """A run that was counted and judged, as its page and report.json both tell it."""

    run: Mapping[str, Any]
    """What run.json says."""
    figures: Figures
    verdict: Verdict
    words: tuple[str, ...]
    about: Mapping[str, str]
    """How the run was made, by the names of the page."""


More = Callable[[History, Figures], Addition]


class Outcome(NamedTuple):
    """The outcome of a run, and where its report is."""

    verdict: Verdict
    """The verdict, which is one line as text."""
    status: str
    """The status of verdict and thresholds together: broken if one is, else not shown if one is not."""
    checked: list[Checked]
    """The thresholds, checked."""
    page: Path
    lines: tuple[str, ...]
    """Lines for the terminal that stand above the verdict."""
    figures: Figures
    results: Mapping[str, Any]
    """What report.json holds."""


def report(
    directory: Path,
    *,
    console: Console | None = None,
    more: More | None = None,
    limits: Limits | None = None,
    extra_thresholds: Sequence[str] = (),
) -> Outcome:
    """Judge a run and write its report.

    `console` is where progress shows; `more` adds to the page; `extra_thresholds` replace those of the run
    that limit the same. Raises NothingToReport, BadThreshold, BadMarks, OSError.
    """
    run = read_run(directory)
    limited = thresholds.parse_all((*run.get("thresholds", ()), *extra_thresholds))
    marks = marks_file.read(directory)
    _require_all(directory, run)
    with _progress(directory, console) as progress, _without_collector():
        history = _read(directory, progress)
        progress.says("counting")
        figures = figures_of(history, run.get("began_us"), run.get("wall_us"))
        verdict = _by_wall_clock(_verdict(run, history, limits, progress), figures.wall)
        found = marked(marks, figures) if figures.wall.wall_us is not None else []
        progress.says("writing")
        added = more(history, figures) if more else Addition()
        words = tuple(_words(run, history))
        if marks and not found:
            words += ("The record does not say what time it was: marks cannot be placed in it.",)
        about = sections.about(run, machine())
        needs = needs_of(directory)
        lags = lags_of(history, figures.began_us, figures.ended_us)
        judged = _Judged(run, figures, verdict, words, about)
        results = _as_json(judged)
        results |= {"server": plain_needs(needs), "is_whole": history.is_whole}
        results |= {"records": records.plain(lags)}
        checked = thresholds.check(limited, results)
        results |= _with_thresholds(verdict, checked) | {"marks": moments.plain(found, figures)}
        results |= dict(added.plain)
        _write(directory / RESULTS, results)
        _write_seconds(directory / SECONDS, figures, history, lags)
        behind = [*sections.bands(figures), *moments.bands(found, figures)]
        added = added._replace(
            sections=(
                *moments.sections(checked, found, figures),
                *records.sections(lags, behind, figures.wall),
                *server.sections(needs, behind, figures.wall),
                *added.sections,
            ),
            lines=(
                *records.lines(lags),
                *server.lines(needs),
                *moments.lines(found, figures.wall),
                *added.lines,
            ),
        )
        text = _page(judged, checked, added, behind)
        (directory / PAGE).write_text(text, encoding="utf-8")
    lines = (*words, *sections.lines(figures), *added.lines)
    return Outcome(verdict, results["status"], checked, directory / PAGE, lines, figures, results)


def _by_wall_clock(verdict: Verdict, wall: Wall) -> Verdict:
    """Write the verdict's moments by the wall clock, which the judge does not know."""
    return verdict._replace(
        violations=tuple(each._replace(text=wall.in_words(each.text)) for each in verdict.violations),
        promises=tuple(each._replace(because=wall.in_words(each.because)) for each in verdict.promises),
    )


def _with_thresholds(verdict: Verdict, checked: Sequence[Checked]) -> dict[str, Any]:
    status = thresholds.worst((verdict.status, thresholds.status_of(checked)))
    because = "; ".join((verdict.because, *thresholds.missed(checked)))
    return {
        "status": status,
        "is_fine": status == KEPT,
        "summary": f"{status}: {because}",
        "thresholds": thresholds.plain(checked),
    }


def _write_seconds(path: Path, figures: Figures, history: History, lags: Lags | None) -> None:
    if lags is not None and lags.step_s > 1:
        lags = lags_of(history, figures.began_us, figures.ended_us, steps_max=NO_STEPS_MAX)
    lag = lags.total if lags else ()
    with path.open("w", encoding="utf-8") as file:
        for line in second_rows.csv_lines(second_rows.rows(figures.by_second, figures.wall, lag)):
            file.write(f"{line}\n")


def _verdict(run: Mapping[str, Any], history: History, limits: Limits | None, progress: _Shown) -> Verdict:
    least_answered = float(run.get("least_answered", LEAST_ANSWERED))
    return judge(
        history,
        limits or Limits(least_answered=least_answered),
        lambda rule: progress.says(f"judging {rule}"),
        due.planned(run, history.ended_us),
    )


def read_run(directory: Path) -> dict[str, Any]:
    """Read run.json; empty if there is none, or not a whole one. Raises OSError."""
    path = directory / RUN_FILE
    try:
        run = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except ValueError:
        return {}
    return run if isinstance(run, dict) else {}


def was_stopped(told: Mapping[str, Any]) -> bool:
    """Whether a run ended before its planned end, by what run.json or report.json tells."""
    return any(str(word).startswith("stopped after") for word in told.get("words") or ())


def _require_all(directory: Path, run: Mapping[str, Any]) -> None:
    """Check that the record is complete. Raises NothingToReport if a process of a run that ended as planned
    kept its record on another machine."""
    if not run.get("is_finished"):
        return
    names = (file_name(worker) for worker in range(int(run.get("processes") or 0)))
    missing = [name for name in names if not (directory / name).exists()]
    if missing:
        raise NothingToReport(f"{', '.join(missing)}: not in {directory}; copy it from the worker's machine")


def machine() -> str:
    """The machine and the version with which the report is made."""
    return f"{described()}, groupd {version('groupd')}"


def _read(directory: Path, progress: _Shown) -> History:
    try:
        return read_history(directory, progress.read)
    except UnreadableFile as error:
        raise NothingToReport(str(error)) from error


def _words(run: Mapping[str, Any], history: History) -> Iterator[str]:
    yield from map(str, run.get("words") or ())
    if not run:
        yield "There is no run.json, or it was not written whole: what was planned is not known."
    elif not run.get("is_finished"):
        yield "The run did not end as planned: this is what it did until then."
    if not history.is_whole:
        yield (
            "The history is not whole: a file was cut short, or calls were on their way when it ended. "
            "What it does not show is held against nobody."
        )
    if not history.calls:
        yield "No request was ever sent."


def _as_json(judged: _Judged) -> dict[str, Any]:
    return {
        "version": VERSION,
        "run": dict(judged.run),
        "machine": judged.about["machine"],
        "words": list(judged.words),
        "verdict": judged.verdict.plain(),
        "figures": plain(judged.figures),
    }


def _write(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value) + "\n", encoding="utf-8")


def _page(judged: _Judged, checked: Sequence[Checked], added: Addition, behind: Sequence[Band]) -> str:
    run, figures, verdict, words, about = judged
    totals = figures.totals
    server = run.get("software") or run.get("bootstrap") or ""
    about_run = (
        f"{totals.members:,} members in {totals.groups:,} groups",
        f"{totals.duration_s:,.0f} s",
        server,
    )
    headline = Headline(
        title=f"Swarm: {run.get('scenario') or 'unknown scenario'}",
        about=" · ".join(filter(None, (*about_run, run.get("began_at")))),
        verdict=thresholds.worst((verdict.status, thresholds.status_of(checked))),
        because="; ".join((verdict.because, *thresholds.missed(checked))),
        promises=verdict.promises,
        words=words,
    )
    own = list(sections.sections(figures, verdict, about, behind))
    return page(headline, [*own[:2], *added.sections, *own[2:]])


@contextmanager
def _without_collector() -> Iterator[None]:
    """Turn the garbage collector off within: millions of rows are read and none of them is garbage, so that
    looking for it would take most of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Shown:
    """The progress of a report; without a console nothing is shown."""

    def __init__(self, bar: Progress | None, total_bytes: int) -> None:
        self._bar = bar
        self._task = bar.add_task("reading", total=total_bytes) if bar else None
        self._pending_bytes = 0

    def read(self, count: int) -> None:
        self._pending_bytes += count
        if self._bar and self._task is not None and self._pending_bytes > PROGRESS_FROM_BYTES // 10:
            self._bar.advance(self._task, self._pending_bytes)
            self._pending_bytes = 0

    def says(self, what: str) -> None:
        if self._bar and self._task is not None:
            self._bar.update(self._task, description=what, total=None)


@contextmanager
def _progress(directory: Path, console: Console | None) -> Iterator[_Shown]:
    total_bytes = sum(path.stat().st_size for path in directory.glob(f"*{SUFFIX}"))
    bar = None
    if console is not None and total_bytes >= PROGRESS_FROM_BYTES:
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        bar = Progress(*columns, console=console, transient=True)
    with bar or nullcontext():
        yield _Shown(bar, total_bytes)
