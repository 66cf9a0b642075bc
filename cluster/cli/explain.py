"""`groupd explain`: what state a group is in, whom it waits for, and why it rebalanced."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from actors import runtime
from actors.ground.spec import partition_group
from actors.protocol.partitioning import partitioning_now
from cluster.cli.common import (
    DATA_DIR_DEFAULT,
    EXIT_FAILED,
    DataDirOption,
    JsonOption,
    errors,
    examples,
    fail,
    leave,
    print_json,
)
from cluster.cli.explain_text import event_line, rebalance_lines, state_lines
from cluster.cli.kafka import CommandConfigOption
from cluster.cli.reach import NodeOption, reach
from cluster.group_leaders import GroupLeaders, NotNow
from storage.history.rules import worded

CALL_TIMEOUT_S = 5.0
LOOK_INTERVAL_S = 1.0

Told = Mapping[str, Any]


def register(app: typer.Typer) -> None:
    lines = "groupd explain billing", "groupd explain billing --follow", "groupd explain billing --json"
    app.command("explain", epilog=examples(*lines))(explain)


def explain(
    group: Annotated[str, typer.Argument(help="The group id.")],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on after that, and print what happens to the group.")
    ] = False,
    last: Annotated[int, typer.Option(help="How many of the last rebalances are explained.", min=0)] = 5,
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: NodeOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what a group is doing, whom it waits for and until when, and why it rebalanced.

    What the group's leader remembers is told; after a failover that is the state alone. `groupd history`
    has the rest. Exit code 1 if there is no such group.
    """
    with errors():
        leaders = reach(data_dir, bootstrap, command_config).leaders
        first = _ask(leaders, group, 0)
        if not follow:
            _show(first, last, as_json=as_json)
            leave(0 if _is_known(first) else EXIT_FAILED)
        for told in _followed(leaders, group, first):
            _show_news(told, as_json=as_json)


def _ask(leaders: GroupLeaders, group_id: str, after: int) -> dict[str, Any]:
    """Return what the leader of the group's partition says. Raises TierError."""

    def call(handle: runtime.Handle) -> dict[str, Any]:
        told = runtime.await_call(handle, "explain", group_id, after, timeout_s=CALL_TIMEOUT_S)
        if not told:
            raise NotNow("its leader has just changed")
        return dict(told)

    partition = partitioning_now(leaders.spec).partition_of(group_id)
    return leaders.ask(partition_group(partition), call)


def _is_known(told: Told) -> bool:
    return bool(told["now"] or told["rebalances"] or told["events"])


def _show(told: Told, last: int, *, as_json: bool) -> None:
    if as_json:
        print_json(worded(told))
        return
    if not _is_known(told):
        fail(f"group {told['group_id']}: the tier knows no such group, and nothing of its past")
    for line in state_lines(told):
        typer.echo(line)
    for line in rebalance_lines(told, last):
        typer.echo(line)


def _followed(leaders: GroupLeaders, group_id: str, first: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what is new, again and again: the first answer whole, then what came after; from a new leader all
    that it knows."""
    told = first
    while True:
        yield told
        seen = [row["sequence"] for row in (*told["events"], *told["rebalances"])]
        after, term = max(seen, default=told.get("after", 0)), told["term"]
        time.sleep(LOOK_INTERVAL_S)
        told = _ask(leaders, group_id, after)
        told["after"] = after
        if told["term"] != term:
            told = _ask(leaders, group_id, 0)


def _show_news(told: Told, *, as_json: bool) -> None:
    rows = sorted((*told["events"], *told["rebalances"]), key=lambda row: row["sequence"])
    if as_json:
        for row in rows:
            typer.echo(json.dumps(worded(row)))
        return
    for row in rows:
        typer.echo(event_line(row))
    if rows or "after" not in told:
        for line in state_lines(told):
            typer.echo(line)
