"""`groupd replicas`: where the replicas of the Raft groups are, and how to move and replace them by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from actors.ground.spec import CONTROLLER_GROUP, partition_group
from actors.metadata.replicas import in_words
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
from cluster.cli.reach import NodeOption, Reached, reach
from cluster.cli.tables import Table
from cluster.placement import CONTROLLERS_MAX
from cluster.replica_changes import ReplicaChanges
from cluster.tier import gather_status
from cluster.tier_actors import actors_of
from cluster.tier_file import TierError
from storage.raft.members import MEMBERS_MAX, incarnation_of

commands = typer.Typer(
    no_args_is_help=True,
    help="Show, move, replace and resize the replicas of offsets partitions and of the controller.",
    rich_markup_mode="rich",
    epilog=examples(
        "groupd replicas list", "groupd replicas move 0 2 --to 3", "groupd replicas resize --all 3"
    ),
)
GroupArgument = Annotated[
    str, typer.Argument(metavar="GROUP", help="The number of an offsets partition, or `controller`.")
]
ReplicaArgument = Annotated[
    int,
    typer.Argument(
        metavar="REPLICA", help="The number of the replica, as `groupd replicas list` shows it.", min=0
    ),
]
WaitOption = Annotated[
    bool, typer.Option("--wait/--no-wait", help="Wait until the change is done, or return at once.")
]


def register(app: typer.Typer) -> None:
    app.add_typer(commands, name="replicas")


@commands.command(name="list", epilog=examples("groupd replicas list", "groupd replicas list --json"))
def list_(
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: NodeOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show every replica: its node, whether it votes, and how far it is behind.

    Exit code 1 if one of them has a problem or does not count.
    """
    with errors():
        rows = _rows(reach(data_dir, bootstrap, command_config))
    if as_json:
        print_json(rows)
    else:
        _show(rows)
    leave(EXIT_FAILED if any(row["problem"] for row in rows) else 0)


@commands.command(epilog=examples("groupd replicas replace 0 2", "groupd replicas replace controller 1"))
def replace(
    group: GroupArgument,
    replica: ReplicaArgument,
    wait: WaitOption = True,
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: NodeOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have a replica begin anew on its node, as a new member that its peers build.

    Its directory is set aside beside it, as <directory>.damaged-<n>; the newest 2 are kept. Refused while
    the group's majority needs the replica.
    """
    with errors():
        changes, name = _changes(reach(data_dir, bootstrap, command_config), group)
        changes.replace(name, replica, say(as_json))
        _finish(changes, [name], wait=wait, as_json=as_json)


@commands.command(
    epilog=examples("groupd replicas move 0 2 --to 3", "groupd replicas move controller 0 --to 2")
)
def move(
    group: GroupArgument,
    replica: ReplicaArgument,
    to: Annotated[int, typer.Option(help="The id of the node that the replica moves to.", min=0)],
    wait: WaitOption = True,
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: NodeOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have a new replica on another node take a replica's place, while clients are served.

    The new one gets a number of its own; the old one leaves once the new one votes, and its directory is
    removed.
    """
    with errors():
        changes, name = _changes(reach(data_dir, bootstrap, command_config), group)
        changes.move(name, replica, to)
        _finish(changes, [name], wait=wait, as_json=as_json)


@commands.command(epilog=examples("groupd replicas resize 0 3", "groupd replicas resize --all 3"))
def resize(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="[GROUP] COUNT",
            help="An offsets partition or `controller`, unless --all; and the number of replicas.",
        ),
    ],
    every: Annotated[
        bool, typer.Option("--all", help="Resize all offsets partitions and the controller.")
    ] = False,
    wait: WaitOption = True,
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: NodeOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give a group more or fewer replicas, while clients are served.

    3 survive the loss of 1. With --all the controller gets as many, at most 3, and an odd number.
    """
    with errors():
        count = _count(arguments, every=every)
        reached = reach(data_dir, bootstrap, command_config)
        changes, group = _changes(reached, CONTROLLER_GROUP if every else arguments[0])
        wanted = _all_counts(reached, count) if every else {group: count}
        for name, replicas in wanted.items():
            changes.resize(name, replicas)
            if wait:  # one after the other: each begins with a copy of what its group knows
                changes.wait([name], say(as_json))
        _finish(changes, list(wanted), wait=wait, as_json=as_json)


def _count(arguments: Sequence[str], *, every: bool) -> int:
    if len(arguments) != 2 - every:
        raise TierError("resize wants a group and a number of replicas, or --all and a number")
    count = arguments[-1]
    if not count.isdecimal() or not 1 <= int(count) <= MEMBERS_MAX:
        raise TierError(f"{count} replicas: a whole number from 1 to {MEMBERS_MAX} is allowed")
    return int(count)


def _all_counts(reached: Reached, count: int) -> dict[str, int]:
    controllers = min(count, CONTROLLERS_MAX)
    partitions = range(len(reached.tier.placement))
    return {CONTROLLER_GROUP: controllers - 1 + controllers % 2} | dict.fromkeys(
        map(partition_group, partitions), count
    )


def _changes(reached: Reached, group: str) -> tuple[ReplicaChanges, str]:
    changes = ReplicaChanges(reached.tier, reached.data_dir)
    return changes, changes.group_named(group)


def _finish(changes: ReplicaChanges, groups: list[str], *, wait: bool, as_json: bool) -> None:
    placements = changes.wait(groups, say(as_json)) if wait else changes.placements()
    if as_json:
        print_json(
            {
                "done": wait,
                "groups": {
                    group: [{"replica": r, "node_id": n} for r, n in placements[group].copies]
                    for group in groups
                },
            }
        )
    else:
        for group in groups:
            verb = "has" if wait else "is to have"
            typer.echo(f"{group} {verb} the replicas {in_words(placements[group].copies)}.")
    leave()


def say(silent: bool) -> Callable[[str], None]:
    """Return a function that prints one line whenever there is news."""
    said: set[str] = set()

    def say(what: str) -> None:
        if not silent and what not in said:
            said.add(what)
            typer.echo(what)

    return say


def _rows(reached: Reached) -> list[dict[str, Any]]:
    statuses = gather_status(reached.spec.namespace, [actor.name for actor in actors_of(reached.spec)])
    shown = screen.summary(reached.tier, reached.data_dir, statuses)
    groups = [(CONTROLLER_GROUP, shown["controller"])]
    groups += [(str(partition["partition"]), partition) for partition in shown["partitions"]]
    return [
        {
            "group": group,
            "replica": replica["replica"],
            "node_id": replica["node_id"],
            "role": {True: "voter", False: "learner", None: None}[replica["votes"]],
            "leads": replica["serving"],
            "incarnation": None if replica["member_id"] is None else incarnation_of(replica["member_id"]),
            "lag": replica["lag"],
            "problem": replica["problem"] or replica["note"],
        }
        for group, row in groups
        for replica in row["replicas"]
    ]


def _show(rows: list[dict[str, Any]]) -> None:
    columns = ("group", "replica", "node", "role", "incarnation", "lag", "problem")
    table = Table(*columns)
    for row in rows:
        role = "leader" if row["leads"] else row["role"]
        keys = ("group", "replica", "node_id")
        cells = [*(row[key] for key in keys), role, row["incarnation"], row["lag"], row["problem"]]
        style = "yellow" if row["problem"] else None
        table.add_row(*("-" if cell is None else str(cell) for cell in cells), style=style)
    console.print(table)
