"""The outcome of a run of chaos: of each part, and of all parts together."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console

from bench.chaos import table
from bench.chaos.availability import Availability
from bench.chaos.state import State
from bench.swarm.planning import thresholds
from bench.swarm.planning.thresholds import Checked
from bench.swarm.runs.reports import show
from cluster.cli.tables import print_table
from storage.history.judge.verdict import Verdict

TOLD_HERE_MAX: Final = 5
"""How many violations the terminal shows; the page has more."""


class PartReport(NamedTuple):
    """The outcome of one part of a run."""

    name: str
    page: str
    """Where the page of the part's swarm is, relative to the report's directory."""
    verdict: Verdict
    found: Availability
    course: list[str]
    """The plots of the part's course, as HTML."""
    checked: tuple[Checked, ...] = ()
    """The thresholds of the part, each with the part's name."""


class Outcome(NamedTuple):
    """The outcome of a run."""

    state: State
    verdict: Verdict
    rows: list[table.Row]
    page: Path
    parts: int
    """How many parts could be judged."""
    found: tuple[Availability, ...] = ()
    """What the faults of each judged part did to its groups."""
    checked: tuple[Checked, ...] = ()
    """The thresholds, which each part has to keep by itself."""

    @property
    def status(self) -> str:
        """The worst of the verdict's status and the thresholds'."""
        return thresholds.worst((self.verdict.status, thresholds.status_of(self.checked)))

    @property
    def summary(self) -> str:
        """The outcome in one line."""
        if not self.parts:
            return "nothing was seen that could be judged"
        killed = f"{self.state.killed:,} processes killed, " if self.state.killed else ""
        return f"{killed}{self.verdict.summary}"

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences about faults that were planned and did not come."""
        state, met = self.state, {row.kind for row in self.rows}
        never = [kind for kind in state.kinds if kind not in met]
        return tuple(
            f"{what}: {', '.join(names)}."
            for what, names in (
                (f"Left out, {state.whom} cannot have them", state.left_out),
                ("Never came, for lack of time or of anybody to hit", never),
                ("Found nobody to hit", state.missed),
            )
            if names
        )

    @property
    def faults(self) -> int:
        """How many faults came, as the table counts them: the one that a Ctrl-C cut short is among them."""
        return self.rows[-1].faults if self.rows else self.state.steps

    @property
    def done(self) -> str:
        """How far the run came, in words."""
        state = self.state
        end = "" if state.is_finished else "; not finished"
        parts = f" and {state.parts} parts" if state.parts > 1 else ""
        minutes = f"{state.lasted_s / 60:,.1f} minutes{parts}"
        return (
            f"{self.faults:,} faults, {state.killed:,} processes killed, in {minutes}, seed {state.seed}{end}"
        )

    def tell(self, console: Console) -> None:
        """Print the outcome on a console."""
        if self.rows:
            headings = [name for name, _ in table.HEADINGS]
            print_table(console, headings, map(table.cells, self.rows))
        console.print(self.done, soft_wrap=True)
        for words in (*self.state.words, *self.remarks):
            console.print(words, style="yellow", soft_wrap=True, markup=False)
        for words in self.state.unmended:
            told = f"{self.state.whom} did not come back: {words}"
            console.print(told, style="bold red", soft_wrap=True, markup=False)
        for violation in self.verdict.violations[:TOLD_HERE_MAX]:
            console.print(
                f"{violation.rule}, {violation.group_id}: {violation.text}", soft_wrap=True, markup=False
            )
        show(self.verdict, self.checked)
        console.print(f"Report: {self.page}", soft_wrap=True, markup=False)
