"""`groupd history`: what the tier's record of events says, worked out by DuckDB or Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cluster import tier_file
from cluster.cli.common import (
    DATA_DIR_DEFAULT,
    EXIT_WRONG_SETTING,
    DataDirOption,
    JsonOption,
    errors,
    examples,
    fail,
    print_json,
)
from cluster.cli.kafka import print_table
from storage.history.rules import worded

if TYPE_CHECKING:
    from storage.history.jobs.engine import Engine, Row
    from storage.history.jobs.seen import Seen
    from storage.history.period import Period
    from storage.history.report.facts import Facts
    from storage.history.segments.folder import Folder

ROWS_MAX: Final = 1_000
"""How many rows of an answer to `sql` are printed."""
SKIPPED_MAX: Final = 10
"""How many skipped files are named one by one."""
REPORT: Final = Path("groupd-history.html")

commands = typer.Typer(
    no_args_is_help=True,
    help="Explain every rebalance, over months: tables, a report, SQL.",
    rich_markup_mode="rich",
    epilog=examples("groupd history report --since 1h", 'groupd history sql "SELECT * FROM storms"'),
)
HistoryOption = Annotated[
    str | None,
    typer.Option(
        "--history",
        help="Folder of the history, or any URL that fsspec knows; default: the history.dir of the tier in"
        " --data-dir.",
        metavar="DIR",
    ),
]
SinceOption = Annotated[
    str,
    typer.Option(
        help="How far back: 15m, 1h; 7d, 4w (whole days of UTC, today the last); a date or a time.",
        metavar="PERIOD",
    ),
]
UntilOption = Annotated[
    str | None,
    typer.Option(
        help="The end of the time, as in --since; a day is included. (default now)", metavar="PERIOD"
    ),
]


class EngineName(StrEnum):
    """The engines that `--engine` takes."""

    AUTO = "auto"
    SPARK = "spark"
    DUCKDB = "duckdb"


EngineOption = Annotated[
    EngineName,
    typer.Option(
        "--engine",
        help="duckdb works in this process, spark needs Java; auto takes duckdb for up to 20 million events.",
    ),
]
MasterOption = Annotated[str, typer.Option(help="The master that Spark is started with.")]
MemoryOption = Annotated[
    str, typer.Option(help="The memory of DuckDB; on Spark of all its tasks in a process.")
]
MASTER_DEFAULT = "local[*]"
MEMORY_DEFAULT = "2g"


def register(app: typer.Typer) -> None:
    app.add_typer(commands, name="history")


@commands.command(
    epilog=examples(
        "groupd history jobs --since 30d", "groupd history jobs --follow", "groupd history jobs --what-if"
    )
)
def jobs(
    since: SinceOption = "7d",
    until: UntilOption = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with every new segment of history, on Spark.")
    ] = False,
    every_s: Annotated[float, typer.Option(help="Seconds between two looks of --follow.", min=1)] = 60.0,
    with_assignors: Annotated[
        bool, typer.Option("--what-if", help="Replay memberships through the assignors, too.")
    ] = False,
    history: HistoryOption = None,
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    engine: EngineOption = EngineName.AUTO,
    master: MasterOption = MASTER_DEFAULT,
    memory: MemoryOption = MEMORY_DEFAULT,
) -> None:
    """Make the tables of a period's days anew, as Parquet beside the history: `history-tables`.

    Days are made as a whole, so --since 1h makes today. A second run of the same period leaves the same. What
    the columns mean is in storage/history/jobs/TABLES.md.
    """
    from storage.history.jobs.run import run
    from storage.history.jobs.store import tables_url

    if follow:
        _follow(_recorded(history, data_dir), engine, master, memory, every_s)
        return
    with _recorded(history, data_dir) as folder:
        period = _period(since, until).days()
        seen = _look(folder, period)
        with _engine(folder, seen, engine, master, memory) as found:
            run(found, folder, period, _what_if() if with_assignors else None, typer.echo)
    _warn(seen)
    typer.echo(f"{seen.rows:,} events were read; the tables are in {tables_url(folder.url)}")


@commands.command(
    epilog=examples(
        "groupd history report --since 1h", "groupd history report --group billing --out billing.html"
    )
)
def report(
    since: SinceOption = "7d",
    until: UntilOption = None,
    group: Annotated[str | None, typer.Option(help="Report only this group.", metavar="GROUP")] = None,
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = REPORT,
    history: HistoryOption = None,
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    engine: EngineOption = EngineName.AUTO,
    master: MasterOption = MASTER_DEFAULT,
    memory: MemoryOption = MEMORY_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Write one HTML page about a period and print the top bills.

    Of whole days the tables are made anew and kept, as `jobs` does. Of an hour or another part of a day
    nothing is kept: the page is made of what happened in it alone.
    """
    from storage.history.jobs.run import Wanted, made
    from storage.history.jobs.store import Store
    from storage.history.report.facts import gather
    from storage.history.report.page import page

    with _recorded(history, data_dir) as folder:
        period = _period(since, until)
        seen = _look(folder, period, group)
        with (
            _engine(folder, seen, engine, master, memory) as found,
            made(found, folder, seen, Wanted(period, keeps_all=True)) as tables,
        ):
            if period.is_whole_days:
                store = Store(folder, _note)
                for table in tables:
                    store.put(found, table, period)
            facts = gather(found, period, group, [(each.path, each.why) for each in seen.skipped])
        out.write_text(page(facts), encoding="utf-8")
    if as_json:
        print_json({"page": str(out), "totals": facts.totals, "bills": facts.bills})
        return
    _warn(seen)
    _print_bills(facts)
    typer.echo(f"\nThe page: {out.resolve()}")


