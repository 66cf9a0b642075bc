"""What is written about the tables is what they are."""

from __future__ import annotations

from pathlib import Path

import storage.history.jobs
from storage.history.jobs.table import markdown
from storage.history.jobs.tables import TABLES

FILE = Path(storage.history.jobs.__file__).with_name("TABLES.md")


def test_the_columns_are_documented() -> None:
    """Mend it with `python -m storage.history.jobs.tables > storage/history/jobs/TABLES.md`."""
    assert FILE.read_text(encoding="utf-8") == markdown(TABLES)
    assert len({table.name for table in TABLES}) == len(TABLES)
