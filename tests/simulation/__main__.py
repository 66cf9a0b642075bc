"""`python -m tests.simulation`: many seeds, one seed again, or the mutation table. Exit code 1 when red."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from cluster.cli.tables import Console, Table
from tests.simulation import replay, table
from tests.simulation.mutants import MUTANTS
from tests.simulation.runner import Task, verdicts
from tests.simulation.trace import Line
from tests.simulation.verdict import Case, Verdict, examine

MUTANT_SEEDS = 500
CASES_A_TASK = 10
INTERRUPTED = 130

console = Console(soft_wrap=True)


def main() -> int:
    arguments = _parser().parse_args()
    with contextlib.suppress(BrokenPipeError):
        try:
            if arguments.replay is not None:
                return replay_file(arguments.replay)
            seeds = range(arguments.first, arguments.first + (arguments.seeds or MUTANT_SEEDS))
            if arguments.mutation_table:
                names = [arguments.mutant] if arguments.mutant else list(MUTANTS)
                return print_table(names, seeds, arguments.jobs, arguments.markdown)
            cases = [Case(seed, arguments.replicas, arguments.mutant) for seed in seeds]
            return soak(cases, arguments.jobs, arguments.out)
        except KeyboardInterrupt:
            console.print("interrupted: every worker has ended")
            return INTERRUPTED
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=_positive, help=f"how many (default: {MUTANT_SEEDS})")
    parser.add_argument("--from", dest="first", type=int, default=0, metavar="SEED", help="the first seed")
    parser.add_argument("--jobs", type=_positive, default=os.cpu_count() or 1, help="worker processes")
    parser.add_argument("--replicas", type=int, choices=(1, 3, 5), help="default: the seed decides")
    parser.add_argument(
        "--mutant", choices=tuple(MUTANTS), default="", metavar="NAME", help="run this mistake"
    )
    parser.add_argument("--out", type=Path, default=Path("simulation-failures"), help="for replay files")
    parser.add_argument(
        "--replay", type=Path, metavar="FILE", help="run a red seed again, with its whole trace"
    )
    parser.add_argument("--mutation-table", action="store_true", help="hunt every mutant and print the table")
    parser.add_argument(
        "--markdown", action="store_true", help=f"write the table to {table.MARKDOWN.name} too"
    )
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


@contextlib.contextmanager
def _progress(what: str, total: int) -> Iterator[Progress]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        progress.add_task(what, total=total, note="")
        yield progress


def soak(cases: list[Case], jobs: int, out: Path) -> int:
    """Run all cases; print and keep what is red."""
    tasks = [Task(tuple(cases[at : at + CASES_A_TASK])) for at in range(0, len(cases), CASES_A_TASK)]
    red: list[Verdict] = []
    with _progress("seeds", len(cases)) as progress, contextlib.closing(verdicts(tasks, jobs)) as found:
        task = progress.tasks[0]
        for verdict in found:
            if verdict.violation:
                red.append(verdict)
                _print_red(verdict, replay.write(out, verdict))
            speed = (task.completed + 1) / (task.elapsed or 1.0)
            progress.update(task.id, advance=1, note=f"{speed:.1f} seeds/s, {len(red)} red")
    if red:
        seeds = ", ".join(str(seed) for seed in sorted(verdict.case.seed for verdict in red))
        console.print(f"[bold red]{len(red)} of {len(cases)} seeds are red:[/] {seeds}")
    else:
        console.print(f"[green]{len(cases)} seeds, none red[/]")
    return 1 if red else 0


def _print_red(red: Verdict, path: Path) -> None:
    console.print(f"[bold red]seed {red.case.seed}[/]: {escape(red.violation)}")
    if red.case.until is not None:
        console.print(f"  still red with no fault after {red.case.until:.2f} s")
    for line in red.tail:
        console.print(f"  {escape(line)}", style="dim")
    console.print(f"  replay: python -m tests.simulation --replay {path}")


def replay_file(path: Path) -> int:
    try:
        case = replay.read(path)
    except (OSError, ValueError) as error:
        console.print(f"[red]{escape(str(error))}[/]")
        return 2
    console.print(f"{case}")
    verdict = examine(case, lambda now, replica, what: print(Line(now, replica, what)))
    console.print(f"[bold red]{escape(verdict.violation)}[/]" if verdict.violation else "[green]green now[/]")
    return 1 if verdict.violation else 0


def print_table(names: list[str], seeds: range, jobs: int, writes_markdown: bool) -> int:
    """Exit code 1 if a mutant was not caught."""
    found: list[Verdict] = []
    known = {name: seed for name, seed in table.caught_last().items() if seed in seeds}
    with (
        _progress("mutants", len(names)) as progress,
        contextlib.closing(table.first_red(table.hunts(names, seeds, known), jobs)) as reds,
    ):
        for verdict in reds:
            found.append(verdict)
            progress.update(progress.tasks[0].id, advance=1, note=verdict.case.mutant)
    grid = Table(*table.COLUMNS)
    for verdict in found:
        grid.add_row(*table.row(verdict))
    console.print(grid, soft_wrap=False)
    missed = [verdict.case.mutant for verdict in found if not verdict.is_caught]
    if missed:
        console.print(f"[bold red]not caught within {len(seeds)} seeds:[/] {', '.join(missed)}")
    if writes_markdown:
        table.MARKDOWN.write_text(table.markdown(found, seeds), encoding="utf-8")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
