"""`groupd leaders`: which replica leads each offsets partition, and how to move that."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from actors import runtime
from actors.ground.spec import partition_group
from actors.runtime import ActorCallError
from cluster import lifecycle, tier_file
from cluster.cli.common import (
    DATA_DIR_DEFAULT,
    EXIT_FAILED,
    DataDirOption,
    JsonOption,
    console,
    errors,
    examples,
    fail,
    leave,
    print_json,
)
from cluster.cli.kafka import CommandConfigOption
from cluster.cli.reach import NodeOption, reach
from cluster.cli.tables import Table
from cluster.group_leaders import GroupLeaders
from cluster.tier import gather_status

MOVE_TIMEOUT_S = 10.0
"""How long, in seconds, a move may take: longer than an actor waits for its heir."""

commands = typer.Typer(
    rich_markup_mode="rich",
    epilog=examples("groupd leaders", "groupd leaders move 0 --node 2"),
)


def register(app: typer.Typer) -> None:
    app.add_typer(commands, name="leaders")


@commands.callback(invoke_without_command=True)
def leaders(
    context: typer.Context,
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: NodeOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which replica leads each offsets partition, or move leadership.

    Exit code 1 if a partition has no leader.
    """
    if context.invoked_subcommand is not None:
        return
    with errors():
        rows = _rows(reach(data_dir, bootstrap, command_config).leaders)
    if as_json:
        print_json(rows)
    else:
        _show(rows)
    leave(EXIT_FAILED if any(row["leader"] is None for row in rows) else 0)


@commands.command(epilog=examples("groupd leaders move 0", "groupd leaders move 0 --to 2 --json"))
def move(
    partition: Annotated[int, typer.Argument(help="The number of the offsets partition.", min=0)],
    to: Annotated[
        int | None,
        typer.Option(help="The replica that is to lead; default: the one furthest in the log.", min=0),
    ] = None,
    node: Annotated[int | None, typer.Option(help="The node whose replica is to lead.", min=1)] = None,
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: NodeOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Hand the leadership of a partition to another replica, without losing a request.

    The controller gives leadership back to the preferred replica after a while.
    """
    with errors():
        moved = _move(reach(data_dir, bootstrap, command_config).leaders, partition, to, node)
    if as_json:
        print_json(moved)
    else:
        typer.echo(
            f"Partition {partition}: replica {moved['to']} on node {moved['node_id']} leads; "
            f"replica {moved['from']} handed over in {moved['ms']:g} ms."
        )
    leave()


def attached(data_dir: Path) -> GroupLeaders:
    """Return the leaders of the tier that runs in a directory. Raises TierError."""
    tier, running = tier_file.require_running(data_dir)
    lifecycle.attach_to(data_dir, tier, running)
    return GroupLeaders(lifecycle.spec_of(tier, data_dir, running))


def _rows(tier: GroupLeaders) -> list[dict[str, Any]]:
    """Return one row for each partition. All replicas are asked at once."""
    groups = [partition_group(partition) for partition in range(tier.spec.offsets_partitions)]
    names = [actor.name for group in groups for actor in tier.actors[group]]
    statuses = gather_status(tier.spec.namespace, names)
    rows = []
    for partition, group in enumerate(groups):
        leader, preferred = tier.leading(group, statuses), tier.actors[group][0]
        rows.append(
            {
                "partition": partition,
                "leader": None if leader is None else leader.replica_id,
                "node_id": None if leader is None else leader.node_id,
                "term": None if leader is None else statuses[leader.name]["term"],
                "preferred": preferred.replica_id,
                "is_preferred": leader is preferred,
            }
        )
    return rows


def _show(rows: list[dict[str, Any]]) -> None:
    table = Table("partition", "leader", "node", "preferred", "term")
    for row in rows:
        cells = (row["partition"], row["leader"], row["node_id"], row["preferred"], row["term"])
        style = None if row["is_preferred"] else "yellow" if row["leader"] is not None else "bold red"
        table.add_row(*("-" if cell is None else str(cell) for cell in cells), style=style)
    console.print(table)


def _move(tier: GroupLeaders, partition: int, to: int | None, node: int | None) -> dict[str, Any]:
    group = partition_group(partition)
    actors = tier.actors.get(group)
    if actors is None:
        fail(f"partition {partition}: this tier has 0 to {tier.spec.offsets_partitions - 1}")
    leader = tier.leading(group, tier.statuses(group))
    if leader is None:
        fail(f"partition {partition} has no leader now: try again")
    nodes = {actor.replica_id: actor.node_id for actor in actors}
    if to is not None and to not in nodes:
        fail(f"partition {partition} has no replica {to}: it has {', '.join(map(str, nodes))}")
    wanted = [
        replica
        for replica, node_id in nodes.items()
        if to in (None, replica) and node in (None, node_id) and replica != leader.replica_id
    ]
    if not wanted:
        there = ", ".join(f"{replica} on node {node_id}" for replica, node_id in nodes.items())
        fail(
            f"partition {partition} is led by replica {leader.replica_id} on node {leader.node_id}, and has "
            f"no other replica as asked for; it has replicas {there}"
        )
    # If nothing is named, the leader itself knows best which follower is furthest.
    chosen = wanted[0] if to is not None or node is not None else None
    handle = runtime.find(leader.name, tier.spec.namespace)
    try:
        moved = runtime.await_call(handle, "move_leadership", chosen, timeout_s=MOVE_TIMEOUT_S)
    except (ActorCallError, TimeoutError) as error:
        fail(f"{leader.name}: {error}; `groupd leaders` shows who leads")
    if not moved:
        fail(f"{leader.name} cannot hand over now: no such replica is connected, or a transfer is under way")
    return {"partition": partition, "from": leader.replica_id, "node_id": nodes.get(moved["to"]), **moved}
