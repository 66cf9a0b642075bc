"""`groupd groups`: list and describe consumer groups, of this tier or of any Kafka."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from cluster.cli.common import (
    DATA_DIR_DEFAULT,
    BootstrapOption,
    DataDirOption,
    JsonOption,
    console,
    errors,
    examples,
    print_json,
)
from cluster.cli.topics import admin_for

commands = typer.Typer(
    no_args_is_help=True,
    help="List and describe groups.",
    rich_markup_mode="rich",
    epilog=examples("groupd groups list", "groupd groups describe orders"),
)


def register(app: typer.Typer) -> None:
    app.add_typer(commands, name="groups")


@commands.command("list", epilog=examples("groupd groups list", "groupd groups list --bootstrap kafka:9092"))
def list_(
    data_dir: DataDirOption = DATA_DIR_DEFAULT, bootstrap: BootstrapOption = None, as_json: JsonOption = False
) -> None:
    """List groups with type and state."""
    with errors():
        groups = admin_for(bootstrap, data_dir).list_groups()
    if as_json:
        print_json(groups)
        return
    if not groups:
        typer.echo("There are no groups.")
        return
    table = Table("group", "type", "state", box=None, pad_edge=False)
    for group in groups:
        table.add_row(group["group"], group["type"] or "-", group["state"] or "-")
    console.print(table)


@commands.command(epilog=examples("groupd groups describe billing", "groupd groups describe billing --json"))
def describe(
    group: Annotated[str, typer.Argument(help="The group id.")],
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a group's state, members and what they own, committed offsets and lag."""
    with errors():
        described = admin_for(bootstrap, data_dir).describe_group(group)
    if as_json:
        print_json(described)
        return
    console.print(
        f"{described['group']}  {described['type']}  {described['state']}  "
        f"assignor {described['assignor'] or '-'}  coordinator {described['coordinator']}"
    )
    console.print(_member_table(described["members"]))
    if described["offsets"]:
        console.print(_offset_table(described["offsets"]))


def _member_table(members: list[dict[str, Any]]) -> Table:
    table = Table("member", "client", "host", "partitions", box=None, pad_edge=False)
    for member in members:
        owned: dict[str, list[str]] = {}
        for topic, number in member["partitions"]:
            owned.setdefault(topic, []).append(str(number))
        partitions = "; ".join(f"{topic} {','.join(numbers)}" for topic, numbers in owned.items())
        table.add_row(member["member_id"], member["client_id"], member["host"], partitions or "-")
    return table


def _offset_table(offsets: list[dict[str, Any]]) -> Table:
    keys = ("topic", "partition", "committed", "end", "lag", "member_id")
    table = Table(*keys, box=None, pad_edge=False)
    for row in offsets:
        table.add_row(*("-" if row[key] is None else str(row[key]) for key in keys))
    return table
