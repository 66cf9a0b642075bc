"""A table that is made of history: its columns with what they mean, and their types for both engines."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

DUCKDB_TYPES: Final = {
    "string": "VARCHAR",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "array<string>": "VARCHAR[]",
    "map<string, bigint>": "MAP(VARCHAR, BIGINT)",
}
"""DuckDB's types by the names that Spark's SQL has for them."""


class Column(NamedTuple):
    """A column of a table; its type is spelled as in Spark's SQL."""

    name: str
    type: str
    says: str


class Table(NamedTuple):
    """Rows belong to a `date` of UTC each: a day is made anew as a whole."""

    name: str
    says: str
    columns: tuple[Column, ...]

    @property
    def ddl(self) -> str:
        """The columns as `spark.read.schema` takes them; `date` comes from the path."""
        return ", ".join(f"`{column.name}` {column.type}" for column in self.whole)

    @property
    def whole(self) -> tuple[Column, ...]:
        """The columns with the day."""
        return *self.columns, DATE

    def arrow_fields(self) -> list[tuple[str, Any]]:
        """Name and arrow type of each column of a table whose columns are plain."""
        import pyarrow as pa

        types = {"string": pa.string(), "bigint": pa.int64(), "date": pa.date32()}
        return [(column.name, types[column.type]) for column in self.whole]

    def cast(self, query: str) -> str:
        """A query in DuckDB's SQL for these columns, in order, of the rows of another."""
        columns = ", ".join(
            f'CAST("{each.name}" AS {DUCKDB_TYPES[each.type]}) AS "{each.name}"' for each in self.whole
        )
        return f"SELECT {columns} FROM ({query}) AS made"


DATE = Column("date", "date", "Day of UTC.")


def markdown(tables: tuple[Table, ...]) -> str:
    """The tables of TABLES.md."""
    lines = [
        "# Tables made of history",
        "Made by `python -m storage.history.jobs.tables`; a test compares them.",
    ]
    for table in tables:
        lines += ["", f"## {table.name}", table.says, "", "| column | type | |", "|--|--|--|"]
        lines += [f"| `{each.name}` | {each.type} | {each.says} |" for each in table.whole]
    return "\n".join(lines) + "\n"
