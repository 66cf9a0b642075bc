"""`groupd upgrade`: which release each part of a tier runs, and when the tier may use what is new."""

from __future__ import annotations

from itertools import groupby
from typing import Annotated, Any

import typer

from actors.ground.features import GROUPD_VERSION
from cluster import upgrade
from cluster.cli.common import (
    DATA_DIR_DEFAULT,
    EXIT_FAILED,
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
from cluster.upgrade import ActorRelease, UpgradeState

commands = typer.Typer(
    no_args_is_help=True,
    help="Upgrade a running tier: show releases, and let it use what a release brought.",
    rich_markup_mode="rich",
    epilog=examples("groupd upgrade status", "groupd upgrade finalize"),
)


def register(app: typer.Typer) -> None:
    app.add_typer(commands, name="upgrade")


@commands.command(epilog=examples("groupd upgrade status", "groupd upgrade status --json"))
def status(
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: NodeOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the release of every node and replica, the level that is finalized, and what is possible.

    Exit code 1 if somebody does not answer or cannot serve the tier.
    """
    with errors():
        state = upgrade.state_of(reach(data_dir, bootstrap, command_config).spec)
        if as_json:
            print_json(_json(state))
        else:
            _show(state)
        problems = any(each.problem for each in state.actors)
    leave(EXIT_FAILED if problems or state.silent else 0)


@commands.command(epilog=examples("groupd upgrade finalize", "groupd upgrade finalize --level 2"))
def finalize(
    level: Annotated[
        int | None,
        typer.Option(help="The level to finalize; default: the highest that all can serve.", min=1),
    ] = None,
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: NodeOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let the tier write what only its present releases can read. There is no way back to an older one.

    Refused, with nothing changed, while a node or replica cannot serve the level or does not answer.
    """
    with errors():
        reached = reach(data_dir, bootstrap, command_config)
        before, now = upgrade.finalize(reached.tier, reached.spec, reached.data_dir, level)
    if as_json:
        print_json({"before": before, "level": now})
    elif before == now:
        typer.echo(f"{GROUPD_VERSION} is at level {now} already, the highest that all can serve.")
    else:
        typer.echo(f"{GROUPD_VERSION} is at level {now} now; it was at {before}.")
    leave()


def _json(state: UpgradeState) -> dict[str, Any]:
    return {
        "level": state.level,
        "possible": state.possible,
        "silent": state.silent,
        "actors": [each._asdict() for each in state.actors],
        "machines": dict(state.machines),
    }


def _show(state: UpgradeState) -> None:
    table = Table("node", "release", "levels", "actors")
    rows = sorted(state.actors, key=_of_one_row)
    for (node_id, release, low, high), same in groupby(rows, _of_one_row):
        names = ", ".join(each.actor for each in same)
        style = None if release and high == state.highest else "yellow" if release else "bold red"
        levels = f"{low} to {high}" if release else "-"
        table.add_row(str(node_id), release or "does not answer", levels, names, style=style)
    console.print(table)
    for machine, its_release in sorted(state.machines.items()):
        typer.echo(f"machine {machine}: {f'groupd {its_release}' if its_release else 'does not answer'}")
    for each in state.actors:
        if each.release is not None and each.problem:
            typer.echo(f"{each.actor}: {each.problem}")
    typer.echo(advice(state))


def _of_one_row(each: ActorRelease) -> tuple[int, str, int, int]:
    return each.node_id, each.release or "", each.low, each.high


def advice(state: UpgradeState) -> str:
    """Return what is finalized, and what can be done next, in words."""
    said = f"{GROUPD_VERSION} is at level {state.level}"
    if state.silent:
        return f"{said}; nothing can be finalized while {len(state.silent)} of the actors do not answer."
    if state.possible > state.level:
        return f"{said}, and all can serve {state.possible}: `groupd upgrade finalize` raises it."
    held = state.holding_back
    if held:
        first = held[0]
        return (
            f"{said}; {len(held)} of the actors, such as {first.actor} on node {first.node_id}, cannot serve "
            f"{state.highest} yet: they go on with an older release."
        )
    return f"{said}, the highest that these releases can serve."
