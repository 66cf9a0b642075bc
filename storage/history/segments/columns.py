"""Events become columns: those of one class have the same fields, so all their values in one list, one after
the other, are columns by slicing.

A thread does this beside a loop that must answer heartbeats, so each piece between two moments in which the
interpreter may change hands is short: `ROWS_AT_ONCE` events of one class are some tenths of a millisecond.
Shorter pieces cost more: what is paid for each array is paid more often. Rows are not put in the order of
their sequences: kind by kind they are cheaper to make and to write, and smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from storage.history.schema import BULK, COLUMNS, MOVES, SCHEMA_VERSION, TEXTS, Stretch, arrow_schema

ROWS_AT_ONCE: Final = 1_000
"""Rows of one class that are turned into arrays at once; a moved partition counts like a row."""
WITH_MOVES_AT_ONCE: Final = 200
_TYPES: Final = {column.name: column.type for column in COLUMNS}
_UNFIT: Final = (pa.ArrowException, ValueError, TypeError, OverflowError, KeyError)
"""The errors that are raised for values that do not fit their columns."""


class Origin(NamedTuple):
    """The origin of a segment's events: one leader in one term."""

    offsets_partition: int
    node_id: int
    term: int


class Columns:
    """Events of one leader in one term, until they are taken as tables."""

    def __init__(self, origin: Origin, rest: Callable[[], None]) -> None:
        """`rest` is called after each piece of work."""
        self.origin = origin
        self.rows = 0
        self.size_bytes = 0
        """Bytes of the arrays; what is still in lists does not count."""
        self._rest = rest
        self._of_class: dict[Any, _OfClass] = {}
        self._parts: dict[bool, list[pa.Table]] = {False: [], True: []}
        """The finished tables, by whether their events are BULK."""

    def add(self, stretches: Iterable[Stretch]) -> int:
        """Take events of the origin. Returns how many cannot be written: a bug of who made them, for which
        the others are not to suffer."""
        of_class = self._of_class
        for _, first_sequence, events in stretches:
            for sequence, event in enumerate(events, first_sequence):
                cls = event.__class__
                if cls not in of_class:
                    of_class[cls] = _OfClass(cls, event.kind)
                into = of_class[cls]
                into.sequences.append(sequence)
                into.cells.extend(event)
            self.rows += len(events)
        return sum(
            [self._make_arrays(each) for each in of_class.values() if len(each.sequences) >= each.at_once]
        )

    def take(self) -> tuple[list[pa.Table], int]:
        """Take everything, with what is BULK in a table of its own, and how many rows could not be
        written."""
        unfit = sum([self._make_arrays(each) for each in self._of_class.values()])
        tables = [_whole(parts, self.origin) for parts in self._parts.values() if parts]
        assert sum(table.num_rows for table in tables) == self.rows
        self._parts = {False: [], True: []}
        self.rows = self.size_bytes = 0
        return tables, unfit

    def _make_arrays(self, of_class: _OfClass) -> int:
        """Make arrays of what waits. Returns how many cannot be written."""
        unfit = 0
        for begin, end in of_class.cuts():
            try:
                table = of_class.table(begin, end)
            except _UNFIT:
                unfit += end - begin
            else:
                self._parts[of_class.kind in BULK].append(table)
                self.size_bytes += table.get_total_buffer_size()
            self._rest()
        of_class.cells, of_class.sequences = [], []
        self.rows -= unfit
        return unfit


