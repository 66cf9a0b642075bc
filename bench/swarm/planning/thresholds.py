"""Thresholds are limits of a run's figures, such as `p99(OffsetCommit) < 50ms`; this checks whether the run
kept them.

PURE. They are written `FIGURE OPERATOR LIMIT`, the same in a scenario's [thresholds] table and after
`--threshold`; CI.md has the grammar. All figures are looked up in report.json, so that any report can be
checked again. A figure that was not observed neither keeps nor breaks a threshold: it is not shown.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from bench.swarm.planning.scenario_errors import hint
from storage.history.judge.findings import BROKEN, KEPT, NOT_SHOWN

SHARES: Final[Mapping[str, float]] = MappingProxyType(
    {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "max": 1.0}
)
SPREADS: Final[Mapping[str, str]] = MappingProxyType(
    {"stable": "stable", "rebalance": "rebalance", "gap": "without_coordinator"}
)
"""The figures with percentiles besides the APIs, with their names in report.json."""
APIS: Final = (
    *("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "ConsumerGroupHeartbeat", "OffsetCommit"),
    *("OffsetFetch", "FindCoordinator", "Metadata", "ApiVersions", "Connect", "Produce", "Fetch"),
    *("ListOffsets", "InitProducerId", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn", "CreateTopics"),
    *("CreatePartitions", "DeleteTopics", "DeleteGroups", "OffsetDelete", "DescribeGroups", "ListGroups"),
    *("ConsumerGroupDescribe", "SaslHandshake", "SaslAuthenticate", "DescribeConfigs"),
)
FAILURES: Final = ("errors", "refused", "lost")
FLOWS: Final = ("requests", "served", "commits")
COUNTS: Final = ("rebalances", "unsettled", "moved", "members_lost", "never_stable", "gaps")
UNITS_MS: Final[Mapping[str, float]] = MappingProxyType({"ms": 1.0, "s": 1_000.0, "min": 60_000.0})
A_SECOND: Final = "/s"
PERCENT: Final = "%"
NEVER_MS: Final = math.inf
"""The time to stable of a group that never was stable."""

_OPERATORS: Final[Mapping[str, Callable[[float, float], bool]]] = MappingProxyType(
    {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
)
_GRAMMAR: Final = re.compile(
    r"\s*(?P<figure>\w+)\s*(?:\(\s*(?P<of>\w*)\s*\))?\s*(?P<operator><=|>=|<|>)\s*"
    r"(?P<number>\d[\d_]*(?:\.\d+)?)\s*(?P<unit>ms|s|min|%|/s)?\s*"
)
EXAMPLES: Final = "p99(OffsetCommit) < 50ms, max(gap) < 5s, errors < 1%, served >= 100/s, rebalances <= 20"


class BadThreshold(ValueError):
    """A text is no threshold; the error says what is wrong with it, and what is allowed."""


class Threshold(NamedTuple):
    """The limit of one figure."""

    text: str
    """The text of the threshold, in its normal form."""
    figure: str
    of: str
    """The API, or one of SPREADS, whose figure is meant; empty: the figure is a count."""
    operator: str
    limit: float
    """The limit in `unit`."""
    unit: str
    """The unit of the limit: "ms", "/s", "%", or empty for a number."""

    @property
    def is_ceiling(self) -> bool:
        """Whether the figure has to stay below the limit."""
        return self.operator.startswith("<")

    @property
    def subject(self) -> tuple[str, str, str, bool]:
        """What the threshold limits: of two with the same subject the later holds."""
        return self.figure, self.of, self.unit, self.is_ceiling

    def holds(self, found: float) -> bool:
        return _OPERATORS[self.operator](found, self.limit)


class Checked(NamedTuple):
    """The result of checking one threshold."""

    text: str
    limit: float
    found: float | None
    """The figure that was found, in the limit's unit; None: it was not observed, or it never came to an
    end."""
    unit: str
    status: str
    """The status: KEPT, BROKEN or NOT_SHOWN."""
    because: str
    """What was found, or why nothing was, in a line."""


class _Found(NamedTuple):
    value: float | None
    because: str = ""
    """Why no figure was found."""


def parse(text: str) -> Threshold:
    """Parse a threshold. Raises BadThreshold."""
    said = _GRAMMAR.fullmatch(text)
    if said is None:
        raise BadThreshold(f"{text!r:.80} is no threshold: FIGURE OPERATOR LIMIT is needed, as {EXAMPLES}")
    figure, of, unit = said["figure"], said["of"] or "", said["unit"] or ""
    _check_figure(text, figure, of, has_of=said["of"] is not None)
    _check_unit(text, figure, unit)
    number = float(said["number"])
    whole = f"{figure}({of})" if of else figure
    return Threshold(
        text=f"{whole} {said['operator']} {said['number']}{unit}",
        figure=figure,
        of=of,
        operator=said["operator"],
        limit=number * UNITS_MS.get(unit, 1.0),
        unit="ms" if unit in UNITS_MS else unit,
    )


def parse_all(texts: Iterable[str]) -> list[Threshold]:
    """Parse thresholds; of two that limit the same in the same direction the later counts: a flag replaces
    what a file says. Raises BadThreshold."""
    return list({threshold.subject: threshold for threshold in map(parse, texts)}.values())


def _check_figure(text: str, figure: str, of: str, *, has_of: bool) -> None:
    counts = (*FLOWS, *FAILURES, *COUNTS)
    if figure in SHARES:
        if of not in (*SPREADS, *APIS):
            what = f"there is no {of}" if of else f"{figure} of what?"
            raise BadThreshold(f"{text!r}: {what}; {hint(of, (*SPREADS, *APIS))}")
    elif figure not in counts:
        raise BadThreshold(f"{text!r}: there is no figure {figure}; {hint(figure, (*SHARES, *counts))}")
    elif has_of:
        raise BadThreshold(f"{text!r}: {figure} is counted over all groups: leave out ({of})")


def _check_unit(text: str, figure: str, unit: str) -> None:
    allowed: tuple[str, ...] = ("",)
    if figure in SHARES:
        allowed = tuple(UNITS_MS)
    elif figure in FAILURES:
        allowed = ("", PERCENT, A_SECOND)
    elif figure in FLOWS:
        allowed = ("", A_SECOND)
    if unit not in allowed:
        told = ", ".join(each or "none" for each in allowed)
        raise BadThreshold(f"{text!r}: {figure} needs another unit than {unit or 'none'}: {told} are allowed")


def check(thresholds: Iterable[Threshold], report: Mapping[str, Any]) -> list[Checked]:
    """Check thresholds against `report`, which is a report.json."""
    return [_checked(threshold, report) for threshold in thresholds]


def status_of(checked: Iterable[Checked]) -> str:
    """The status of all thresholds: broken if one is; else not shown if one is; else kept."""
    return worst(each.status for each in checked)


def worst(statuses: Iterable[str]) -> str:
    """The worst of some statuses; kept if there is none."""
    found = set(statuses)
    return next((status for status in (BROKEN, NOT_SHOWN) if status in found), KEPT)


def missed(checked: Iterable[Checked]) -> list[str]:
    """The thresholds that were not kept, in words."""
    return [f"threshold {each.text}: {each.because}" for each in checked if each.status != KEPT]


def plain(checked: Iterable[Checked]) -> list[dict[str, Any]]:
    """Return them as plain values for JSON."""
    return [each._asdict() for each in checked]


def _checked(threshold: Threshold, report: Mapping[str, Any]) -> Checked:
    found = _found(threshold, report)
    value = found.value
    if value == NEVER_MS:
        return _never(threshold, report)
    if value is None:
        status, because = NOT_SHOWN, found.because
    else:
        status = KEPT if threshold.holds(value) else BROKEN
        because = f"found {_told(value, threshold.unit)}"
        if status == KEPT and threshold.is_ceiling and report.get("is_whole") is False:
            status = NOT_SHOWN
            because += ", but the record is not whole: there may have been more"
    return Checked(threshold.text, threshold.limit, value, threshold.unit, status, because)


def _never(threshold: Threshold, report: Mapping[str, Any]) -> Checked:
    """Check the time to stable of groups that never became stable: it is longer than the run."""
    lasted_ms = 1e3 * float(_totals(report).get("duration_s") or 0.0)
    is_past = lasted_ms > threshold.limit
    status = NOT_SHOWN
    if is_past:
        status = BROKEN if threshold.is_ceiling else KEPT
    because = f"never within the run's {_told(lasted_ms, 'ms')}"
    return Checked(threshold.text, threshold.limit, None, threshold.unit, status, because)


def _found(threshold: Threshold, report: Mapping[str, Any]) -> _Found:
    figure, of = threshold.figure, threshold.of
    if figure in SHARES:
        if of == "stable":
            return _time_to_stable(SHARES[figure], report)
        return _of_spread(figure, of, report) if of in SPREADS else _of_api(figure, of, report)
    totals = _totals(report)
    requests = totals.get("requests") or 0
    if not requests and threshold.is_ceiling:
        return _Found(None, "no request was sent: there was nothing to count")
    return _count(threshold, report, requests)


def _count(threshold: Threshold, report: Mapping[str, Any], requests: int) -> _Found:
    figure, totals = threshold.figure, _totals(report)
    if figure == "errors":
        count = totals.get("refused", 0) + totals.get("lost", 0)
    elif figure == "served":
        count = sum(served(api) for api in _figures(report).get("apis") or ())
    elif figure == "gaps":
        count = (_figures(report).get("without_coordinator") or {}).get("values", 0)
    elif figure in totals:
        count = totals[figure]
    else:
        return _Found(None, f"the report has no such figure: {figure}")
    if threshold.unit == PERCENT:
        return _Found(100 * count / requests) if requests else _Found(None, "no request was sent")
    if threshold.unit == A_SECOND:
        return _Found(count / totals["duration_s"])
    return _Found(count)


def served(api: Mapping[str, Any]) -> int:
    """How many requests of one API were answered and not refused. A connection that could be made is no
    request."""
    return 0 if api.get("api") == "Connect" else int((api.get("latency") or {}).get("values") or 0)


def _of_api(figure: str, api: str, report: Mapping[str, Any]) -> _Found:
    for each in _figures(report).get("apis") or ():
        if each["api"] == api:
            value = (each.get("latency") or {}).get(f"{figure}_ms")
            return _Found(value, f"no {api} was answered without being refused")
    return _Found(None, f"no {api} was sent")


def _of_spread(figure: str, of: str, report: Mapping[str, Any]) -> _Found:
    spread = _figures(report).get(SPREADS[of]) or {}
    value = spread.get(f"{figure}_ms")
    if of == "gap" and value is None:
        if any(served(api) for api in _figures(report).get("apis") or ()):
            return _Found(0.0)
        return _Found(None, "no request was served: there was no coordinator to miss")
    return _Found(value, "no rebalance settled")


def _time_to_stable(share: float, report: Mapping[str, Any]) -> _Found:
    """Find the time by nearest rank over all groups that had members; one that never was stable took
    longest."""
    groups = [group for group in _figures(report).get("groups") or () if group.get("clients")]
    times_ms = sorted(NEVER_MS if each["stable_ms"] is None else each["stable_ms"] for each in groups)
    if not times_ms:
        return _Found(None, "no group had a member")
    return _Found(times_ms[max(0, math.ceil(share * len(times_ms)) - 1)])


def _figures(report: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = report.get("figures") or {}
    return found


def _totals(report: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = _figures(report).get("totals") or {}
    return found


def _told(value: float, unit: str) -> str:
    if unit == "ms" and value >= 1_000:
        return f"{value / 1e3:,.3g} s" if value < 1e6 else f"{value / 1e3:,.0f} s"
    number = f"{value:,.0f}" if value == int(value) else f"{value:,.3g}" if value < 100 else f"{value:,.1f}"
    return f"{number}{' ms' if unit == 'ms' else unit}"
