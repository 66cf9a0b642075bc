"""`groupd nodes`: the nodes of a running tier, and how to add, drain and remove them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from actors.ground.image import ACTIVE, DRAINING, JOINING, LOST
from cluster import lifecycle, tier_file
from cluster.cli.common import (
    DATA_DIR_DEFAULT,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
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
from cluster.node_changes import Left, NodeChanges, NodeRow
from cluster.node_plan import Wanted
from cluster.replica_changes import ReplicaChanges
from cluster.tier_file import hint

DUTIES = {ACTIVE: "active", DRAINING: "draining", LOST: "lost", JOINING: "joining"}

commands = typer.Typer(
    no_args_is_help=True,
    help="Show, add, drain and remove the nodes of a running tier.",
    rich_markup_mode="rich",
    epilog=examples("groupd nodes list", "groupd nodes add", "groupd nodes drain 1", "groupd nodes remove 1"),
)
NodeArgument = Annotated[
    int, typer.Argument(metavar="NODE", help="The node's id, as `groupd nodes list` shows it.", min=0)
]


def register(app: typer.Typer) -> None:
    app.add_typer(commands, name="nodes")


@commands.command(name="list", epilog=examples("groupd nodes list", "groupd nodes list --json"))
def list_(
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: NodeOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show every node: where it is, its duty, how many replicas it has and offsets partitions it leads.

    Exit code 1 if a node does not answer.
    """
    with errors():
        rows = _reached(data_dir, bootstrap, command_config).rows()
    if as_json:
        print_json([_fields(row) for row in rows])
    else:
        _show(rows)
    leave(0 if all(row.node.alive for row in rows) else EXIT_FAILED)


