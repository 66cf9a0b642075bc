"""Segments of earlier schema versions are read as if they were of this one.

Version 1 had no `session_timeout_ms`, and named requests in `api` as metrics do: "join_group". A column that
a segment lacks is null. The engines that read segments with SQL do the same by themselves
(`storage.history.jobs`).
"""

from __future__ import annotations

import re
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from storage.history.schema import SCHEMA_VERSION, SOMETIMES, arrow_schema

READABLE: Final = frozenset(range(1, SCHEMA_VERSION + 1))
METRICS_NAME: Final = "^[a-z]"
"""The regular expression that finds a request's name as version 1 wrote it: Kafka's begin with a capital, and
what has no name is a number."""


def schema_name(api: str) -> str:
    """Kafka's name of a request for the one in version 1: JoinGroup for "join_group". Others stay."""
    return "".join(map(str.capitalize, api.split("_"))) if re.search(METRICS_NAME, api) else api


def brought_up(table: pa.Table, columns: list[str] | None) -> pa.Table:
    """The rows with the columns asked for, or all, as this version has them."""
    schema = arrow_schema()
    for column in SOMETIMES:
        if column.name not in table.column_names and (columns is None or column.name in columns):
            field = schema.field(column.name)
            table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    if "api" in table.column_names:
        place = table.column_names.index("api")
        table = table.set_column(place, "api", _renamed(table["api"]))
    names = [name for name in (columns or schema.names) if name in table.column_names]
    return table.select(names).cast(pa.schema([schema.field(name) for name in names]))


def _renamed(apis: Any) -> Any:
    for api in pc.unique(apis).to_pylist():
        if api is not None and schema_name(api) != api:
            apis = pc.if_else(pc.equal(apis, api), schema_name(api), apis)
    return apis
