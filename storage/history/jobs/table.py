"""A table that a job makes: its columns with what they mean."""

from __future__ import annotations

from typing import NamedTuple


class Column(NamedTuple):
    """Types are Spark's, as its SQL spells them."""

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
        """As `spark.read.schema` takes it; `date` comes from the path."""
        return ", ".join(f"`{column.name}` {column.type}" for column in (*self.columns, DATE))

    @property
    def names(self) -> list[str]:
        return [*(column.name for column in self.columns), DATE.name]


DATE = Column("date", "date", "Day of UTC.")


def markdown(tables: tuple[Table, ...]) -> str:
    """The tables of TABLES.md."""
    lines = [
        "# Tables made of history",
        "Made by `python -m storage.history.jobs.tables`; a test compares them.",
    ]
    for table in tables:
        lines += ["", f"## {table.name}", table.says, "", "| column | type | |", "|--|--|--|"]
        lines += [f"| `{each.name}` | {each.type} | {each.says} |" for each in (*table.columns, DATE)]
    return "\n".join(lines) + "\n"
