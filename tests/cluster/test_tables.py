"""No table cuts a name: not on 80 columns, not on 40, not in a pipe."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import RenderableType
from rich.text import Text
from typer.testing import CliRunner

from bench.swarm.told.compare import _show_pair, _show_wide
from bench.swarm.told.comparison import Comparison, Part, Row
from cluster.cli import app, common, history, kafka, leaders, replicas, screen
from cluster.cli.config import config
from cluster.cli.tables import UNLIMITED, Console, Table, print_table
from cluster.cli.top import _table
from cluster.settings import SETTINGS

LONG = "orders-of-the-northern-region-and-its-islands"
NAMES = tuple(f"{kind}-{'.'.join([LONG] * 5)}" for kind in ("group", "topic", "member", "host"))
"""Names of more than 200 characters."""
WIDTHS = (80, 160, UNLIMITED)


def printed(what: RenderableType, width: int) -> list[str]:
    out = StringIO()
    Console(file=out, width=width, force_terminal=True, color_system=None).print(what)
    return out.getvalue().splitlines()


def settings_table() -> Table:
    table = Table("name", "default", "meaning")
    for name, setting in SETTINGS.items():
        table.add_row(name, str(setting.default), setting.meaning)
    return table


def top_row(group_id: str, cause: str = "session timeout") -> dict[str, Any]:
    return {
        "group_id": group_id,
        "state": "PreparingRebalance",
        "members": 3,
        "rebalances": 7,
        "churn": 12,
        "commits": 1_234_567,
        "unstable_ms": 12_345,
        "led_ms": 100_000,
        "cause": cause,
    }


def nodes() -> None:
    node = {"node_id": 1, "host": NAMES[3], "port": 1, "rack": NAMES[0], "problem": ""}
    counts: dict[str, object] = {"connections": 1, "topics": 2, "pid": 3}
    counts |= {"state": screen.UP, "machine": NAMES[3], "machine_answers": True}
    common.console.print(screen._node_table({"nodes": [{**node, **counts}]}))


def replicas_of_groups() -> None:
    keys = ("replica", "node_id", "incarnation", "lag")
    row = {"group": NAMES[0], "role": "voter", "leads": False, "problem": NAMES[3], **dict.fromkeys(keys, 1)}
    replicas._show([row])


def leaders_of_partitions() -> None:
    row = {"partition": NAMES[0], "leader": NAMES[2], "node_id": 1, "preferred": 1, "term": 1}
    leaders._show([{**row, "is_preferred": True}])


def two_swarms(show: Callable[[Any, Comparison], None]) -> None:
    part = Part(NAMES[0], (Row.of(NAMES[1], (1.0, 2.0)),))
    show(common.console, Comparison((f"A: {NAMES[2]}", f"B: {NAMES[3]}"), (part,), (), ()))


RENDERERS: dict[str, Callable[[], None]] = {
    "config": lambda: config(assignments=[f"data.dir=/{NAMES[0]}", f"log.dirs={NAMES[1]}"]),
    "status": nodes,
    "replicas": replicas_of_groups,
    "leaders": leaders_of_partitions,
    "top": lambda: common.console.print(_table([top_row(NAMES[0], NAMES[2])])),
    "groups": lambda: kafka.print_table(("GROUP", "TOPIC", "HOST"), [(NAMES[0], NAMES[1], NAMES[3])]),
    "history sql": lambda: history._print_rows([{"group_id": NAMES[0], "member_id": NAMES[2]}], False),
    "metrics": lambda: print_table(common.console, None, [(NAMES[0], NAMES[1], 5)]),
    "swarm compare": lambda: two_swarms(_show_pair),
    "swarm compare of many": lambda: two_swarms(_show_wide),
}
"""A table -> what prints it, with names that no terminal has room for."""
DROPPED = {"top": (NAMES[2],)}
"""A table -> names in columns that it may leave out on a terminal."""


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", RENDERERS)
def test_every_name_is_there_whole(name: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common.console, "_width", width)
    with common.console.capture() as captured:
        RENDERERS[name]()
    shown = captured.get()
    assert "…" not in shown
    assert not set(shown) & set("─│┃━┏╭╰")
    lines = shown.splitlines()
    assert lines == [line.rstrip() for line in lines] or width < UNLIMITED
    told = {each for each in NAMES if each in shown}
    monkeypatch.setattr(common.console, "_width", UNLIMITED)
    with common.console.capture() as captured:
        RENDERERS[name]()
    in_a_pipe = {each for each in NAMES if each in captured.get()}
    assert len(in_a_pipe) >= 2
    assert told | set(DROPPED.get(name, ())) >= in_a_pipe


WORDS = st.text(st.characters(categories=["L", "N"], include_characters="-_.[]:/"), min_size=1, max_size=90)


@given(st.lists(st.lists(WORDS, min_size=3, max_size=3), min_size=1, max_size=5), st.integers(20, 200))
def test_every_word_of_any_table_is_there_whole_at_any_width(rows: list[list[str]], width: int) -> None:
    table = Table("group", "topic", "what it says")
    for first, second, third in rows:
        table.add_row(first, second, f"{third} and {first}")
    for shown in (printed(table, width), printed(table, UNLIMITED)):
        words = [word for line in shown for word in line.split()]
        assert {cell for row in rows for cell in row} <= set(words)


def test_a_table_that_is_drawn_again_and_again_has_no_line_wider_than_the_terminal() -> None:
    """A live screen counts its lines, so a name goes on in the next one, and no character is lost."""
    lines = printed(_table([top_row(NAMES[0])], is_live=True), 80)
    assert max(map(len, lines)) <= 80
    assert NAMES[0] in "".join(line.removeprefix("group").strip() for line in lines)


def test_brackets_are_no_markup() -> None:
    """A group may be called [red]."""
    table = Table("group", "state")
    table.add_row("[red]", Text("Stable", style="bold"))
    assert printed(table, 80)[1].split() == ["[red]", "Stable"]
    assert printed(table, UNLIMITED)[1].split() == ["[red]", "Stable"]


def test_numbers_stand_at_the_right_in_a_pipe_too_and_nothing_follows_a_line() -> None:
    table = Table("group")
    table.add_column("lag", justify="right")
    table.add_column("host")
    table.add_row("a", "1,000", "")
    table.add_row("bb", "7", "here")
    assert printed(table, UNLIMITED) == ["group    lag  host", "a      1,000", "bb         7  here"]


def test_colours_in_a_pipe_wrap_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    out = StringIO()
    Console(file=out).print(" ".join(NAMES))
    assert len(out.getvalue().splitlines()) == 1


def test_a_row_without_headings_begins_with_its_name() -> None:
    out = StringIO()
    print_table(Console(file=out, width=60, force_terminal=True, color_system=None), None, [(LONG, LONG)])
    assert out.getvalue().splitlines() == [LONG, f"  {LONG}", ""]


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
    lines = printed(_table([top_row(LONG)]), 80)
    assert all(len(line) <= 80 for line in lines)
    assert sum(LONG in line for line in lines) == 1


def test_in_a_pipe_a_row_is_a_line() -> None:
    listed = CliRunner().invoke(app, ["config"]).stdout.splitlines()
    assert [line.split()[0] for line in listed] == ["name", *SETTINGS]
