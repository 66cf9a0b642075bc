"""The report of a chaos run: verdict and availability over all of its parts, from its directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, NamedTuple

from rich.console import Console

from bench.chaos import page, table
from bench.chaos.availability import Availability, availability
from bench.chaos.state import State, read
from bench.swarm.figures import Figures
from bench.swarm.report import PAGE, RESULTS, Addition, NothingToReport
from bench.swarm.report import report as swarm_report
from bench.swarm.reports import STYLES, show
from cluster.cli.common import columns
from storage.history.calls import History
from storage.history.judge.findings import BROKEN, KEPT, NOT_SHOWN
from storage.history.judge.verdict import Verdict, combined

COURSES_MAX: Final = 4
"""Parts whose course is drawn; the pages of all of them have more."""


TOLD_HERE_MAX: Final = 5
"""Violations on the terminal; the page has more."""


class PartReport(NamedTuple):
    """Of one part."""

    name: str
    page: str
    """Of its swarm, from the report's directory."""
    verdict: Verdict
    found: Availability
    course: list[str]
    """Plots."""


class Outcome(NamedTuple):
    """What came out of a run."""

    state: State
    verdict: Verdict
    rows: list[table.Row]
    page: Path
    parts: int
    """That could be judged."""

    @property
    def status(self) -> str:
        """The verdict's; a tier that did not come back after a fault broke what it promises, and a run that
        something else came between has not shown it."""
        if self.state.unmended:
            return BROKEN
        return NOT_SHOWN if self.verdict.status == KEPT and self.state.words else self.verdict.status

    @property
    def summary(self) -> str:
        """One line."""
        if not self.parts:
            return "nothing was seen that could be judged"
        killed = f"{self.state.killed:,} processes killed, " if self.state.killed else ""
        unmended = "the tier did not come back; " if self.state.unmended else ""
        return f"{killed}{unmended}{self.verdict.summary}"

    @property
    def faults(self) -> int:
        """That there were, as the table counts them: the one that a Ctrl-C cut short is among them."""
        return self.rows[-1].faults if self.rows else self.state.steps

    @property
    def done(self) -> str:
        """How far the run came."""
        state = self.state
        end = "" if state.is_finished else "; not finished"
        parts = f" and {state.parts} parts" if state.parts > 1 else ""
        minutes = f"{state.lasted_s / 60:,.1f} minutes{parts}"
        return (
            f"{self.faults:,} faults, {state.killed:,} processes killed, in {minutes}, seed {state.seed}{end}"
        )

    def tell(self, console: Console) -> None:
        """To a person."""
        if self.rows:
            headings = [name for name, _ in table.HEADINGS]
            for line in columns([headings, *map(table.cells, self.rows)]):
                console.print(line, soft_wrap=True, markup=False)
        console.print(self.done, soft_wrap=True)
        for words in self.state.words:
            console.print(words, style="yellow", soft_wrap=True, markup=False)
        for words in self.state.unmended:
            console.print(
                f"The tier did not come back: {words}", style="bold red", soft_wrap=True, markup=False
            )
        for violation in self.verdict.violations[:TOLD_HERE_MAX]:
            console.print(
                f"{violation.rule}, {violation.group_id}: {violation.text}", soft_wrap=True, markup=False
            )
        show(self.verdict)
        console.print(self.summary, style=STYLES[self.status], soft_wrap=True, markup=False)
        console.print(f"Report: {self.page}", soft_wrap=True, markup=False)


def report(directory: Path, console: Console | None = None) -> Outcome:
    """Judge every part and write report.html and report.json; `console` shows the progress. Raises NoRun."""
    state = read(directory)
    parts: list[PartReport] = []
    words = list(state.words)
    for number in range(1, state.parts + 1):
        try:
            here = state.part(directory, number)
            parts.append(_part(here, console, with_course=number <= COURSES_MAX))
        except (OSError, NothingToReport) as error:
            words.append(f"part {number} cannot be judged: {error}")
    state = state.model_copy(update={"words": words})
    rows = table.rows(part.found for part in parts)
    outcome = Outcome(state, combined([part.verdict for part in parts]), rows, directory / PAGE, len(parts))
    outcome.page.write_text(page.page(outcome, parts), encoding="utf-8")
    (directory / RESULTS).write_text(json.dumps(_plain(outcome), indent=2) + "\n", encoding="utf-8")
    return outcome


def _part(directory: Path, console: Console | None, *, with_course: bool) -> PartReport:
    found: list[Availability] = []

    def more(history: History, figures: Figures) -> Addition:
        found.append(availability(history, figures))
        return Addition(sections=(page.availability(found),))

    judged = swarm_report(directory, console=console, more=more)
    course = page.course(directory.name, judged.figures) if with_course else []
    where = f"{directory.name}/{judged.page.name}"
    return PartReport(directory.name, where, judged.verdict, found[0], course)


def _plain(outcome: Outcome) -> dict[str, Any]:
    return {
        "summary": outcome.summary,
        "status": outcome.status,
        "is_fine": outcome.status == KEPT,
        "run": outcome.state.model_dump(mode="json"),
        "verdict": outcome.verdict.plain(),
        "availability": [row.plain() for row in outcome.rows],
    }
