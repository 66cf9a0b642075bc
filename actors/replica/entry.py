"""An entry of the log while it is not committed, and how its records are read: what comes as plain tuples
becomes NamedTuples again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from actors.ground.contract import Key, Push, Reply, Value, new_tuple
from actors.replica.neighbours import DecidedTogether


class Batch(Protocol):
    """Requests that were decided together, and are answered together."""

    @property
    def owed(self) -> int:
        """Return how many of them wait."""

    def committed(self) -> None:
        """Answer them: what was decided is committed."""

    def refused(self) -> None:
        """Refuse them: this replica leads no more."""


class Entry:
    """What is or will be one uncommitted entry: its bytes, what to undo, whom to answer."""

    __slots__ = ("batches", "groups", "index", "packed", "replies", "size_bytes", "undo")

    def __init__(self, header: bytes) -> None:
        self.index = 0
        """The entry's index in the log; 0: it is not there yet."""
        self.packed = [header]
        self.size_bytes = len(header)
        self.undo: list[tuple[Key, Value | None]] = []
        self.replies: list[Reply | Push] = []
        self.groups: set[Any] = set()
        self.batches: tuple[Batch, ...] = ()
        """The batches of requests that wait for it."""

    def take(self, decided: DecidedTogether, batch: Batch) -> None:
        """Take what was decided together, and is applied."""
        self.packed += decided.records
        self.size_bytes += sum(map(len, decided.records))
        self.undo += decided.undo
        self.groups.update(decided.groups)
        self.batches = (*self.batches, batch)


def array_header_bytes(length: int) -> int:
    """Return how many bytes the header of a msgpack array of this length has."""
    return 1 if length < 16 else 3 if length < 65_536 else 5


class RecordType(NamedTuple):
    """How a record that came as plain tuples becomes NamedTuples again."""

    key: Any
    value: Any
    """The class of the record's values, as `key` is the class of its keys: both are NamedTuples."""


Layouts = dict[int, tuple[Any, int, Any, int]]
"""Record kind -> the class of its key and the number of its fields, and the same of its value."""


def layouts_of(record_types: Mapping[int, RecordType]) -> Layouts:
    return {
        kind: (key, len(key._fields), value, len(value._fields))
        for kind, (key, value) in record_types.items()
    }


def typed(layouts: Layouts, unpacker: Iterable[Any]) -> Iterator[tuple[Key, Value | None]]:
    """Yield the records that an unpacker gives."""
    # Every record of every follower comes through here: tuple.__new__ costs half of what a class does.
    for key, value in unpacker:
        layout = layouts.get(key[0])
        if layout is None:
            continue  # a record type of a newer release: skipped, as Kafka's loader does (R6)
        key_class, key_fields, value_class, value_fields = layout
        typed_key = new_tuple(key_class, key) if len(key) == key_fields else key_class(*key)
        if value is None:
            yield typed_key, None
        elif len(value) == value_fields:
            yield typed_key, new_tuple(value_class, value)
        else:  # fields that an older release did not write get their defaults
            yield typed_key, value_class(*value)
