"""`groupd partitions`: the offsets partitions that share all groups, and how their number is doubled."""

from __future__ import annotations

from pathlib import Path

import typer

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
from cluster.cli.replicas import WaitOption, say
from cluster.cli.tables import Table
from cluster.partition_split import PartitionSplit

commands = typer.Typer(
    no_args_is_help=True,
    help="Show the offsets partitions that share all groups, and double their number while they serve.",
    rich_markup_mode="rich",
    epilog=examples("groupd partitions list", "groupd partitions split"),
)


def register(app: typer.Typer) -> None:
    app.add_typer(commands, name="partitions")


@commands.command(name="list", epilog=examples("groupd partitions list", "groupd partitions list --json"))
def list_(
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: NodeOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show every offsets partition, and how far a split is that runs."""
    with errors():
        state = _reached(data_dir, bootstrap, command_config).state()
    rows = [
        {"partition": partition, "does": state.part_of(partition)} for partition in range(state.partitions)
    ]
    if as_json:
        print_json({"splits": bool(state.undropped), "partitions": rows})
    else:
        table = Table("partition", "does")
        for row in rows:
            table.add_row(str(row["partition"]), str(row["does"]))
        console.print(table)
        if state.undropped:
            typer.echo(f"A split runs: {state.in_words()}.")
    leave()


@commands.command(epilog=examples("groupd partitions split", "groupd partitions split --no-wait"))
def split(
    wait: WaitOption = True,
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: NodeOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Double the number of offsets partitions, while groups are served.

    Half of the groups of partition p move to partition p + N, which has its replicas on the same nodes; each
    group is served by one of the two at any time, and its members see what they see in a failover. Refused
    while a group of replicas has no majority, and while another split runs.
    """
    with errors():
        tier = _reached(data_dir, bootstrap, command_config)
        state = tier.begin()
        if not as_json:
            typer.echo(f"{state.before} offsets partitions become {state.partitions}.")
        if wait:
            state = tier.wait_until_done(say(as_json))
    if as_json:
        print_json({"done": not state.undropped, "partitions": state.partitions})
    elif wait:
        typer.echo(f"The tier has {state.partitions} offsets partitions.")
    leave()


def _reached(data_dir: Path, bootstrap: str | None, command_config: Path | None) -> PartitionSplit:
    reached = reach(data_dir, bootstrap, command_config)
    return PartitionSplit(reached.tier, reached.data_dir)
