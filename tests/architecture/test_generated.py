"""Pages that are made from code are up to date. SCHEMA.md, TABLES.md and ROWS.md have tests beside theirs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from actors.catalog import page as apis_page
from actors.metrics import families
from cluster import capacity_page, settings_table
from cluster.cli import commands_page
from tests.matrix import page

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("file", "markdown", "module"),
    [
        ("cluster/cli/COMMANDS.md", commands_page.markdown, "cluster.cli.commands_page"),
        ("cluster/SETTINGS.md", settings_table.markdown, "cluster.settings_table"),
        ("deploy/CAPACITY.md", capacity_page.markdown, "cluster.capacity_page"),
        ("actors/metrics/METRICS.md", families.markdown, "actors.metrics.families"),
        ("actors/catalog/APIS.md", apis_page.markdown, "actors.catalog.page"),
        ("tests/matrix/CLIENTS.md", lambda: page.markdown(page.load()), "tests.matrix.page"),
    ],
)
def test_the_page_is_what_the_code_says(file: str, markdown: Callable[[], str], module: str) -> None:
    assert (ROOT / file).read_text(encoding="utf-8") == markdown(), f"mend it: python -m {module} > {file}"
