"""Carries out `groupd bench peers`, or another comparison of peers, and writes its table, JSON, Markdown and
pictures."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import typer
from rich.console import Console

from bench.ground.progress import progress
from bench.peers import markdown, table
from bench.peers.compared import plots, results
from bench.peers.compared.registry import UnknownName
from bench.peers.options import Options
from bench.peers.peer import Peer
from bench.peers.plan import Command, Report, Scenario
from bench.peers.runner import Runner, Say
from cluster.cli.common import EXIT_INTERRUPTED

MARKDOWN: Final = "peers.md"


class Wanted(NamedTuple):
    """What is measured, on which peers, and where the report goes."""

    peers: Sequence[Peer]
    scenarios: Sequence[Scenario]
    options: Options
    machine: str
    out: Path


def carry_out(wanted: Callable[[], Wanted], console: Console, *, draws: bool = True) -> Report:
    """Do what a command of `groupd bench` was asked for, and tell what was found. `wanted` makes that of its
    flags. Raises typer.Exit if they are wrong, or the command was interrupted."""
    try:
        chosen = wanted()
        with console.status("begins") as status:
            report = run(chosen, progress(status.update))
    except UnknownName as error:
        typer.echo(f"groupd: {error}", err=True)
        raise typer.Exit(2) from None
    except results.Mismatch as error:
        typer.echo(f"groupd: --out {chosen.out}: {error}", err=True)
        raise typer.Exit(2) from None
    tell(report, chosen.out, console, draws=draws)
    if not report.commands[-1].is_whole:
        typer.echo("groupd: stopped, and so are all peers", err=True)
        raise typer.Exit(EXIT_INTERRUPTED)
    return report


def run(wanted: Wanted, say: Say) -> Report:
    """Measure, and write JSON after each scenario, beside what earlier calls left in that directory. After
    Ctrl-C or SIGTERM all that was started is stopped, and the report is what there is. Raises Mismatch."""
    options = wanted.options
    earlier = results.read(wanted.out)
    if earlier is not None:
        results.refuse_to_mix(earlier, wanted.machine, quick=options.quick)
    peers, skipped = _present(wanted, say)
    begun = Command(
        line=shlex.join(["groupd", *sys.argv[1:]]),
        date=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        runs=options.runs,
        seconds=options.seconds,
        is_whole=False,
    )
    software = {peer.name: peer.software() for peer in peers}

    def so_far(command: Command) -> Report:
        measured = Report(
            machine=wanted.machine,
            cores=os.cpu_count() or 1,
            quick=options.quick,
            commands=[command],
            peers=software,
            skipped=skipped | runner.skipped,
            outcomes=runner.outcomes,
        )
        return results.merged(earlier, measured)

    with Runner(peers, options, say, lambda: results.write(so_far(begun), wanted.out)) as runner:
        is_whole = _until_interrupted(lambda: runner.run(wanted.scenarios))
    return so_far(begun._replace(is_whole=is_whole))


def _present(wanted: Wanted, say: Say) -> tuple[list[Peer], dict[str, str]]:
    """The peers that can run here; of the others the reason is told."""
    present, skipped = [], {}
    for peer in wanted.peers:
        reason = peer.missing()
        if reason:
            skipped[peer.name] = reason
            say(f"{peer.name} skipped: {reason}")
        else:
            present.append(peer)
    return present, skipped


def _until_interrupted(run: Callable[[], object]) -> bool:
    """Run until the end or Ctrl-C. Returns whether it came to its end."""
    try:
        run()
    except KeyboardInterrupt:
        return False
    return True


def tell(report: Report, out: Path, console: Console, *, draws: bool = True) -> None:
    """Print the table; write JSON, Markdown and, if it `draws`, pictures into `out`."""
    table.show(console, report)
    written = [results.write(report, out), out / MARKDOWN]
    written[1].write_text(markdown.text(report), encoding="utf-8")
    try:
        written += plots.draw(report, out) if draws else []
    except ImportError:
        console.print(plots.MISSING)
    console.print(f"written into {out}: " + ", ".join(path.name for path in written))