@commands.command(
    epilog=examples(
        'groupd history sql "SELECT group_id, cause, duration_ms FROM rebalances ORDER BY 3 DESC LIMIT 5"',
        'groupd history sql --since 1h "SELECT kind, count(*) FROM events GROUP BY kind"',
        'groupd history sql "SHOW TABLES"',
    )
)
def sql(
    query: Annotated[str, typer.Argument(help="The query in DuckDB's SQL; for Spark it is translated.")],
    since: Annotated[
        str | None,
        typer.Option(help="Tables and events of this period alone, made now and not kept.", metavar="PERIOD"),
    ] = None,
    until: UntilOption = None,
    history: HistoryOption = None,
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    engine: EngineOption = EngineName.AUTO,
    master: MasterOption = MASTER_DEFAULT,
    memory: MemoryOption = MEMORY_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Ask the tables, and `events`, with SQL.

    Without --since the tables are those that `jobs` or `report` made last, and `events` are all there are.
    """
    if since is None and until is not None:
        fail("--until needs --since", EXIT_WRONG_SETTING)
    with _recorded(history, data_dir) as folder:
        period = None if since is None else _period(since, until)
        seen = _look(folder, period)
        with (
            _engine(folder, seen, engine, master, memory) as found,
            _asked(found, folder, seen, period, _again("history jobs", history, data_dir)),
        ):
            rows = found.rows(query, ROWS_MAX + 1)
    _warn(seen)
    _print_rows(rows, as_json)


@contextmanager
def _recorded(history: str | None, data_dir: Path) -> Iterator[Folder]:
    """Give the folder of history, in which there is something. What the user can mend is told in one line."""
    from storage.history.jobs.embedded import DuckDbMissing
    from storage.history.jobs.engine import EngineError
    from storage.history.jobs.seen import NothingRecorded
    from storage.history.jobs.session import SparkMissing
    from storage.history.segments.folder import Folder, FolderError

    with errors():
        try:
            folder = Folder(_url(history, data_dir))
            if not folder.segments().found:
                raise NothingRecorded(f"nothing recorded in {folder.url}")
            yield folder
        except (SparkMissing, DuckDbMissing, EngineError, NothingRecorded, FolderError) as error:
            fail(str(error))


def _url(history: str | None, data_dir: Path) -> str:
    """Return where the history is. An engine's idea of where we are is its own, so a path is made absolute.
    Raises TierError."""
    if history is None:
        tier = tier_file.read(data_dir)
        kept = "" if tier is None else tier.history_dir
        return kept or str(data_dir.resolve() / "history")
    return history if "://" in history else str(Path(history).resolve())


def _look(folder: Folder, period: Period | None, group: str | None = None) -> Seen:
    """Return what there is to read, before an engine starts. Raises NothingRecorded."""
    from storage.history.jobs.seen import NothingRecorded, look, look_around
    from storage.history.segments.groups import others_than

    if period is None:
        return look(folder)
    seen = look_around(folder, period)
    others = None if group is None else others_than(folder, seen.of(period), group)
    if others is not None:
        there = f"there are, among others: {', '.join(others)}" if others else "there is none"
        raise NothingRecorded(f"nothing recorded of group {group} from {period}; {there}")
    return seen


@contextmanager
def _engine(folder: Folder, seen: Seen, engine: EngineName, master: str, memory: str) -> Iterator[Engine]:
    from storage.history.jobs import choice

    size_bytes = sum(each.size_bytes for each in seen.found)
    progress = typer.get_text_stream("stderr").isatty()
    asked = choice.Asked(choice.Kind(engine.value), master, memory, progress)
    with choice.engine(asked, folder, seen.rows, size_bytes, _note) as found:
        yield found


def _follow(
    recorded: AbstractContextManager[Folder], engine: EngineName, master: str, memory: str, every_s: float
) -> None:
    """Add new events to the tables for ever. Only Spark does: its checkpoint knows what it has seen."""
    from storage.history.jobs.on_spark import refusals
    from storage.history.jobs.session import LITTLE_BYTES, require_connector, session
    from storage.history.jobs.stream import follow

    if engine is EngineName.DUCKDB:
        fail("--follow is Spark's: leave out --engine duckdb", EXIT_WRONG_SETTING)
    starting = session(master, memory, size_bytes=LITTLE_BYTES)
    with recorded as folder, refusals(), starting as spark:
        require_connector(spark, folder.url)
        follow(spark, folder, every_s=every_s, say=typer.echo).awaitTermination()


@contextmanager
def _asked(
    engine: Engine, folder: Folder, seen: Seen, period: Period | None, jobs_command: str
) -> Iterator[None]:
    """Make the tables that `sql` asks ready."""
    from storage.history.jobs.engine import ALL
    from storage.history.jobs.run import Wanted, made
    from storage.history.jobs.store import Store

    if period is not None:
        with made(engine, folder, seen, Wanted(period)):
            yield
        return
    store = Store(folder, _note)
    if store.is_empty():
        _note(f"No tables yet, only `events`: {jobs_command} makes them; or ask with --since 7d.")
    store.open(engine)
    engine.read(folder, seen.found)
    engine.define("events", ALL)
    yield


def _again(command: str, history: str | None, data_dir: Path) -> str:
    """Return a command about the same history, to be copied as it is."""
    return tier_file.hint(command, data_dir) if history is None else f"`groupd {command} --history {history}`"


def _period(since: str, until: str | None) -> Period:
    from storage.history.period import PeriodError, parsed

    try:
        return parsed(since, until, time.time_ns() // 1_000_000)
    except PeriodError as error:
        fail(str(error), EXIT_WRONG_SETTING)


def _what_if() -> Any:
    from cluster.replayed_assignors import NAMES, replay
    from storage.history.jobs.run import WhatIf

    return WhatIf(NAMES, replay)


def _note(what: str) -> None:
    typer.echo(what, err=True)


def _warn(seen: Seen) -> None:
    for each in seen.skipped[:SKIPPED_MAX]:
        typer.echo(f"Left out: {each.path}: {each.why}", err=True)
    if len(seen.skipped) > SKIPPED_MAX:
        typer.echo(f"Left out: {len(seen.skipped) - SKIPPED_MAX:,} more files", err=True)


def _print_bills(facts: Facts) -> None:
    from storage.history.report.words import duration, plural, share

    counts = {name: plural(facts.totals[f"{name}s"], name) for name in ("rebalance", "group", "storm")}
    broken = plural(facts.totals["invariants"], "invariant")
    typer.echo(
        f"{facts.period}: {counts['rebalance']} of {counts['group']}, {counts['storm']}, {broken} broken."
    )
    if not facts.bills:
        return
    names = ("GROUP", "BILL", "REBALANCES", "AVAILABLE", "WHOSE-DOING-MOST")
    rows = [
        (
            row["group_id"],
            duration(row["idle_member_ms"]),
            row["rebalances"],
            share(row["availability"]) or "-",
            row["worst_client"],
        )
        for row in facts.bills
    ]
    typer.echo()
    print_table(names, rows)


def _print_rows(rows: list[Row], as_json: bool) -> None:
    shown = worded([_plain(row) for row in rows[:ROWS_MAX]])
    if as_json:
        print_json(shown)
    elif not shown:
        _note("No rows.")
    else:
        print_table(list(shown[0]), [list(row.values()) for row in shown])
    if len(rows) > ROWS_MAX:
        _note(f"These are the first {ROWS_MAX:,} rows.")


def _plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, str | int | float) else str(value)
