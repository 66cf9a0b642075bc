"""`groupd top`: the groups of a tier, the most restless first."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.live import Live

from actors import runtime
from actors.ground.spec import partition_group
from cluster.cli.common import (
    DATA_DIR_DEFAULT,
    DataDirOption,
    JsonOption,
    console,
    errors,
    examples,
    leave,
    print_json,
)
from cluster.cli.kafka import CommandConfigOption
from cluster.cli.reach import NodeOption, reach
from cluster.cli.tables import Table
from cluster.group_leaders import GroupLeaders, NotNow

CALL_TIMEOUT_S = 5.0

Row = Mapping[str, Any]


class Order(StrEnum):
    """What groups are ordered by."""

    REBALANCES = "rebalances"
    CHURN = "churn"
    COMMITS = "commits"
    UNSTABLE = "unstable"


_COLUMNS = {
    Order.REBALANCES: "rebalances",
    Order.CHURN: "churn",
    Order.COMMITS: "commits",
    Order.UNSTABLE: "unstable_ms",
}


def register(app: typer.Typer) -> None:
    lines = "groupd top", "groupd top --by unstable --once", "groupd top --json"
    app.command("top", epilog=examples(*lines))(top)


def top(
    by: Annotated[
        Order, typer.Option(help="What the groups are ordered by, the most first.")
    ] = Order.REBALANCES,
    limit: Annotated[int, typer.Option(help="How many groups are shown.", min=1, max=1_000)] = 20,
    every: Annotated[float, typer.Option(help="Seconds between two looks.", min=0.2)] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print the table and end.")] = False,
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: NodeOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the groups that rebalance, change, commit or stand still most.

    Counted since each group's leader began to lead. Ctrl-C ends it.
    """
    with errors():
        leaders = reach(data_dir, bootstrap, command_config).leaders
        rows = _rows(leaders, by, limit)
        if as_json:
            print_json(rows)
        elif once:
            console.print(_table(rows))
        else:
            _refresh(leaders, by, limit, every)
    leave()


def _refresh(leaders: GroupLeaders, by: Order, limit: int, every_s: float) -> None:
    """Show the table again and again, until Ctrl-C."""
    with Live(console=console, auto_refresh=False, screen=console.is_terminal) as live:
        try:
            while True:
                live.update(_table(_rows(leaders, by, limit), is_live=True), refresh=True)
                time.sleep(every_s)
        except KeyboardInterrupt:
            return


def _rows(leaders: GroupLeaders, by: Order, limit: int) -> list[dict[str, Any]]:
    """Return the rows of all partitions, asked from one leader after the other. Raises TierError."""
    rows: list[dict[str, Any]] = []
    for partition in range(leaders.spec.offsets_partitions):
        told = leaders.ask(partition_group(partition), lambda handle: _ask(handle, by, limit))
        led_ms = told["now_ms"] - (told["leads_since_ms"] or told["now_ms"])
        rows += ({**row, "offsets_partition": partition, "led_ms": led_ms} for row in told["groups"])
    rows.sort(key=lambda row: (-row[_COLUMNS[by]], row["group_id"]))
    return rows[:limit]


def _ask(handle: runtime.Handle, by: Order, limit: int) -> dict[str, Any]:
    told: dict[str, Any] = runtime.await_call(handle, "top", _COLUMNS[by], limit, timeout_s=CALL_TIMEOUT_S)
    if not told:
        raise NotNow("its leader has just changed")
    return told


def _table(rows: Sequence[Row], *, is_live: bool = False) -> RenderableType:
    if not rows:
        return "No group has had anything to tell since its leader began."
    table = Table(spare=("churn", "commits", "members", "last cause"), is_live=is_live)
    for name in ("group", "state", "members", "rebalances", "churn", "commits", "not stable", "last cause"):
        table.add_column(name, justify="right" if name in _NUMBERS else "left")
    for row in rows:
        is_stable = row["state"] in ("Stable", "Empty", "-")
        share = row["unstable_ms"] / max(row["led_ms"], 1)
        table.add_row(
            row["group_id"],
            row["state"],
            *(f"{row[name]:,}" for name in ("members", "rebalances", "churn", "commits")),
            f"{row['unstable_ms'] / 1000:,.1f} s, {share:.1%}",
            row["cause"] or "",
            style=None if is_stable else "yellow",
        )
    return table


_NUMBERS = frozenset({"members", "rebalances", "churn", "commits", "not stable"})
