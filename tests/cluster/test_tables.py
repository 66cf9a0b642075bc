"""No table cuts a name: not on 80 columns, not on 40, not in a pipe."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console, RenderableType
from typer.testing import CliRunner

from cluster.cli import app
from cluster.cli.tables import UNLIMITED, Table
from cluster.cli.top import _table
from cluster.settings import SETTINGS

LONG = "orders-of-the-northern-region-and-its-islands"


def printed(what: RenderableType, width: int) -> list[str]:
    out = StringIO()
    Console(file=out, width=width, force_terminal=True, color_system=None, highlight=False).print(what)
    return out.getvalue().splitlines()


def settings_table() -> Table:
    table = Table("name", "default", "meaning")
    for name, setting in SETTINGS.items():
        table.add_row(name, str(setting.default), setting.meaning)
    return table


@pytest.mark.parametrize("width", [80, 160, UNLIMITED])
def test_every_setting_has_its_whole_name(width: int) -> None:
    """A table of 80 columns once called six settings "group.consumer.m" and three dots."""
    lines = printed(settings_table(), width)
    assert all(len(line) <= width for line in lines)
    assert set(SETTINGS) <= {word for line in lines for word in line.split()}


def test_a_row_that_does_not_fit_becomes_a_paragraph() -> None:
    table = Table("group", "member")
    table.add_row(LONG, f"member-of-{LONG}")
    assert printed(table, 70) == [f"group   {LONG}", f"member  member-of-{LONG}", ""]


def test_columns_that_can_be_spared_go_first() -> None:
    table = Table("group", "churn", "commits", spare=("churn", "commits"))
    table.add_row(LONG, "1,234", "5")
    head, row = printed(table, len(LONG) + 12)
    assert head.split() == ["group", "commits"]
    assert row.split() == [LONG, "5"]


def test_top_keeps_the_names_of_groups_on_80_columns() -> None:
    row = {
        "group_id": LONG,
        "state": "PreparingRebalance",
        "members": 3,
        "rebalances": 7,
        "churn": 12,
        "commits": 1_234_567,
        "unstable_ms": 12_345,
        "led_ms": 100_000,
        "cause": "session timeout",
    }
    lines = printed(_table([row]), 80)
    assert all(len(line) <= 80 for line in lines)
    assert sum(LONG in line for line in lines) == 1


def test_in_a_pipe_a_row_is_a_line() -> None:
    listed = CliRunner().invoke(app, ["config"]).stdout.splitlines()
    assert [line.split()[0] for line in listed] == ["name", *SETTINGS]