class _OfClass:
    """Events of one class, which are of one kind."""

    __slots__ = ("_fields", "_moves_at", "at_once", "cells", "kind", "sequences")

    def __init__(self, cls: Any, kind: str) -> None:
        self.kind = kind
        self._fields: tuple[str, ...] = cls._fields
        self._moves_at = cls._fields.index(MOVES) if MOVES in cls._fields else None
        self.at_once = ROWS_AT_ONCE if self._moves_at is None else WITH_MOVES_AT_ONCE
        self.sequences: list[int] = []
        self.cells: list[Any] = []
        """All values of the first event, then of the next."""

    def cuts(self) -> Iterator[tuple[int, int]]:
        """Yield the first place and the place behind the last of the events that become one table each."""
        begin, rows = 0, len(self.sequences)
        if self._moves_at is not None:
            weight = 0
            for row, moves in enumerate(self.cells[self._moves_at :: len(self._fields)], 1):
                weight += 1 + len(moves or ())
                if weight >= ROWS_AT_ONCE:
                    yield begin, row
                    begin, weight = row, 0
        if begin < rows:
            yield begin, rows

    def table(self, begin: int, end: int) -> pa.Table:
        """A table without the columns that are null, and without those that all of an origin's events
        share."""
        found = {
            "kind": pa.repeat(self.kind, end - begin),
            "sequence": _ARRAYS["int64"](self.sequences[begin:end]),
        }
        width = len(self._fields)
        for place, name in enumerate(self._fields):
            array = _array(_TYPES[name], self.cells[begin * width + place : end * width : width])
            if array is not None:
                found[name] = array
        return pa.Table.from_arrays(list(found.values()), schema=_schema(tuple(found)))


def _array(kind: str, values: list[Any]) -> pa.Array | None:
    """Return values as an array, None if all are null.

    An equal value in all events is looked at only once.
    """
    first = values[0]
    if first is values[-1] and values.count(first) == len(values):
        if first is None:
            return None
        if kind in _PLAIN:
            return pa.repeat(pa.scalar(first, _PLAIN[kind]), len(values))
    return _ARRAYS[kind](values)


@lru_cache(maxsize=64)
def _schema(names: tuple[str, ...]) -> pa.Schema:
    return pa.schema([arrow_schema().field(name) for name in names])


def _whole(parts: Iterable[pa.Table], origin: Origin) -> pa.Table:
    """One table of the history's schema, nothing copied; those with the same columns one after the other."""
    alike: dict[tuple[str, ...], list[pa.Table]] = {}
    for part in parts:
        alike.setdefault(tuple(part.column_names), []).append(part)
    always = {"version": SCHEMA_VERSION, **origin._asdict()}
    schema = arrow_schema()
    own = _schema(tuple(name for name in schema.names if name not in always))
    stretches = (pa.concat_tables(each) for each in alike.values())
    joined = pa.concat_tables([own.empty_table(), *stretches], promote_options="default")
    columns = [
        pa.chunked_array([pa.repeat(pa.scalar(always[field.name], field.type), joined.num_rows)])
        if field.name in always
        else joined[field.name]
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _integers(kind: Any) -> Callable[[Sequence[Any]], pa.Array]:
    """Choose how to pack integers: without nulls numpy takes half of pyarrow's time; with one it gives up
    at once."""
    numpy_kind = kind.to_pandas_dtype()

    def array(values: Sequence[Any]) -> pa.Array:
        try:
            return pa.array(np.fromiter(values, numpy_kind, len(values)))
        except TypeError:
            return pa.array(values, kind)

    return array


def _moves(values: Sequence[Any]) -> pa.Array:
    """Pack moves by hand: pyarrow takes a tuple for pairs of name and value."""
    kind = arrow_schema().field(MOVES).type
    offsets: list[int | None] = []
    flat: list[Any] = []
    for moves in values:
        offsets.append(None if moves is None else len(flat))
        flat += moves or ()
    offsets.append(len(flat))
    fields = list(kind.value_type)
    cells = list(chain.from_iterable(flat))
    parts = [_ARRAYS[str(field.type)](cells[place :: len(fields)]) for place, field in enumerate(fields)]
    structs = pa.StructArray.from_arrays(parts, fields=fields)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs)


def _of(kind: Any) -> Callable[[Sequence[Any]], pa.Array]:
    return lambda values: pa.array(values, kind)


_PLAIN: Final = {"string": pa.string(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64()}
_ARRAYS: Final[dict[str, Callable[[Sequence[Any]], pa.Array]]] = {
    "string": _of(pa.string()),
    **{name: _integers(kind) for name, kind in _PLAIN.items() if name != "string"},
    TEXTS: _of(pa.list_(pa.string())),
    MOVES: _moves,
}
