"""All rules over one history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from storage.history.calls import History
from storage.history.judge.answers import judge_answers
from storage.history.judge.commits import judge_commits
from storage.history.judge.epochs import judge_epochs
from storage.history.judge.findings import Findings, Limits, Violation
from storage.history.judge.ownership import judge_ownership
from storage.history.judge.recovery import judge_recovery

TOLD_MAX: Final = 100
"""Violations of which a verdict tells the story; all are counted."""


class Verdict(NamedTuple):
    """What came out."""

    violations: tuple[Violation, ...]
    """The first TOLD_MAX."""
    by_rule: dict[str, int]
    """All violations, by their name."""
    judged: dict[str, int]
    """By what was looked at: how many."""

    @property
    def is_fine(self) -> bool:
        """No promise was broken; whether any was tested, `judged` says."""
        return not self.by_rule

    @property
    def summary(self) -> str:
        """One line."""
        judged = ", ".join(f"{count:,} {what}" for what, count in self.judged.items() if count)
        nothing = [what for what, count in self.judged.items() if not count]
        text = f"judged {judged or 'nothing'}"
        if nothing:
            text += f"; nothing to judge: {', '.join(nothing)}"
        if self.is_fine:
            return f"no violation: {text}"
        broken = ", ".join(f"{count:,} x {rule}" for rule, count in sorted(self.by_rule.items()))
        return f"{sum(self.by_rule.values()):,} violations ({broken}): {text}"

    def __str__(self) -> str:
        return self.summary

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "summary": self.summary,
            "violations": [violation._asdict() for violation in self.violations],
            "by_rule": self.by_rule,
            "judged": self.judged,
        }


def judge(
    history: History, limits: Limits | None = None, on_rule: Callable[[str], None] = lambda _: None
) -> Verdict:
    """The verdict on a whole history; `on_rule` hears what is judged next."""
    limits = limits or Limits()
    rules: dict[str, Callable[[], Findings]] = {
        "commits": lambda: judge_commits(history),
        "ownership": lambda: judge_ownership(history, limits),
        "answers": lambda: judge_answers(history, limits),
        "epochs": lambda: judge_epochs(history, limits),
        "recovery": lambda: judge_recovery(history, limits),
    }
    findings = []
    for rule, find in rules.items():
        on_rule(rule)
        findings.append(find())
    violations = [violation for each in findings for violation in each.violations]
    return Verdict(
        tuple(violations[:TOLD_MAX]),
        dict(Counter(violation.rule for violation in violations)),
        {what: count for each in findings for what, count in each.judged.items()},
    )
