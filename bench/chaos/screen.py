"""What a chaos run shows while it runs: a bar on a terminal, and a line for every fault."""

from __future__ import annotations

from types import TracebackType
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from bench.chaos.schedule import Step
from bench.chaos.state import State
from storage.history.calls import Fault

BAR_WIDTH: Final = 30


class Screen:
    """The screen of a run; a context manager. Implements bench.chaos.part.Show."""

    def __init__(self, console: Console, state: State) -> None:
        self._console = console
        self._bar = Progress(
            BarColumn(bar_width=BAR_WIDTH),
            TextColumn("{task.fields[words]}"),
            TimeElapsedColumn(),
            TextColumn("[dim]{task.description}"),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._bar.add_task("begins", words="")
        self.went_on(state)

    def __enter__(self) -> Screen:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def now(self, what: str) -> None:
        """Show what is going on."""
        self._bar.update(self._task, description=what)

    def met(self, step: Step, fault: Fault) -> None:
        """Show a fault that is over."""
        lasted_s = (fault.ended_us - fault.began_us) / 1e6
        replaced = "" if fault.kind == step.kinds[0] else f" [dim](nothing to hit for {step.kinds[0]})[/dim]"
        detail = f"; {fault.detail}" if fault.detail else ""
        number = f"[dim]{step.number + 1:>5}[/dim]"
        self._console.print(
            f"{number}  {fault.kind}{replaced}  {fault.target}, {lasted_s:.1f} s{detail}", soft_wrap=True
        )

    def went_on(self, state: State) -> None:
        """Show how far the run has come."""
        scenario = state.scenario
        killed = f"{state.killed:,} processes killed"
        if scenario.kills is not None:
            killed = f"{state.killed:,} of {scenario.kills:,} processes killed"
        minutes = f"{state.lasted_s / 60:.1f} minutes"
        if scenario.minutes is not None:
            minutes = f"{state.lasted_s / 60:.1f} of {scenario.minutes:.1f} minutes"
        if state.fixed is not None:
            minutes = f"{state.steps} of {len(state.fixed)} faults"
        self._bar.update(self._task, completed=state.share, total=1.0, words=f"{killed}, {minutes}")
