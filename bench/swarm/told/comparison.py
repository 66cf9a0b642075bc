"""Compares reports of swarms figure by figure, with ratios, and tells what cannot be compared.

PURE. A subject may have several runs: then its figures are their medians, with the interval of `intervals`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from string import ascii_uppercase
from typing import Any, Final, NamedTuple

from bench.swarm.counted import intervals
from bench.swarm.counted.intervals import Estimate
from bench.swarm.told.page import duration, number

Report = Mapping[str, Any]
MARK: Final = "*"
"""The mark after a ratio whose interval does not hold 1."""
RUNS_FEW: Final = 5
"""The number of runs below which intervals are much too narrow."""
SUBJECTS_MAX: Final = len(ascii_uppercase)


class Subject(NamedTuple):
    """One side of a comparison: a run, or several of the same."""

    name: str
    """The name, for runs that do not say what their server was."""
    reports: tuple[Report, ...]


class Row(NamedTuple):
    """One figure of all subjects."""

    label: str
    samples: tuple[tuple[float, ...], ...]
    """The figure in each subject's runs that have it."""
    is_ms: bool = False

    @classmethod
    def of(cls, label: str, values: Iterable[float | None], *, is_ms: bool = False) -> Row:
        """A row of subjects with one run each; None: that run has no such figure."""
        return cls(label, tuple(() if value is None else (value,) for value in values), is_ms)

    @property
    def a(self) -> float | None:
        """The first subject's median."""
        return self._median(0)

    @property
    def b(self) -> float | None:
        """The second subject's median."""
        return self._median(1)

    @property
    def ratio(self) -> float | None:
        """The ratio of `a` to `b`."""
        return self.ratios[0].value if self.ratios[0] is not None else None

    @property
    def middles(self) -> list[Estimate | None]:
        """The median and its interval for each subject."""
        return [intervals.middle(samples) for samples in self.samples]

    @property
    def ratios(self) -> list[Estimate | None]:
        """The ratios of the first subject's median to that of each other one."""
        first, *others = self.samples
        return [intervals.ratio(first, other) for other in others]

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as text: label, a figure for each subject, then a ratio for each but the first."""
        has_intervals = any(len(samples) > 1 for samples in self.samples)
        tell = duration if self.is_ms else number
        figures = [_told(middle, tell, has_intervals) for middle in self.middles]
        ratios = [
            "" if ratio is None else _told(ratio, _ratio, has_intervals) + MARK * ratio.differs_from_one
            for ratio in self.ratios
        ]
        return self.label, *figures, *ratios

    def plain(self) -> dict[str, Any]:
        """Return it as plain values for JSON; of two runs `a` and `b` are their figures."""
        if len(self.samples) == 2 and all(len(samples) < 2 for samples in self.samples):
            return {"label": self.label, "a": self.a, "b": self.b, "is_ms": self.is_ms}
        return {
            "label": self.label,
            "is_ms": self.is_ms,
            "samples": self.samples,
            "medians": [middle and middle._asdict() for middle in self.middles],
            "ratios": [
                ratio and {**ratio._asdict(), "differs": ratio.differs_from_one} for ratio in self.ratios
            ],
        }

    def _median(self, place: int) -> float | None:
        middle = intervals.middle(self.samples[place])
        return None if middle is None else middle.value


class Part(NamedTuple):
    """Rows under one heading."""

    heading: str
    rows: tuple[Row, ...]


class Comparison(NamedTuple):
    """A comparison of all subjects."""

    names: tuple[str, ...]
    """The names of the subjects, each with its letter."""
    parts: tuple[Part, ...]
    remarks: tuple[str, ...]
    """Sentences to know before one believes a ratio."""
    subjects: tuple[Subject, ...]

    @property
    def ratio_names(self) -> tuple[str, ...]:
        """The headings of the ratios."""
        return tuple(f"A / {letter}" for letter in ascii_uppercase[1 : len(self.names)])


def _told(estimate: Estimate | None, tell: Any, has_intervals: bool) -> str:
    if estimate is None:
        return "-"
    value: str = tell(estimate.value)
    if not has_intervals:
        return value
    if estimate.low is None or estimate.high is None:
        return f"{value} (-)"
    return f"{value} ({tell(estimate.low)} to {tell(estimate.high)})"


def _ratio(value: float) -> str:
    return number(float(value))


_TOTALS: Final = (
    ("rebalances", "rebalances"),
    ("of these overtaken by the next", "unsettled"),
    ("members in a rebalance, mean", "rebalancing_mean"),
    ("partitions moved", "moved"),
    ("memberships lost", "members_lost"),
    ("groups never stable", "never_stable"),
)
_REQUESTS: Final = (
    ("requests", "requests"),
    ("requests a second", "requests_s"),
    ("refused", "refused"),
    ("lost", "lost"),
    ("commits a second", "commits_s"),
)
_SERVER: Final = (
    ("cores, mean", "cores_mean"),
    ("cores, max", "cores_max"),
    ("memory in MiB, mean", "memory_mib_mean"),
    ("memory in MiB, max", "memory_mib_max"),
)
_SPREADS: Final = (("p50", "p50_ms"), ("p99", "p99_ms"), ("max", "max_ms"))
_SAME: Final = ("scenario", "seed", "processes")


def compared(subjects: Sequence[Subject]) -> Comparison:
    """Compare subjects; the ratios are those of the first one to each other."""
    subjects = tuple(subjects)
    names = tuple(
        f"{letter}: {_server_of(subject, len(subjects))}"
        for letter, subject in zip(ascii_uppercase, subjects, strict=False)
    )
    parts = (
        Part("Time to stable, by group", tuple(_spread_rows(subjects, "figures", "stable"))),
        Part("Membership", tuple(_rows(subjects, _TOTALS))),
        Part("Length of a rebalance", tuple(_spread_rows(subjects, "figures", "rebalance"))),
        Part("Time without coordinator, by group and gap", tuple(_gap_rows(subjects))),
        Part("Requests", tuple(_rows(subjects, _REQUESTS))),
        *_server_parts(subjects),
        *_api_parts(subjects),
        Part("Errors", tuple(_error_rows(subjects))),
    )
    shown = tuple(part for part in parts if part.rows)
    return Comparison(names, shown, tuple(_remarks(subjects)), subjects)


def _server_of(subject: Subject, subjects: int) -> str:
    """The server of a subject's runs; among more than two subjects also the name that was given, because
    several may be of one server."""
    software = _common(_run(report).get("software") for report in subject.reports)
    name = subject.name
    if len(subject.reports) > 1:
        name += f", {len(subject.reports)} runs"
    elif subjects == 2:
        return str(software or name)
    return f"{software}: {name}" if software else name


def _common(values: Iterable[Any]) -> Any:
    """The value that all have in common; None: they differ."""
    found = list(values)
    return found[0] if found and all(value == found[0] for value in found) else None


def _run(report: Report) -> Mapping[str, Any]:
    run: Mapping[str, Any] = report.get("run") or {}
    return run


def at(report: Report, *path: str) -> Any:
    """Make a reader of one figure of a report. It gives None where something on the way is missing: a run may
    never have come so far."""
    found: Any = report
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _row(subjects: Sequence[Subject], label: str, *path: str, is_ms: bool = False) -> Row:
    def samples(subject: Subject) -> tuple[float, ...]:
        values = (at(report, *path) for report in subject.reports)
        return tuple(value for value in values if value is not None)

    return Row(label, tuple(map(samples, subjects)), is_ms)


def _rows(subjects: Sequence[Subject], figures: tuple[tuple[str, str], ...]) -> Iterator[Row]:
    for label, name in figures:
        yield _row(subjects, label, "figures", "totals", name)


def _spread_rows(subjects: Sequence[Subject], *path: str) -> Iterator[Row]:
    for label, name in _SPREADS:
        yield _row(subjects, label, *path, name, is_ms=True)


def _gap_rows(subjects: Sequence[Subject]) -> Iterator[Row]:
    times = _row(subjects, "times", "figures", "without_coordinator", "values")
    if any(map(any, times.samples)):
        yield times
        yield from _spread_rows(subjects, "figures", "without_coordinator")


def _apis(report: Report) -> dict[str, Mapping[str, Any]]:
    return {api["api"]: api for api in at(report, "figures", "apis") or ()}


def _api_parts(subjects: Sequence[Subject]) -> Iterator[Part]:
    """The rows of each API, which the reports have as lists, by name."""
    named = [
        Subject(each.name, tuple({"apis": _apis(report)} for report in each.reports)) for each in subjects
    ]
    for api in dict.fromkeys(api for each in named for report in each.reports for api in report["apis"]):
        requests = _row(named, "requests", "apis", api, "requests")
        yield Part(f"{api}: latency", (requests, *_spread_rows(named, "apis", api, "latency")))


def _server_parts(subjects: Sequence[Subject]) -> Iterator[Part]:
    """The rows of what the servers needed, if any were watched."""
    if any(report.get("server") for subject in subjects for report in subject.reports):
        yield Part(
            "The server's processes", tuple(_row(subjects, label, "server", name) for label, name in _SERVER)
        )


def _error_rows(subjects: Sequence[Subject]) -> Iterator[Row]:
    errors = [[at(report, "figures", "errors") or {} for report in each.reports] for each in subjects]
    for name in dict.fromkeys(name for of_subject in errors for counts in of_subject for name in counts):
        yield Row(name, tuple(tuple(counts.get(name, 0) for counts in of_subject) for of_subject in errors))


def _remarks(subjects: Sequence[Subject]) -> Iterator[str]:
    if len(subjects) > 1:
        ratios = "Ratios are A / B." if len(subjects) == 2 else "Ratios are A / B, A / C and so on."
        yield f"{ratios} A dash: that run has no such figure."
    yield from _remarks_on_runs(subjects)
    yield from _differences(subjects)
    for letter, subject in zip(ascii_uppercase, subjects, strict=False):
        for place, report in enumerate(subject.reports, 1):
            which = letter if len(subject.reports) == 1 else f"{letter}, run {place}"
            for word in report.get("words") or ():
                yield f"{which}: {word}"
            if not report.get("is_fine"):
                yield f"{which}: {at(report, 'verdict', 'summary') or 'it was not judged'}"
    sent = [{api for report in subject.reports for api in _apis(report)} for subject in subjects]
    for letter, mine in zip(ascii_uppercase, sent, strict=False):
        absent = set().union(*sent) - mine
        if absent:
            yield f"{letter} never sent: {', '.join(sorted(absent))}."


def _remarks_on_runs(subjects: Sequence[Subject]) -> Iterator[str]:
    """Sentences that say how the figures of several runs are to be read."""
    runs = [len(subject.reports) for subject in subjects]
    if max(runs) == 1:
        return
    yield (
        "Figures of several runs are medians, with a 95 % interval in brackets (percentile bootstrap; "
        f"a dash: fewer than {intervals.SAMPLES_LEAST} runs). {MARK}: the ratio's interval does not hold 1."
    )
    few = [count for count in runs if intervals.SAMPLES_LEAST <= count < RUNS_FEW]
    if few:
        yield f"Intervals of {min(few)} runs are too narrow: with {RUNS_FEW} a mark says more."


def _differences(subjects: Sequence[Subject]) -> Iterator[str]:
    """Sentences about what the subjects should have in common and have not. Runs of one subject differ in
    their seeds."""
    plans = [_run(report).get("plan") or {} for subject in subjects for report in subject.reports]
    for name in dict.fromkeys((*_SAME, *(name for plan in plans for name in plan))):
        path = ("run", name) if name in _SAME else ("run", "plan", name)
        yield from _difference(subjects, f"Not the same {name}", *path)
    yield from _difference(subjects, "Not the same machine or software around it", "machine")


def _difference(subjects: Sequence[Subject], what: str, *path: str) -> Iterator[str]:
    told = [
        ", ".join(dict.fromkeys(_short(at(report, *path)) for report in each.reports)) for each in subjects
    ]
    if len(set(told)) > 1:
        yield f"{what}: {' and '.join(told)}."


def _short(value: Any) -> str:
    return "not said" if value is None else str(value)
