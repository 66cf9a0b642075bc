"""`python -m tests.lies`: tell lies to swarms, write the table of them, or run swarms that nobody lies to.

Exit code 1: a lie was not caught, or a clean run was told as broken.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from cluster.cli.tables import Console
from tests.lies import clean, table, trial
from tests.lies.catalogue import LIES

CLEAN = "clean"
console = Console(soft_wrap=True)


def main() -> int:
    arguments = _parser().parse_args()
    unknown = [name for name in arguments.names if name not in (*LIES, CLEAN)]
    if unknown:
        console.print(f"{', '.join(unknown)}: no such lie; there are {', '.join(LIES)}", markup=False)
        return 2
    with tempfile.TemporaryDirectory(prefix="groupd-lies-") as scratch:
        out = arguments.out or Path(scratch)
        if CLEAN in arguments.names:
            return clean.main(arguments, out, console)
        return _tell(arguments, out)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.lies", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="LIE", help=f"default: all; or {CLEAN}: no lie at all")
    parser.add_argument("--jobs", type=int, default=trial.JOBS, help="swarms at once")
    parser.add_argument("--out", type=Path, help="for the runs (default: gone afterwards)")
    parser.add_argument(
        "--table", action="store_true", help=f"write {table.MARKDOWN.name} or {clean.MARKDOWN.name}"
    )
    parser.add_argument("--runs", type=int, default=0, help=f"of {CLEAN}: on a tier")
    parser.add_argument("--kafka", type=int, default=0, help=f"of {CLEAN}: on three brokers of Kafka")
    return parser


def _tell(arguments: argparse.Namespace, out: Path) -> int:
    names = arguments.names or list(LIES)
    trials = []
    with trial.tier() as tier:
        for each in trial.tell_all(names, trial.brokers_of(tier), out, arguments.jobs):
            trials.append(each)
            console.print(f"{each.name}: {each.promise}", markup=False)
        said = trial.server_says(tier, names)
    rows = {each.name: table.row(each, said[each.name]) for each in trials}
    missed = [name for name, row in rows.items() if row[-1] == table.NOT_CAUGHT]
    for each in trials:
        if each.name in missed:
            console.print(f"[bold red]not caught:[/] {each.name}, told {each.told}, {each.errors}")
            console.print(f"  {each.verdict}\n  {each.promise}\n  history: {said[each.name]}", markup=False)
    console.print(f"{len(trials) - len(missed)} of {len(trials)} lies were caught")
    if arguments.table:
        assert set(names) == set(LIES), "a table is of all lies"
        table.MARKDOWN.write_text(table.markdown(trials, said, time.strftime("%Y-%m-%d")), encoding="utf-8")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
