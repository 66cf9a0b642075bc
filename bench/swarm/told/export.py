"""`groupd swarm export`: a run's record as Parquet or CSV, one file for each table of `record_tables`.

Rows are read and written in batches: what is kept in memory grows with the clients and groups, not with the
requests.
"""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import pyarrow as pa
import pyarrow.parquet as pq

from bench.swarm.counted import record_tables as tables
from bench.swarm.counted.record_tables import At, Table
from bench.swarm.told.report import SECONDS, NothingToReport, read_run
from storage.history.call_files import SUFFIX, CallReader, UnreadableFile
from storage.history.calls import Call, Fault, Gone, Row, Topic

BATCH_ROWS: Final = 20_000
PARQUET, CSV = "parquet", "csv"
"""The formats, by the ends of their files' names."""
_TYPES: Final = {
    tables.TEXT: pa.string(),
    tables.NUMBER: pa.int64(),
    tables.YES_NO: pa.bool_(),
    tables.TIME: pa.timestamp("us"),
    tables.TEXTS: pa.list_(pa.string()),
    tables.PARTITIONS: pa.list_(pa.struct([("topic", pa.string()), ("partitions", pa.list_(pa.int32()))])),
    "DOUBLE": pa.float64(),
}


class Exported(NamedTuple):
    """The result of an export."""

    rows: dict[str, int]
    """Number of rows by table."""
    cut_bytes: int
    """How many bytes at the ends of files belong to rows that were not written whole."""


def export(directory: Path, out: Path, kind: str) -> Exported:
    """Write all tables of the run in `directory` into `out`, which is made. Raises NothingToReport,
    OSError."""
    paths = sorted(directory.glob(f"*{SUFFIX}"))
    if not paths:
        raise NothingToReport(f"{directory} holds no file of calls (*{SUFFIX})")
    wall_us = read_run(directory).get("wall_us")
    out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        sinks = {
            table.name: stack.enter_context(_SINKS[kind](out / f"{table.name}.{kind}", table))
            for table in tables.TABLES
        }
        cut_bytes = _export(paths, sinks, lambda at_us: None if wall_us is None else at_us + wall_us)
        for row in _seconds(directory / SECONDS):
            sinks[tables.SECONDS.name].write(row)
    return Exported({name: sink.rows for name, sink in sinks.items()}, cut_bytes)


def _export(paths: Sequence[Path], sinks: dict[str, _Sink], at: At) -> int:
    faults: dict[tuple[Any, ...], Fault] = {}
    number = cut_bytes = 0
    for path in paths:
        with path.open("rb") as file:
            try:
                reader = CallReader(path, file)
            except UnreadableFile as error:
                raise NothingToReport(str(error)) from error
            for row in reader:
                number += isinstance(row, Call)
                _take(number, row, sinks, faults, at)
            cut_bytes += reader.cut_bytes
    for fault in faults.values():
        sinks["faults"].write(tables.fault_row(fault, at))
    return cut_bytes


def _take(
    number: int, row: Row, sinks: dict[str, _Sink], faults: dict[tuple[Any, ...], Fault], at: At
) -> None:
    match row:
        case Call():
            sinks["calls"].write(tables.call_row(number, row, at))
            for each in tables.offset_rows(number, row, at):
                sinks["offsets"].write(each)
        case Gone():
            sinks["gone"].write(tables.gone_row(row, at))
        case Topic():
            sinks["topics"].write(tables.topic_row(row, at))
        case Fault():  # a fault is written again when it has ended: the later row counts
            faults[row[:3]] = row


def _seconds(path: Path) -> Iterator[tuple[Any, ...]]:
    """The rows of seconds.csv, which the last report wrote."""
    if not path.exists():
        return
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            yield tuple(_value(column.type, row.get(column.name) or "") for column in tables.SECONDS.columns)


def _value(type_: str, text: str) -> Any:
    if not text:
        return None
    if type_ == tables.TIME:
        return round(datetime.fromisoformat(text).timestamp() * 1e6)
    return float(text) if type_ == "DOUBLE" else int(text)


class _Sink(ABC):
    """The file of one table; a context manager."""

    def __init__(self, table: Table) -> None:
        self.rows = 0
        self._table = table
        self._batch: list[tuple[Any, ...]] = []

    def write(self, row: tuple[Any, ...]) -> None:
        self.rows += 1
        self._batch.append(row)
        if len(self._batch) >= BATCH_ROWS:
            self.flush()

    def flush(self) -> None:
        if self._batch:
            self._write(self._batch)
            self._batch = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.flush()
        finally:
            self._close()

    @abstractmethod
    def _write(self, rows: list[tuple[Any, ...]]) -> None: ...

    @abstractmethod
    def _close(self) -> None: ...


class _Parquet(_Sink):
    def __init__(self, path: Path, table: Table) -> None:
        super().__init__(table)
        self._schema = pa.schema([(column.name, _TYPES[column.type]) for column in table.columns])
        self._writer = pq.ParquetWriter(path, self._schema, compression="zstd")

    def _write(self, rows: list[tuple[Any, ...]]) -> None:
        columns = [
            pa.array(values, field.type)
            for values, field in zip(zip(*rows, strict=True), self._schema, strict=True)
        ]
        self._writer.write_table(pa.Table.from_arrays(columns, schema=self._schema))

    def _close(self) -> None:
        self._writer.close()


class _Csv(_Sink):
    def __init__(self, path: Path, table: Table) -> None:
        super().__init__(table)
        self._file = path.open("w", encoding="utf-8", newline="")
        self._writer = csv.writer(self._file)
        self._writer.writerow([column.name for column in table.columns])
        self._is_time = [column.type == tables.TIME for column in table.columns]

    def _write(self, rows: list[tuple[Any, ...]]) -> None:
        for row in rows:
            cells = zip(row, self._is_time, strict=True)
            self._writer.writerow(
                [_moment(cell) if is_time else tables.flat(cell) for cell, is_time in cells]
            )

    def _close(self) -> None:
        self._file.close()


def _moment(unix_us: int | None) -> str:
    if unix_us is None:
        return ""
    return datetime.fromtimestamp(unix_us / 1e6, UTC).isoformat(timespec="microseconds")


_SINKS: Final[dict[str, Callable[[Path, Table], _Sink]]] = {PARQUET: _Parquet, CSV: _Csv}
