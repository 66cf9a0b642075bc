"""How a take-over of a Kafka cluster's groups is shown: a bar on a terminal, lines in a pipe, a table."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from actors.ground.upstream_goal import DETACHED, GOAL_NAMES
from cluster.cli.common import console
from cluster.cli.tables import Table
from cluster.taking_over import TakeOverState, left_s

Show = Callable[[TakeOverState], None]


@contextmanager
def progress(*, silent: bool) -> Iterator[Show]:
    """Yield a function that shows how far it is."""
    if silent:
        yield _nothing
    elif not console.is_terminal:
        yield _lines()
    else:
        columns = (
            TextColumn("partitions served"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[more]}"),
        )
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task("", total=None, more="")
            left = Left()

            def show(state: TakeOverState) -> None:
                bar.update(
                    task, total=len(state.rows) or None, completed=state.served, more=more(state, left)
                )

            yield show


def _nothing(state: TakeOverState) -> None:
    """Show nothing."""


class Left:
    """How long the rest takes, by what was done since this was made."""

    def __init__(self) -> None:
        self._began: tuple[float, int] | None = None

    def seconds(self, state: TakeOverState) -> float | None:
        now = time.monotonic()
        if self._began is None:
            self._began = now, state.served
        since, before = self._began
        return left_s(state.served - before, len(state.rows) - before, now - since)


def more(state: TakeOverState, left: Left) -> str:
    """Return what stands beside the bar."""
    seconds = left.seconds(state)
    until = "" if seconds is None or state.is_over else f", about {seconds:.0f} s left"
    now = "".join(f", {row.partition} is {row.phase}" for row in state.under_way[:1])
    return f"{state.records:,} records{now}{until}"


def _lines() -> Show:
    said = ""

    def show(state: TakeOverState) -> None:
        nonlocal said
        line = state.in_words()
        if line != said:
            said = line
            typer.echo(line)
            sys.stdout.flush()

    return show


def show_state(state: TakeOverState) -> None:
    """Print how far every partition is."""
    nodes = ", ".join(f"{broker_id} {word}" for broker_id, word in sorted(state.nodes.items()))
    typer.echo(
        f"Cluster {state.upstream.cluster_id}: {GOAL_NAMES[state.goal]}. Nodes as brokers: {nodes or 'none'}."
    )
    for feature in state.features:
        typer.echo(f"  {feature.name}: {feature.in_words()}")
    if state.goal == DETACHED:
        typer.echo("Its brokers coordinate all groups; `groupd attach` has the tier take them over.")
        return
    table = Table("partition", "is", "led upstream by", "records taken", "next offset", "problem")
    for row in state.rows:
        leader = "nobody" if row.leader < 0 else str(row.leader)
        table.add_row(
            str(row.partition),
            row.phase,
            leader,
            f"{row.records:,}",
            f"{row.next_offset:,}",
            row.problem or "",
        )
    console.print(table)
    typer.echo(state.in_words())
