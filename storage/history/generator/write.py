"""A made-up history on disk: segments named and laid out as a leader's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from storage.history.generator.bulk import stretches
from storage.history.generator.plan import Plan, group_id, host, member_id, topic
from storage.history.generator.rows import (
    ASSIGNORS,
    CAUSES,
    KINDS,
    NULL,
    REASONS,
    RULES,
    SOFTWARE,
    STATES,
    TYPES,
    Rows,
    taken,
)
from storage.history.schema import SCHEMA_VERSION, arrow_schema
from storage.history.segments import parquet
from storage.history.segments.folder import Folder
from storage.history.segments.names import Segment

TIER_ID: Final = "made-up"


def segments(plan: Plan) -> Iterator[tuple[Segment, Any]]:
    """The whole history, each segment with its table. Memory: one stretch."""
    texts = _Texts(plan)
    for all_ in stretches(plan):
        one = all_.columns
        leads = np.diff(one["offsets_partition"]) | np.diff(one["term"])
        begins = np.flatnonzero(np.r_[True, leads != 0])
        for begin, end in zip(begins, [*begins[1:], all_.size], strict=True):
            segment = Segment(
                int(one["offsets_partition"][begin]),
                plan.spec.first_ms + int(one["at_ms"][begin]),
                int(one["term"][begin]),
                int(one["sequence"][begin]),
                int(one["sequence"][end - 1]),
            )
            yield segment, texts.table(taken(all_, np.arange(begin, end)))


def write(plan: Plan, folder: Folder) -> int:
    """Write all segments; how many rows. Raises OSError."""
    count = 0
    for segment, table in segments(plan):
        folder.publish(segment, partial(_write, table))
        count += table.num_rows
    return count


def _write(table: Any, sink: Any) -> None:
    parquet.write(sink, parquet.apart(table).values(), parquet.About(TIER_ID))


class _Texts:
    """The texts that a plan's numbers stand for."""

    def __init__(self, plan: Plan) -> None:
        self._first_ms = plan.spec.first_ms
        spec, of = plan.spec, plan.world
        lives = np.diff(np.r_[of.first_member, of.members])
        groups = range(spec.groups)
        consumers = range(spec.groups * spec.members)
        self._members = pa.array(
            [member_id(each, life) for each in consumers for life in range(int(lives[each]))]
        )
        self._topics = pa.array([topic(each) for each in groups])
        self._by_column: dict[str, tuple[str, Any]] = {
            "kind": ("kind", pa.array(KINDS)),
            "group_id": ("group_id", pa.array([group_id(each) for each in groups])),
            "group_type": ("group_type", pa.array(TYPES)),
            "member_id": ("member_id", self._members),
            "client_id": ("client", pa.array([f"consumer-{each % spec.members}" for each in consumers])),
            "client_host": ("client", pa.array([host(each) for each in consumers])),
            "client_software": ("client", pa.array([SOFTWARE[each % len(SOFTWARE)] for each in consumers])),
            "cause": ("cause", pa.array(CAUSES)),
            "rule": ("rule", pa.array(RULES)),
            "reason": ("reason", pa.array(REASONS)),
            "assignor": ("assignor", pa.array(ASSIGNORS)),
            "topic": ("topic", self._topics),
            "state": ("state", pa.array(STATES)),
        }

    def table(self, part: Rows) -> Any:
        """Rows as a table of the schema."""
        schema = arrow_schema()
        return pa.Table.from_arrays(
            [self._column(part, field) for field in schema], schema=schema
        ).replace_schema_metadata({"schema_version": str(SCHEMA_VERSION), "tier_id": TIER_ID})

    def _column(self, part: Rows, field: Any) -> Any:
        special: dict[str, Callable[[Rows], Any]] = {
            "moves": self._moves,
            "waited_for": self._waited_for,
            "version": lambda part: pa.array(np.full(part.size, SCHEMA_VERSION, np.int32)),
        }
        if field.name in special:
            return special[field.name](part)
        name, texts = self._by_column.get(field.name, (field.name, None))
        values = part.columns.get(name)
        if values is None or not (values != NULL).any():
            return pa.nulls(part.size, field.type)
        if texts is not None:
            return _texts(values, texts)
        if field.name in ("at_ms", "first_ms", "last_ms"):
            values = np.where(values == NULL, NULL, values + self._first_ms)
        return pa.array(values, mask=values == NULL).cast(field.type)

    def _moves(self, part: Rows) -> Any:
        moves = part.moves
        counts = np.bincount(moves["row"], minlength=part.size)
        field = arrow_schema().field("moves")
        structs = pa.StructArray.from_arrays(
            [
                _texts(moves["topic"], self._topics),
                pa.array(moves["partition"].astype(np.int32)),
                _texts(moves["from_member"], self._members),
                _texts(moves["to_member"], self._members),
            ],
            fields=list(field.type.value_type),
        )
        return _lists(counts, structs, field.type)

    def _waited_for(self, part: Rows) -> Any:
        values = part.columns.get("waited_for", np.full(part.size, NULL))
        there = values != NULL
        return _lists(
            there.astype(np.int64),
            _texts(values[there], self._members),
            arrow_schema().field("waited_for").type,
        )


def _texts(codes: Any, texts: Any) -> Any:
    return texts.take(pa.array(codes.astype(np.int32), mask=codes == NULL))


def _lists(counts: Any, values: Any, type_: Any) -> Any:
    """Return lists as an array; a row without an element is null."""
    offsets = np.r_[0, np.cumsum(counts)].astype(np.int32)
    nothing = np.r_[counts == 0, False]
    return pa.ListArray.from_arrays(pa.array(offsets, mask=nothing), values, type=type_)
