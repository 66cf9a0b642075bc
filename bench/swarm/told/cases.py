"""A report as test cases: each promise and each threshold, with its status and the reason.

PURE. JUnit's XML and the summary in Markdown are both made of these, which are made of the report.json of a
swarm or of a chaos run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from storage.history.judge.findings import BROKEN, NOT_SHOWN

STORIES_MAX: Final = 20
"""How many stories one case has at most; the report has more."""
STORY_CHARACTERS_MAX: Final = 2_000
PROMISES, THRESHOLDS = "promises", "thresholds"
"""The two kinds of cases."""


class Case(NamedTuple):
    """One test case for CI."""

    kind: str
    """The kind: PROMISES or THRESHOLDS."""
    name: str
    says: str
    status: str
    """The status: KEPT, BROKEN or NOT_SHOWN."""
    because: str
    is_required: bool = True
    """Whether the whole run is not kept if this case is not shown."""
    stories: tuple[str, ...] = ()
    """The stories of violations."""
    untold: int = 0
    """How many violations have no story here."""


class Suite(NamedTuple):
    """The test cases of one run."""

    title: str
    """The suite's title, such as "swarm steady"."""
    summary: str
    """The verdict in a line."""
    status: str
    cases: tuple[Case, ...]
    began_at: str
    """When the run began, in ISO 8601; empty: it is not known."""
    duration_s: float
    facts: tuple[tuple[str, str], ...]
    """The properties of the run: name and value."""
    words: tuple[str, ...]
    """The warnings of the run."""


def suite(report: Mapping[str, Any], lines: Sequence[str] = ()) -> Suite:
    """The test cases of a report.json; `lines` is what a terminal was told of the figures."""
    run = report.get("run") or {}
    scenario = run.get("scenario") or "unknown scenario"
    is_chaos = isinstance(scenario, Mapping)
    name = scenario.get("name") if isinstance(scenario, Mapping) else scenario
    totals = (report.get("figures") or {}).get("totals") or {}
    verdict = report.get("verdict") or {}
    words = report.get("words") or run.get("words") or ()
    return Suite(
        title=f"{'chaos' if is_chaos else 'swarm'} {name}",
        summary=str(report.get("summary") or verdict.get("summary") or "it was not judged"),
        status=str(report.get("status") or NOT_SHOWN),
        cases=tuple(_cases(report)),
        began_at=str(run.get("began_at") or ""),
        duration_s=float(totals.get("duration_s") or run.get("lasted_s") or 0.0),
        facts=tuple(_facts(report, run)),
        words=(*map(str, words), *lines),
    )


def _cases(report: Mapping[str, Any]) -> Iterator[Case]:
    verdict = report.get("verdict") or {}
    yield from _promises(verdict)
    for each in report.get("thresholds") or ():
        yield Case(THRESHOLDS, each["text"], each["text"], each["status"], each["because"])


def _promises(verdict: Mapping[str, Any]) -> Iterator[Case]:
    violations = list(verdict.get("violations") or ())
    promises = list(verdict.get("promises") or ())
    broken = [promise["name"] for promise in promises if promise["status"] == BROKEN]
    counts: Mapping[str, int] = verdict.get("by_rule") or {}
    by_promise: dict[str, list[str]] = {name: [] for name in broken}
    for rule in counts:
        owner = _owner(rule, promises, broken)
        if owner is not None:
            by_promise[owner].append(rule)
    for promise in promises:
        rules = by_promise.get(promise["name"], [])
        told = [each for each in violations if each["rule"] in rules][:STORIES_MAX]
        yield Case(
            PROMISES,
            promise["name"],
            promise["says"],
            promise["status"],
            promise["because"],
            bool(promise.get("is_required", True)),
            tuple(_story(each) for each in told),
            max(0, sum(counts[rule] for rule in rules) - len(told)),
        )


def _owner(rule: str, promises: Sequence[Mapping[str, Any]], broken: Sequence[str]) -> str | None:
    """The broken promise that names this rule; else the first one, so that no story is dropped."""
    named = (each["name"] for each in promises if each["name"] in broken and f" x {rule}" in each["because"])
    return next(named, broken[0] if broken else None)


def _story(violation: Mapping[str, Any]) -> str:
    text = f"{violation['rule']}, {violation['group_id']}: {violation['text']}"
    return text if len(text) <= STORY_CHARACTERS_MAX else f"{text[:STORY_CHARACTERS_MAX]}..."


def _facts(report: Mapping[str, Any], run: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    told = {
        "seed": run.get("seed"),
        "server": run.get("software"),
        "bootstrap": run.get("bootstrap"),
        "command": run.get("command"),
        "run id": run.get("run_id"),
        "machine": report.get("machine"),
    }
    yield from ((name, str(value)) for name, value in told.items() if value not in (None, ""))


def is_harmless(case: Case) -> bool:
    """Whether a case is not shown, but not required either."""
    return case.status == NOT_SHOWN and not case.is_required
