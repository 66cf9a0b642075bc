"""Two reports of swarms side by side: figure by figure, with ratios, and what cannot be compared.

PURE: what two report.json say in, values out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from bench.swarm.page import duration, number

Report = Mapping[str, Any]
_MS: Final = "ms"


class Row(NamedTuple):
    """One figure of both."""

    label: str
    a: float | None
    b: float | None
    is_ms: bool = False

    @property
    def ratio(self) -> float | None:
        """A / B."""
        return self.a / self.b if self.a is not None and self.b else None

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """As text: label, A, B, ratio."""
        tell = duration if self.is_ms else number
        ratio = "" if self.ratio is None else number(float(self.ratio))
        return self.label, tell(self.a), tell(self.b), ratio


class Part(NamedTuple):
    """Rows that belong together."""

    heading: str
    rows: tuple[Row, ...]


class Comparison(NamedTuple):
    """Both runs."""

    names: tuple[str, str]
    parts: tuple[Part, ...]
    remarks: tuple[str, ...]
    """What to know before believing a ratio."""
    reports: tuple[Report, Report]


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


def compared(a: Report, b: Report, names: tuple[str, str]) -> Comparison:
    """`names`: of the files, used where the runs do not say what their server was."""
    both = (a, b)
    told = tuple(
        f"{letter}: {_run(report).get('software') or name}"
        for letter, report, name in zip("AB", both, names, strict=True)
    )
    parts = (
        Part("Time to stable, by group", tuple(_spread_rows(both, "figures", "stable"))),
        Part("Membership", tuple(_rows(both, _TOTALS))),
        Part("Length of a rebalance", tuple(_spread_rows(both, "figures", "rebalance"))),
        Part("Time without coordinator, by group and gap", tuple(_gap_rows(both))),
        Part("Requests", tuple(_rows(both, _REQUESTS))),
        *_server_parts(both),
        *_api_parts(both),
        Part("Errors", tuple(_error_rows(both))),
    )
    shown = tuple(part for part in parts if part.rows)
    return Comparison((told[0], told[1]), shown, tuple(_remarks(both)), both)


def _run(report: Report) -> Mapping[str, Any]:
    run: Mapping[str, Any] = report.get("run") or {}
    return run


def at(report: Report, *path: str) -> Any:
    """A figure of a report. None where something on the way is missing: a run may never have come so far."""
    found: Any = report
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _rows(both: tuple[Report, Report], figures: tuple[tuple[str, str], ...]) -> Iterator[Row]:
    for label, name in figures:
        a, b = (at(report, "figures", "totals", name) for report in both)
        yield Row(label, a, b)


def _spread_rows(both: tuple[Report, Report], *path: str) -> Iterator[Row]:
    for label, name in _SPREADS:
        a, b = (at(report, *path, name) for report in both)
        yield Row(label, a, b, is_ms=True)


def _gap_rows(both: tuple[Report, Report]) -> Iterator[Row]:
    a, b = (at(report, "figures", "without_coordinator", "values") for report in both)
    if a or b:
        yield Row("times", a, b)
        yield from _spread_rows(both, "figures", "without_coordinator")


def _apis(report: Report) -> dict[str, Mapping[str, Any]]:
    return {api["api"]: api for api in at(report, "figures", "apis") or ()}


def _api_parts(both: tuple[Report, Report]) -> Iterator[Part]:
    found = tuple(_apis(report) for report in both)
    for name in dict.fromkeys((*found[0], *found[1])):
        mine = ({"api": found[0].get(name, {})}, {"api": found[1].get(name, {})})
        rows = [Row("requests", at(mine[0], "api", "requests"), at(mine[1], "api", "requests"))]
        yield Part(f"{name}: latency", (*rows, *_spread_rows(mine, "api", "latency")))


def _server_parts(both: tuple[Report, Report]) -> Iterator[Part]:
    """If anybody looked at one."""
    if any(report.get("server") for report in both):
        rows = (Row(label, *(at(report, "server", name) for report in both)) for label, name in _SERVER)
        yield Part("The server's processes", tuple(rows))


def _error_rows(both: tuple[Report, Report]) -> Iterator[Row]:
    a, b = (at(report, "figures", "errors") or {} for report in both)
    for name in dict.fromkeys((*a, *b)):
        yield Row(name, a.get(name, 0), b.get(name, 0))


def _remarks(both: tuple[Report, Report]) -> Iterator[str]:
    yield "Ratios are A / B. A dash: that run has no such figure."
    runs = [_run(report) for report in both]
    plans = [run.get("plan") or {} for run in runs]
    for name in dict.fromkeys((*_SAME, *plans[0], *plans[1])):
        a, b = (
            run.get(name) if name in _SAME else plan.get(name) for run, plan in zip(runs, plans, strict=True)
        )
        if a != b:
            yield f"Not the same {name}: {_short(a)} and {_short(b)}."
    a, b = (report.get("machine") for report in both)
    if a != b:
        yield f"Not the same machine or software around it: {_short(a)} and {_short(b)}."
    for letter, report in zip("AB", both, strict=True):
        for word in report.get("words") or ():
            yield f"{letter}: {word}"
        if not report.get("is_fine"):
            yield f"{letter}: {at(report, 'verdict', 'summary') or 'it was not judged'}"
    for missing, other, letter in ((both[0], both[1], "A"), (both[1], both[0], "B")):
        absent = _apis(other).keys() - _apis(missing).keys()
        if absent:
            yield f"{letter} never sent: {', '.join(sorted(absent))}."


def _short(value: Any) -> str:
    return "not said" if value is None else str(value)