@commands.command(
    epilog=examples(
        "groupd nodes add",
        "groupd nodes add --port 19092 --rack b",
        "groupd nodes add --machine 10.0.0.4:9900",
    )
)
def add(
    machine: Annotated[
        str | None, typer.Option(help="host:port of the machine that is to have the node.")
    ] = None,
    ray_node: Annotated[
        str | None, typer.Option(help="Address of the machine of a Ray cluster that is to have it.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to bind and advertise.")] = None,
    port: Annotated[int | None, typer.Option(help="The node's port; default: the next one.")] = None,
    rack: Annotated[str | None, typer.Option(help="The node's rack or zone (`broker.rack`).")] = None,
    node_id: Annotated[int | None, typer.Option("--id", help="The node's id; default: the next.")] = None,
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Add a node to a running tier. It gets its share of replicas and leaders by and by.

    A node that cannot be reached is not added.
    """
    with errors():
        changes = _changes(data_dir)
        node = changes.add(Wanted(node_id, host, port, rack, machine, ray_node))
        changes.note(data_dir)
        if as_json:
            print_json(next(_fields(row) for row in changes.rows() if row.node.node_id == node.node_id))
        else:
            typer.echo(
                f"Node {node.node_id} is up at {node.host}:{node.port}. It gets its share by itself; "
                f"{hint('nodes list', data_dir)} shows how far that is."
            )
    leave()


@commands.command(
    epilog=examples("groupd nodes drain 1", "groupd nodes drain 1 --no-wait", "groupd nodes drain 1 --cancel")
)
def drain(
    node: NodeArgument,
    cancel: Annotated[bool, typer.Option("--cancel", help="End a drain: the node is kept.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until nothing is left, or return at once.")
    ] = True,
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: NodeOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have other nodes take a node's replicas and leaders, while clients are served.

    Refused if the other nodes are fewer than the copies of an offsets partition. Ctrl-C does not end the
    drain.
    """
    with errors():
        changes = _reached(data_dir, bootstrap, command_config)
        if cancel:
            changes.keep(node)
            _say(as_json, {"node_id": node, "duty": "active"}, f"Node {node} holds replicas again.")
        changes.drain(node)
        if wait:
            _wait(changes, node, data_dir, as_json=as_json)
        _say(
            as_json,
            {"node_id": node, "duty": "draining", "done": wait},
            f"Nothing is left on node {node}; {hint(f'nodes remove {node}', data_dir)} removes it."
            if wait
            else f"Node {node} gives up what it holds; {hint('nodes list', data_dir)} shows how far that is.",
        )


@commands.command(epilog=examples("groupd nodes remove 1", "groupd nodes remove 1 --lost"))
def remove(
    node: NodeArgument,
    lost: Annotated[
        bool, typer.Option("--lost", help="Give up a node whose machine is gone for good.")
    ] = False,
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: NodeOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove a drained node: its port closes, and clients are not told of it any more.

    Refused while the node holds a replica. With --lost, refused while the node answers.
    """
    with errors():
        changes = _reached(data_dir, bootstrap, command_config)
        if lost:
            changes.give_up(node)
            _wait(changes, node, data_dir, as_json=as_json)
            changes.wait_until_gone(node)
        else:
            changes.remove(node)
        if bootstrap is None and command_config is None:
            changes.note(data_dir)
        _say(as_json, {"node_id": node, "removed": True}, f"Node {node} is removed.")


def _changes(data_dir: Path) -> NodeChanges:
    tier, running = tier_file.require_running(data_dir)
    lifecycle.attach_to(data_dir, tier, running)
    return NodeChanges(tier, ReplicaChanges(tier, data_dir))


def _reached(data_dir: Path, bootstrap: str | None, command_config: Path | None) -> NodeChanges:
    reached = reach(data_dir, bootstrap, command_config)
    return NodeChanges(reached.tier, ReplicaChanges(reached.tier, reached.data_dir))


def _wait(changes: NodeChanges, node: int, data_dir: Path, *, as_json: bool) -> None:
    try:
        with _progress(as_json) as progress:
            changes.wait_until_empty(node, progress)
    except KeyboardInterrupt:
        fail(
            f"this command ends, and node {node} goes on giving up what it holds: "
            f"{hint('nodes list', data_dir)} shows how far it is, "
            f"{hint(f'nodes drain {node} --cancel', data_dir)} ends that",
            EXIT_INTERRUPTED,
        )


@contextmanager
def _progress(silent: bool) -> Iterator[Left]:
    """Yield a function that shows how many replicas are left: a bar, or a line whenever it changes."""
    if not console.is_terminal or silent:
        yield _lines(silent)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("replicas moved", total=None)
        most = 0

        def show(left: int) -> None:
            nonlocal most
            most = max(most, left)
            bar.update(task, total=most, completed=most - left)

        yield show


def _lines(silent: bool) -> Left:
    said: set[int] = set()

    def show(left: int) -> None:
        if not silent and left not in said:
            said.add(left)
            typer.echo(f"{left} replicas left")

    return show


def _say(as_json: bool, fields: dict[str, Any], words: str) -> None:
    if as_json:
        print_json(fields)
    else:
        typer.echo(words)
    leave()


def _fields(row: NodeRow) -> dict[str, Any]:
    spec = row.node.spec
    return {
        "node_id": spec.node_id,
        "host": spec.host,
        "port": spec.port,
        "rack": spec.rack,
        "machine": spec.elsewhere,
        "duty": DUTIES[row.node.duty],
        "alive": row.node.alive,
        "replicas": row.replicas,
        "leads": row.node.leads,
    }


def _show(rows: list[NodeRow]) -> None:
    table = Table("node", "address", "rack", "machine", "duty", "replicas", "leads")
    for each in map(_fields, rows):
        cells = [each["node_id"], f"{each['host']}:{each['port']}", each["rack"], each["machine"]]
        cells += [
            each["duty"] if each["alive"] else f"{each['duty']}, silent",
            each["replicas"],
            each["leads"],
        ]
        style = "red" if not each["alive"] else None if each["duty"] == "active" else "yellow"
        table.add_row(*("-" if cell is None else str(cell) for cell in cells), style=style)
    console.print(table)
