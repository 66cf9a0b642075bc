"""Follows a history: new segments make the days that they belong to anew.

Spark's checkpoint knows which segments were seen. A day made anew reads all its segments, each event once by
(offsets_partition, term, sequence), and replaces what there was: so a batch done twice, a compacted copy of
segments already seen, and a segment that comes days late all leave what one run over everything would.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from storage.history.jobs.on_spark import OnSpark
from storage.history.jobs.run import run
from storage.history.jobs.seen import NothingRecorded
from storage.history.jobs.store import CHECKPOINT, Store
from storage.history.period import Period, of_days
from storage.history.segments.folder import Folder
from storage.history.segments.names import parse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEGMENTS_MAX: Final = 10_000
"""How many segments one batch takes in at most."""
DAY: Final = dt.timedelta(days=1)


def follow(
    spark: SparkSession, folder: Folder, *, every_s: float | None, say: Callable[[str], None] = print
) -> Any:
    """Start the streaming query. `every_s`: how often to look; None: once, for all that is new, and end."""
    engine = OnSpark(spark)
    store = Store(folder, say)

    def take(paths: DataFrame, batch: int) -> None:
        below = ["/".join(row["path"].split("/")[-3:]) for row in paths.select("path").collect()]
        for period in periods(below):
            try:
                seen = run(engine, folder, period, say=lambda _: None)
            except NothingRecorded:
                continue  # its segments were all expired, or none can be read
            say(f"{period}: made of {seen.rows:,} events")

    # Only names are asked for, so contents are not read here: one that is cut short cannot stop the query.
    paths = (
        spark.readStream.format("binaryFile")
        .schema("path string, modificationTime timestamp, length bigint, content binary")
        .option("maxFilesPerTrigger", SEGMENTS_MAX)
        .option("ignoreMissingFiles", "true")
        .option("pathGlobFilter", "*.parquet")
        .load(f"{folder.url.rstrip('/')}/date=*/offsets_partition=*")
        .select("path")
    )
    writer = paths.writeStream.foreachBatch(take).option("checkpointLocation", f"{store.url}/{CHECKPOINT}")
    trigger = {"availableNow": True} if every_s is None else {"processingTime": f"{every_s} seconds"}
    return writer.trigger(**trigger).start()


def periods(paths: Iterable[str]) -> list[Period]:
    """The days that these segments change, as few periods: their own, the day before, whose last rebalances
    may end in them, and the one after, whose first ones they may have begun."""
    dates: set[dt.date] = set()
    for path in paths:
        segment = parse(path)
        if segment is not None:
            date = dt.datetime.fromtimestamp(segment.first_at_ms / 1000, dt.UTC).date()
            dates |= {date - DAY, date, date + DAY}
    found: list[Period] = []
    for date in sorted(dates):
        if found and date - found[-1].last == DAY:
            found[-1] = of_days(found[-1].first, date)
        else:
            found.append(of_days(date, date))
    return found
