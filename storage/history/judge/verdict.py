"""All rules over one history: what became of each promise, and of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from storage.history.calls import PRODUCE, History
from storage.history.judge.answers import judge_answers
from storage.history.judge.commits import judge_commits
from storage.history.judge.epochs import judge_epochs
from storage.history.judge.findings import (
    BROKEN,
    KEPT,
    NOT_SHOWN,
    Findings,
    Limits,
    Promise,
    Violation,
)
from storage.history.judge.outages import outages
from storage.history.judge.ownership import judge_ownership
from storage.history.judge.records import judge_records
from storage.history.judge.recovery import judge_recovery
from storage.history.judge.service import Planned, judge_service

TOLD_MAX: Final = 100
"""Violations of which a verdict tells the story; all are counted."""
SAYS: Final = {
    "commits": "An acknowledged commit is never lost and never goes back.",
    "ownership": "No partition belongs to two members of a group at once.",
    "answers": "Every request is answered, or its connection closed, in time; no answer is another's.",
    "epochs": "Generations and epochs never go back, and whoever was fenced stays fenced.",
    "recovery": "After the last fault every group is stable within a bound, all its partitions owned.",
    "service": "Every group is served at the run's end, and the planned share of its requests was answered.",
    "records": "Nobody commits, or is told, a position behind what was produced.",
}
"""The promises, by name and in the order in which they are told; "records" only where any were written."""


class Verdict(NamedTuple):
    """The result of judging a history."""

    violations: tuple[Violation, ...]
    """The first violations, TOLD_MAX at most."""
    by_rule: dict[str, int]
    """The number of all violations, by rule."""
    judged: dict[str, int]
    """How many were judged, by what was looked at."""
    promises: tuple[Promise, ...]
    """One promise of each kind, in the order of SAYS."""

    @property
    def status(self) -> str:
        """Broken if any promise is; else not shown if any is not that is required; else kept."""
        if any(promise.status == BROKEN for promise in self.promises):
            return BROKEN
        return NOT_SHOWN if any(map(_is_missed, self.promises)) else KEPT

    @property
    def is_fine(self) -> bool:
        """Every promise that is required was shown to be kept."""
        return self.status == KEPT

    @property
    def summary(self) -> str:
        """One line."""
        judged = ", ".join(f"{count:,} {what}" for what, count in self.judged.items() if count)
        return f"{self.status}: {self.because}; judged {judged or 'nothing'}"

    @property
    def because(self) -> str:
        """Which promises make the status what it is, in a line."""
        if self.status == BROKEN:
            counts = ", ".join(f"{count:,} x {rule}" for rule, count in sorted(self.by_rule.items()))
            return f"{sum(self.by_rule.values()):,} violations ({counts})"
        if self.status == NOT_SHOWN:
            return "; ".join(f"{each.name}, {each.because}" for each in self.promises if _is_missed(each))
        kept = [promise.name for promise in self.promises if promise.status == KEPT]
        return f"{len(kept)} of {len(self.promises)} promises were shown ({', '.join(kept)}), none broken"

    def __str__(self) -> str:
        return self.summary

    def plain(self) -> dict[str, Any]:
        """Return it as plain values for JSON."""
        return {
            "status": self.status,
            "summary": self.summary,
            "promises": [promise._asdict() for promise in self.promises],
            "violations": [violation._asdict() for violation in self.violations],
            "by_rule": self.by_rule,
            "judged": self.judged,
        }


def _is_missed(promise: Promise) -> bool:
    return promise.status == NOT_SHOWN and promise.is_required


def judge(
    history: History,
    limits: Limits | None = None,
    on_rule: Callable[[str], None] = lambda _: None,
    planned: Planned | None = None,
) -> Verdict:
    """The verdict on a whole history; `on_rule` hears what is judged next. `planned`: what was to be asked
    until its end; without that the promise of service is not shown."""
    limits = limits or Limits()
    without = outages(history, limits)
    rules: dict[str, Callable[[], Findings]] = {
        "commits": lambda: judge_commits(history, limits),
        "ownership": lambda: judge_ownership(history, limits),
        "answers": lambda: judge_answers(history, limits),
        "epochs": lambda: judge_epochs(history, limits),
        "recovery": lambda: judge_recovery(history, limits, without),
        "service": lambda: judge_service(history, limits, planned, list(without.values())),
    }
    if any(call.api == PRODUCE for call in history.calls):
        rules["records"] = lambda: judge_records(history)
    findings = {}
    for rule, find in rules.items():
        on_rule(rule)
        findings[rule] = find()
    violations = [violation for each in findings.values() for violation in each.violations]
    return Verdict(
        tuple(violations[:TOLD_MAX]),
        dict(Counter(violation.rule for violation in violations)),
        {what: count for each in findings.values() for what, count in each.judged.items()},
        tuple(_promise(name, findings[name]) for name in SAYS if name in findings),
    )


def _promise(name: str, found: Findings) -> Promise:
    status, because = KEPT, found.seen
    if found.violations:
        counts = Counter(violation.rule for violation in found.violations)
        status, because = BROKEN, ", ".join(f"{count:,} x {rule}" for rule, count in counts.most_common())
    elif found.unseen:
        status, because = NOT_SHOWN, found.unseen
    return Promise(name, SAYS[name], status, because, found.is_required)


def combined(verdicts: Sequence[Verdict]) -> Verdict:
    """Combine the verdicts of several histories, such as the parts of one run: a promise is broken if any
    of them broke it, else not shown if any of them had to show it and did not, else kept if any has shown
    it."""
    by_rule: Counter[str] = Counter()
    judged: Counter[str] = Counter()
    for verdict in verdicts:
        by_rule.update(verdict.by_rule)
        judged.update(verdict.judged)
    violations = [violation for verdict in verdicts for violation in verdict.violations]
    return Verdict(
        tuple(violations[:TOLD_MAX]), dict(by_rule), dict(judged), tuple(_combined_promises(verdicts))
    )


def _combined_promises(verdicts: Sequence[Verdict]) -> Iterator[Promise]:
    if not verdicts:
        yield from (Promise(name, says, NOT_SHOWN, "nothing was seen") for name, says in SAYS.items())
    for name in SAYS:
        of_parts = [each for verdict in verdicts for each in verdict.promises if each.name == name]
        if not of_parts:
            continue
        decisive = (
            [promise for promise in of_parts if promise.status == BROKEN]
            or [promise for promise in of_parts if _is_missed(promise)]
            or [promise for promise in of_parts if promise.status == KEPT]
            or of_parts
        )
        because = decisive[0].because
        if len(of_parts) > 1:
            because = f"in {len(decisive)} of {len(of_parts)} parts; the first: {because}"
        is_required = any(promise.is_required for promise in of_parts)
        yield decisive[0]._replace(because=because, is_required=is_required)
