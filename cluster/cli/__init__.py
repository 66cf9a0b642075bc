"""The `groupd` command: one typer app, in which every command is registered.

A command's module has `register(app)`. Commands of other packages (bench) come through the entry-point
group "groupd.commands", whose entries are typer apps: nothing here imports them by name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import entry_points

import typer

from cluster.cli import (
    acls,
    attach,
    backup,
    capacity,
    config,
    demo,
    detach,
    down,
    explain,
    groups,
    history,
    journal,
    leaders,
    machine,
    metrics,
    nodes,
    offsets,
    partitions,
    replicas,
    status,
    top,
    topics,
    up,
    upgrade,
    users,
)
from cluster.cli.command_help import tidy
from cluster.cli.common import examples

MODULES = (
    up,
    demo,
    status,
    down,
    machine,
    topics,
    groups,
    explain,
    top,
    offsets,
    users,
    acls,
    leaders,
    replicas,
    nodes,
    partitions,
    upgrade,
    attach,
    detach,
    backup,
    journal,
    metrics,
    history,
    capacity,
    config,
)
ENTRY_POINT_GROUP = "groupd.commands"

_app = typer.Typer(
    name="groupd",
    help="Kafka consumer groups, coordinated by a replicated tier of Ray actors.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    epilog=examples("groupd up", "groupd demo", "groupd status"),
)
for module in MODULES:
    module.register(_app)
tidy(_app)


def __getattr__(name: str) -> typer.Typer:
    """Make `app` when it is first asked for, because the other packages' commands import from here."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _plug_in()
    globals()[name] = _app
    return _app


def _plug_in() -> None:
    """Add the other packages' commands, unless one of our own is asked for (their imports take time)."""
    ours = {command.name for command in _app.registered_commands}
    ours |= {group.name for group in _app.registered_groups}
    if len(sys.argv) > 1 and sys.argv[1] in ours:
        return
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        try:
            commands = entry.load()
        except ImportError as error:
            _app.command(entry.name, help=f"Not installed: {error}.")(_missing(entry.name, str(error)))
        else:
            tidy(commands)
            _app.add_typer(commands, name=entry.name)


def _missing(name: str, why: str) -> Callable[[], None]:
    def command() -> None:
        typer.echo(f"groupd: {name} needs more packages ({why}): pip install 'groupd[bench]'", err=True)
        raise typer.Exit(1)

    return command
