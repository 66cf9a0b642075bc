"""Events become columns: lists as long as they are few, then arrow arrays, a table in the end.

A thread does this beside a loop that must answer heartbeats, so each piece between two moments in which the
interpreter may change hands is short: `ROWS_AT_ONCE` events of one class are some tenths of a millisecond.
Events of one class have the same fields, which makes their columns one `zip`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from storage.history.schema import COLUMNS, MOVES, SCHEMA_VERSION, TEXTS, Recorded, arrow_schema

ROWS_AT_ONCE: Final = 500
"""Of one class; a moved partition counts like a row."""
_TYPES: Final = {column.name: column.type for column in COLUMNS}


class Origin(NamedTuple):
    """Whose events: a leader in one term."""

    offsets_partition: int
    node_id: int
    term: int


class Columns:
    """Events of one leader in one term, until they are taken as a table."""

    def __init__(self, origin: Origin, rest: Callable[[], None]) -> None:
        """`rest` is called after each piece of work."""
        self.origin = origin
        self.rows = 0
        self.size_bytes = 0
        """Of the arrays; of what is in lists yet nothing."""
        self._rest = rest
        self._of_class: dict[type, _OfClass] = {}

    def add(self, recorded: Iterable[Recorded]) -> int:
        """Take events of the origin. Returns how many cannot be written: a bug of who made them, for which
        the others are not to suffer."""
        of_class, unfit = self._of_class, 0
        for _, _, _, sequence, event in recorded:
            into = of_class.get(event.__class__)
            if into is None:
                into = of_class[event.__class__] = _OfClass(event.__class__)
            into.events.append(event)
            into.sequences.append(sequence)
            into.weight += 1 if into.moves_at is None else 1 + len(event[into.moves_at] or ())
            self.rows += 1
            if into.weight >= ROWS_AT_ONCE:
                unfit += self._settle(into)
        return unfit

    def take(self) -> tuple[pa.Table | None, int]:
        """All of it, in order, with nothing left here; and how many could not be written."""
        unfit = sum([self._settle(each) for each in self._of_class.values()])
        parts = [part for of_class in self._of_class.values() for part in of_class.take()]
        rows, self.rows, self.size_bytes = self.rows, 0, 0
        if not parts:
            return None, unfit
        table = _joined(parts, self.origin, self._rest)
        assert table.num_rows == rows
        return table, unfit

    def _settle(self, of_class: _OfClass) -> int:
        rows = len(of_class.events)
        try:
            self.size_bytes += of_class.settle()
        except (pa.ArrowException, ValueError, TypeError, OverflowError, KeyError):
            self.rows -= rows
            return rows
        finally:
            of_class.events, of_class.sequences, of_class.weight = [], [], 0
            self._rest()
        return 0


class _OfClass:
    """Events of one class, which are of one kind."""

    __slots__ = ("_batches", "_cls", "events", "moves_at", "sequences", "weight")

    def __init__(self, cls: Any) -> None:
        self._cls = cls
        self.moves_at = cls._fields.index(MOVES) if MOVES in cls._fields else None
        self.events: list[Any] = []
        self.sequences: list[int] = []
        self.weight = 0
        self._batches: list[pa.Table] = []

    def settle(self) -> int:
        """Make arrays of the lists. Returns their size in bytes."""
        rows = len(self.events)
        if not rows:
            return 0
        kinds = pa.repeat(self.events[0].kind, rows)
        arrays = {"kind": kinds, "sequence": _ARRAYS["int64"](self.sequences)}
        for name, values in zip(self._cls._fields, zip(*self.events, strict=True), strict=True):
            array = _ARRAYS[_TYPES[name]](values)
            if array.null_count < rows:
                arrays[name] = array
        table = pa.table(arrays)
        self._batches.append(table)
        return int(table.nbytes)

    def take(self) -> list[dict[str, pa.ChunkedArray]]:
        """What was settled, by column; one part where all have the same columns."""
        batches, self._batches = self._batches, []
        by_columns: dict[tuple[str, ...], list[pa.Table]] = {}
        for batch in batches:
            by_columns.setdefault(tuple(batch.column_names), []).append(batch)
        tables = (pa.concat_tables(each) for each in by_columns.values())
        return [dict(zip(each.column_names, each.columns, strict=True)) for each in tables]


def _joined(
    parts: Sequence[dict[str, pa.ChunkedArray]], origin: Origin, rest: Callable[[], None]
) -> pa.Table:
    """One table of the history's schema, in the order of sequences. Takes the columns out of `parts`: to free
    all of them at once is tens of milliseconds in which no other thread runs."""
    sequences = np.concatenate([part["sequence"].to_numpy() for part in parts])
    order = pa.array(np.argsort(sequences, kind="stable"))
    always = {"version": SCHEMA_VERSION, **origin._asdict()}
    rows = [len(part["sequence"]) for part in parts]
    columns = []
    for field in arrow_schema():
        found = [part.pop(field.name, None) for part in parts]
        if field.name in always:
            columns.append(pa.repeat(pa.scalar(always[field.name], field.type), len(order)))
        elif any(each is not None for each in found):
            whole = [
                pa.nulls(count, field.type) if each is None else each.combine_chunks()
                for each, count in zip(found, rows, strict=True)
            ]
            columns.append(pa.concat_arrays(whole).take(order))
        else:
            columns.append(pa.nulls(len(order), field.type))
        rest()
    return pa.table(columns, schema=arrow_schema())


def _integers(kind: Any) -> Callable[[Sequence[Any]], pa.Array]:
    """Without nulls numpy takes half of pyarrow's time; with one it gives up at once."""
    numpy_kind = kind.to_pandas_dtype()

    def array(values: Sequence[Any]) -> pa.Array:
        try:
            return pa.array(np.fromiter(values, numpy_kind, len(values)))
        except TypeError:
            return pa.array(values, kind)

    return array


def _moves(values: Sequence[Any]) -> pa.Array:
    """By hand: pyarrow takes a tuple for pairs of name and value."""
    kind = arrow_schema().field(MOVES).type
    offsets: list[int | None] = []
    flat: list[Any] = []
    for moves in values:
        offsets.append(None if moves is None else len(flat))
        flat += moves or ()
    offsets.append(len(flat))
    fields = list(kind.value_type)
    of_field = zip(*flat, strict=True) if flat else [()] * len(fields)
    parts = [pa.array(part, field.type) for part, field in zip(of_field, fields, strict=True)]
    structs = pa.StructArray.from_arrays(parts, fields=fields)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs)


def _plain(kind: Any) -> Callable[[Sequence[Any]], pa.Array]:
    return lambda values: pa.array(values, kind)


_ARRAYS: Final[dict[str, Callable[[Sequence[Any]], pa.Array]]] = {
    "string": _plain(pa.string()),
    "int16": _integers(pa.int16()),
    "int32": _integers(pa.int32()),
    "int64": _integers(pa.int64()),
    TEXTS: _plain(pa.list_(pa.string())),
    MOVES: _moves,
}
