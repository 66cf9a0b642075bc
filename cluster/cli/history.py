"""`groupd history`: what the tier's record of events says, worked out by Spark."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cluster import tier_file
from cluster.cli.common import (
    DATA_DIR_DEFAULT,
    DataDirOption,
    JsonOption,
    errors,
    examples,
    fail,
    print_json,
)
from cluster.cli.kafka import print_table
from cluster.tier_file import TierError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from storage.history.jobs.events import Period, Seen
    from storage.history.report.facts import Facts
    from storage.history.segments.folder import Folder

ROWS_MAX: Final = 1_000
"""Printed of an answer to `sql`."""
SKIPPED_MAX: Final = 10
"""Files named one by one."""
REPORT: Final = Path("groupd-history.html")
UNITS: Final = {"d": 1, "w": 7}

commands = typer.Typer(
    no_args_is_help=True,
    help="Explain every rebalance, over months: tables, a report, SQL.",
    rich_markup_mode="rich",
    epilog=examples("groupd history report --since 7d", 'groupd history sql "SELECT * FROM storms"'),
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
SinceOption = Annotated[str, typer.Option(help="How far back: 7d, 4w, or a date.", metavar="PERIOD")]
MasterOption = Annotated[str, typer.Option(help="Spark's master.")]
MemoryOption = Annotated[str, typer.Option(help="Of Spark's driver.")]
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
    follow: Annotated[bool, typer.Option("--follow", help="Go on with every new segment.")] = False,
    every_s: Annotated[float, typer.Option(help="How often --follow looks.", min=1)] = 60.0,
    with_assignors: Annotated[
        bool, typer.Option("--what-if", help="Replay memberships through the assignors, too.")
    ] = False,
    history: HistoryOption = None,
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    master: MasterOption = MASTER_DEFAULT,
    memory: MemoryOption = MEMORY_DEFAULT,
) -> None:
    """Make the tables of a period anew, as Parquet below `_tables` of the history.

    A second run of the same period leaves the same. What the columns mean is in
    storage/history/jobs/TABLES.md.
    """
    with _spark(history, data_dir, master, memory, goes_on=follow) as (spark, folder):
        from storage.history.jobs.run import run
        from storage.history.jobs.stream import follow as follow_segments

        if follow:
            follow_segments(spark, folder, every_s=every_s, say=typer.echo).awaitTermination()
        seen = run(spark, folder, _period(since), _what_if() if with_assignors else None, typer.echo)
        _warn(seen)
        typer.echo(f"{seen.rows:,} events were read; the tables are in {folder.url}/_tables")


@commands.command(
    epilog=examples(
        "groupd history report --since 7d", "groupd history report --group billing --out billing.html"
    )
)
def report(
    since: SinceOption = "7d",
    group: Annotated[str | None, typer.Option(help="Only this one.", metavar="GROUP")] = None,
    out: Annotated[Path, typer.Option(help="The page to write.")] = REPORT,
    history: HistoryOption = None,
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    master: MasterOption = MASTER_DEFAULT,
    memory: MemoryOption = MEMORY_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Write one HTML page about a period and print the top bills.

    Makes the tables of the period anew first.
    """
    with errors():
        period = _period(since)
    with _spark(history, data_dir, master, memory, partial(_check_group, period, group)) as (spark, folder):
        from storage.history.jobs.run import run
        from storage.history.report.page import page

        seen = run(spark, folder, period, say=lambda _: None)
        facts = _facts(spark, folder, seen, period, group)
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
        'groupd history sql "SHOW TABLES"',
    )
)
def sql(
    query: Annotated[str, typer.Argument(help="Spark SQL.")],
    history: HistoryOption = None,
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    master: MasterOption = MASTER_DEFAULT,
    memory: MemoryOption = MEMORY_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Ask the tables, and `events`, with SQL.

    The tables are those that `jobs` or `report` made last; `events` is read as it is now.
    """
    with _spark(history, data_dir, master, memory) as (spark, folder):
        from storage.history.jobs.events import events, look
        from storage.history.jobs.run import Store

        seen = look(folder)
        _warn(seen)
        store = Store(folder)
        if store.is_empty():
            typer.echo("No tables yet, only `events`: `groupd history jobs` makes them.", err=True)
        store.register(spark)
        events(spark, folder, seen.found).createOrReplaceTempView("events")
        answer = spark.sql(query)
        rows = [row.asDict(recursive=True) for row in answer.limit(ROWS_MAX + 1).collect()]
        names = answer.columns
    if as_json:
        print_json([{name: _plain(value) for name, value in row.items()} for row in rows[:ROWS_MAX]])
    else:
        print_table(names, [[_plain(row[name]) for name in names] for row in rows[:ROWS_MAX]])
    if len(rows) > ROWS_MAX:
        typer.echo(f"These are the first {ROWS_MAX:,} rows.", err=True)


@contextmanager
def _spark(
    history: str | None,
    data_dir: Path,
    master: str,
    memory: str,
    check: Callable[[Folder], None] = lambda _: None,
    *,
    goes_on: bool = False,
) -> Iterator[tuple[SparkSession, Folder]]:
    """A session and the folder; what the user can mend is one line. `check` comes before Spark's start, which
    takes seconds, and may raise NothingRecorded. `goes_on`: the session will have much to do in the end."""
    from storage.history.jobs.run import NothingRecorded
    from storage.history.jobs.session import LITTLE_BYTES, SparkMissing, require_connector, session
    from storage.history.segments.folder import Folder, FolderError

    with errors():
        try:
            folder = Folder(_url(history, data_dir))
            size_bytes = sum(each.size_bytes for each in folder.segments().found)
            if not size_bytes:
                raise NothingRecorded(f"nothing recorded in {folder.url}")
            check(folder)
            progress = typer.get_text_stream("stderr").isatty()
            size_bytes = LITTLE_BYTES if goes_on else size_bytes
            with session(master, memory, size_bytes=size_bytes, progress=progress) as spark:
                require_connector(spark, folder.url)
                yield spark, folder
        except (SparkMissing, NothingRecorded, FolderError) as error:
            fail(str(error))
        except Exception as error:  # Spark's own, with the JVM's story behind the first line
            if not _is_sparks(error):
                raise
            fail(str(error).strip().partition("\n")[0].rstrip(";"))


def _url(history: str | None, data_dir: Path) -> str:
    """Spark's idea of where we are is its own, so a path is made absolute. Raises TierError."""
    if history is None:
        tier = tier_file.read(data_dir)
        kept = "" if tier is None else tier.history_dir
        return kept or str(data_dir.resolve() / "history")
    return history if "://" in history else str(Path(history).resolve())


def _is_sparks(error: Exception) -> bool:
    from pyspark.errors import PySparkException

    return isinstance(error, PySparkException)


def _check_group(period: Period, group: str | None, folder: Folder) -> None:
    """Raises NothingRecorded."""
    from storage.history.jobs.events import look
    from storage.history.jobs.run import NothingRecorded, nothing
    from storage.history.segments.groups import others_than

    found = [each for each in look(folder, period).found if each.segment.first_at_ms < period.until_ms]
    if not found:
        raise NothingRecorded(nothing(folder, period))
    others = None if group is None else others_than(folder, found, group)
    if others is not None:
        there = f"there are, among others: {', '.join(others)}" if others else "there is none"
        raise NothingRecorded(
            f"nothing recorded of group {group} from {period.first} to {period.last}; {there}"
        )


def _period(since: str) -> Period:
    """Up to today. Raises TierError."""
    from storage.history.jobs.events import Period

    today = dt.datetime.now(dt.UTC).date()
    match = re.fullmatch(r"(\d{1,4})([dw])", since)
    if match is not None:
        return Period(today - dt.timedelta(days=int(match[1]) * UNITS[match[2]] - 1), today)
    try:
        first = dt.date.fromisoformat(since)
    except ValueError:
        raise TierError(
            f"--since {since}: days (7d), weeks (4w) or a date (2026-03-02) are expected"
        ) from None
    if first > today:
        raise TierError(f"--since {since}: that is still to come")
    return Period(first, today)


def _facts(spark: SparkSession, folder: Folder, seen: Seen, period: Period, group: str | None) -> Facts:
    from storage.history.jobs.events import events
    from storage.history.jobs.run import Store
    from storage.history.jobs.tables import TABLES
    from storage.history.report.facts import gather

    store = Store(folder)
    tables = {table.name: store.read(spark, table) for table in TABLES}
    skipped = [(each.path, each.why) for each in seen.skipped]
    return gather(tables, events(spark, folder, seen.found), period, group, skipped)


def _what_if() -> Any:
    from cluster.replayed_assignors import NAMES, replay
    from storage.history.jobs.run import WhatIf

    return WhatIf(NAMES, replay)


def _warn(seen: Seen) -> None:
    for each in seen.skipped[:SKIPPED_MAX]:
        typer.echo(f"Left out: {each.path}: {each.why}", err=True)
    if len(seen.skipped) > SKIPPED_MAX:
        typer.echo(f"Left out: {len(seen.skipped) - SKIPPED_MAX:,} more files", err=True)


def _print_bills(facts: Facts) -> None:
    from storage.history.report.words import duration, plural

    counts = {name: plural(facts.totals[f"{name}s"], name) for name in ("rebalance", "group", "storm")}
    broken = plural(facts.totals["invariants"], "invariant")
    typer.echo(
        f"{facts.period.first} to {facts.period.last}: {counts['rebalance']} of {counts['group']},"
        f" {counts['storm']}, {broken} broken."
    )
    if not facts.bills:
        return
    names = ("GROUP", "BILL", "REBALANCES", "AVAILABLE", "WHOSE-DOING-MOST")
    rows = [
        (
            row["group_id"],
            duration(row["idle_member_ms"]),
            row["rebalances"],
            f"{100 * row['availability']:.2f}%",
            row["worst_client"],
        )
        for row in facts.bills
    ]
    typer.echo()
    print_table(names, rows)


def _plain(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, dt.date | dt.datetime):
        return str(value)
    return value
