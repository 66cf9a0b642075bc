"""The schema of history: its table is up to date, and every event fits it."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from actors.coordinator.told import consumer_events, events
from actors.leader import history, history_writer, lag_samples
from storage.history import schema
from storage.history.schema import KINDS, NAMES, Move, Recorded, arrow_schema, row

OF_LOG = {"AssignmentDelayed"}
"""The events that stand in a log and not in history, so they have no kind there."""
VALUES = {"string": "x", "int16": 1, "int32": 1, "int64": 1, schema.TEXTS: ("x",)}


def event_classes() -> list[Any]:
    modules: tuple[ModuleType, ...] = (events, consumer_events, history, history_writer, lag_samples)
    return [
        each
        for module in modules
        for _, each in inspect.getmembers(module, inspect.isclass)
        if each.__module__ == module.__name__ and hasattr(each, "kind") and not each.__name__.startswith("_")
    ]


def filled(cls: Any) -> Any:
    types = {column.name: column.type for column in schema.COLUMNS} | {schema.MOVES: schema.MOVES}
    moves = (Move("t", 1, None, "m"),)
    return cls(*(moves if types[name] == schema.MOVES else VALUES[types[name]] for name in cls._fields))


def test_the_table_is_up_to_date() -> None:
    """Mend it with `python -m storage.history.schema > storage/history/SCHEMA.md`."""
    table = Path(schema.__file__).with_name("SCHEMA.md")
    assert table.read_text(encoding="utf-8") == schema.markdown()


def test_kinds_name_columns_and_each_is_somebodys() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert [name for kind in KINDS for name in kind.columns if name not in NAMES] == []
    made = {filled(cls).kind for cls in event_classes()}
    assert made == schema.KIND_NAMES


@pytest.mark.parametrize("cls", event_classes(), ids=lambda cls: cls.__name__)
def test_an_event_is_a_row(cls: Any) -> None:
    """An event's fields are columns that its kind may fill, of the columns' types."""
    event = filled(cls)
    [kind] = [kind for kind in KINDS if kind.name == event.kind]
    assert set(cls._fields) <= {"at_ms", *kind.columns}
    told = row(Recorded(3, 1, 7, 42, event))
    table = pa.Table.from_pylist([told], schema=arrow_schema())
    assert table.to_pylist()[0]["sequence"] == 42
    assert set(told) == {column.name for column in schema.ALWAYS} | set(cls._fields)
