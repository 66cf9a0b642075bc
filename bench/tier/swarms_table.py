"""Makes one table of the reports of `groupd bench swarms`. PURE."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from bench.swarm.told.comparison import Comparison, Part, Report, Row, Subject, at, compared

ALIKE: Final = (
    ("time to stable, p50 of groups", True, ("figures", "stable", "p50_ms")),
    ("time to stable, the last group", True, ("figures", "stable", "max_ms")),
    ("groups never stable", False, ("figures", "totals", "never_stable")),
    ("rebalances", False, ("figures", "totals", "rebalances")),
    ("of these overtaken by the next", False, ("figures", "totals", "unsettled")),
    ("members in a rebalance, mean", False, ("figures", "totals", "rebalancing_mean")),
    ("length of a rebalance, p50", True, ("figures", "rebalance", "p50_ms")),
    ("length of a rebalance, p99", True, ("figures", "rebalance", "p99_ms")),
    ("partitions moved", False, ("figures", "totals", "moved")),
    ("memberships lost", False, ("figures", "totals", "members_lost")),
    ("times without coordinator", False, ("figures", "without_coordinator", "values")),
    ("requests refused", False, ("figures", "totals", "refused")),
    ("requests lost", False, ("figures", "totals", "lost")),
    ("server's cores, mean", False, ("server", "cores_mean")),
    ("server's memory in MiB, max", False, ("server", "memory_mib_max")),
)
"""The rows of the table: label, whether it is milliseconds, and the path in report.json."""
KILLED: Final = (
    ("groups whose coordinator was killed", False, ("kill", "groups")),
    ("groups that noticed", False, ("kill", "noticed")),
    ("time without coordinator, p50", True, ("kill", "without_p50_ms")),
    ("time without coordinator, max", True, ("kill", "without_max_ms")),
    ("memberships lost by it", False, ("kill", "members_lost")),
    ("rebalances caused by it", False, ("kill", "rebalances")),
    ("requests refused or lost by it", False, ("kill", "refused")),
)


def comparison(
    servers: Sequence[str],
    software: Mapping[str, str],
    skipped: Mapping[str, str],
    steps: Mapping[str, Mapping[str, Report]],
) -> Comparison:
    """Compare two servers by name; `steps` are the reports by swarm and server. One that did not run has
    dashes."""
    first, second = servers
    names = tuple(f"{letter}: {software.get(name, name)}" for letter, name in zip("AB", servers, strict=True))
    pairs = {step: (by.get(first, {}), by.get(second, {})) for step, by in steps.items()}
    parts = tuple(Part(step, tuple(_rows(pair))) for step, pair in pairs.items())
    absent = (f"{name} was skipped: {reason}" for name, reason in skipped.items())
    remarks = ("Ratios are A / B. What is 0 on both is left out.", *absent, *_remarks(pairs))
    return Comparison(names, parts, remarks, ())


def as_json(found: Comparison) -> dict[str, Any]:
    """All that the table says, as plain values."""
    parts = [{"swarm": part.heading, "rows": [row.plain() for row in part.rows]} for part in found.parts]
    return {"names": found.names, "swarms": parts, "remarks": found.remarks}


def _rows(pair: tuple[Report, Report]) -> Iterator[Row]:
    figures = KILLED if any("kill" in report for report in pair) else ALIKE
    for label, is_ms, path in figures:
        found = Row.of(label, [at(report, *path) for report in pair], is_ms=is_ms)
        if found.a or found.b:
            yield found


def _remarks(pairs: Mapping[str, tuple[Report, Report]]) -> Iterator[str]:
    """The remarks, each once with the first swarm of which it is true."""
    told = set()
    for step, (a, b) in pairs.items():
        if not a or not b:
            continue
        for remark in compared((Subject("", (a,)), Subject("", (b,)))).remarks[1:]:
            if remark not in told:
                told.add(remark)
                yield f"{step}: {remark}"
