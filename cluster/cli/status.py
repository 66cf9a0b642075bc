"""`groupd status`: what runs, who leads, who is behind."""

from __future__ import annotations

import typer

from cluster.cli import screen
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
from cluster.tier import gather_status
from cluster.tier_actors import actors_of


def register(app: typer.Typer) -> None:
    app.command(
        "status",
        epilog=examples("groupd status", "groupd status --json", "groupd status --bootstrap 10.0.0.2:9092"),
    )(status)


def status(
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: NodeOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show nodes, partitions with leader and followers' lag, connections and groups.

    A node whose broker does not answer is silent; on machines with agents, it is said whose agent is away.
    Exit code 1 if the tier does not run, or if a partition has no leader or an actor a problem.
    """
    with errors():
        reached = reach(data_dir, bootstrap, command_config)
        statuses = gather_status(reached.spec.namespace, [actor.name for actor in actors_of(reached.spec)])
        shown = screen.summary(reached.tier, reached.data_dir, statuses, reached.machines)
        if as_json:
            print_json(shown)
        else:
            screen.show_status(console, shown)
        leave(0 if shown["healthy"] else EXIT_FAILED)
