"""`groupd acls`: who may do what, of this tier or of any Kafka."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.cli.common import (
    DATA_DIR_DEFAULT,
    BootstrapOption,
    DataDirOption,
    JsonOption,
    errors,
    examples,
    print_json,
)
from cluster.cli.kafka import CommandConfigOption, print_table, security_for

if TYPE_CHECKING:
    from cluster.kafka_security import KafkaSecurity, Rule

commands = typer.Typer(
    no_args_is_help=True,
    help="List, add and remove ACLs (with authorizer = acl).",
    rich_markup_mode="rich",
    epilog=examples("groupd acls add User:alice read group:orders", "groupd acls list"),
)
PrincipalArgument = Annotated[str, typer.Argument(help="User:NAME, or User:* for everybody.")]
OperationArgument = Annotated[str, typer.Argument(help="read, write, describe, delete, all, ...")]
ResourceArgument = Annotated[
    str, typer.Argument(help="topic:NAME, group:NAME, transactional-id:NAME (NAME * is all), or cluster.")
]
PrefixedOption = Annotated[bool, typer.Option("--prefixed", help="Every resource whose name begins so.")]
HostOption = Annotated[str, typer.Option(help="Where requests come from: an IP address, or *.")]
DenyOption = Annotated[bool, typer.Option("--deny", help="Forbid instead of allow.")]


def register(app: typer.Typer) -> None:
    app.add_typer(commands, name="acls")


@commands.command("list", epilog=examples("groupd acls list", "groupd acls list --principal User:alice"))
def list_(
    principal: Annotated[str | None, typer.Option(help="Only this principal's ACLs.")] = None,
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: BootstrapOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List ACLs."""
    with errors():
        acls = security_for(bootstrap, command_config, data_dir).list_acls(principal)
    if as_json:
        print_json(acls)
    elif acls:
        columns = ("PRINCIPAL", "PERMISSION", "OPERATION", "RESOURCE", "NAME", "PATTERN", "HOST")
        print_table(columns, [list(acl.values()) for acl in acls])
    else:
        typer.echo("There are no ACLs.")


@commands.command(
    epilog=examples(
        "groupd acls add User:alice read group:orders",
        "groupd acls add User:alice read topic:orders- --prefixed",
        "groupd acls add User:mallory all topic:* --deny --host 192.0.2.7",
    )
)
def add(
    principal: PrincipalArgument,
    operation: OperationArgument,
    resource: ResourceArgument,
    prefixed: PrefixedOption = False,
    host: HostOption = "*",
    deny: DenyOption = False,
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: BootstrapOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Allow or forbid an operation on a resource."""
    words = (principal, operation, resource, prefixed, host, deny)
    _change(lambda kafka, rule: kafka.add_acl(rule), words, (bootstrap, command_config, data_dir))
    _say("added", words, as_json)


@commands.command(epilog=examples("groupd acls remove User:alice read group:orders"))
def remove(
    principal: PrincipalArgument,
    operation: OperationArgument,
    resource: ResourceArgument,
    prefixed: PrefixedOption = False,
    host: HostOption = "*",
    deny: DenyOption = False,
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: BootstrapOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove an ACL, named as it was added."""
    words = (principal, operation, resource, prefixed, host, deny)
    _change(lambda kafka, rule: kafka.remove_acl(rule), words, (bootstrap, command_config, data_dir))
    _say("removed", words, as_json)


Words = tuple[str, str, str, bool, str, bool]


def _change(
    change: Callable[[KafkaSecurity, Rule], None],
    words: Words,
    where: tuple[str | None, Path | None, Path],
) -> None:
    with errors():
        from cluster.kafka_security import Rule

        change(security_for(*where), Rule(*words))


def _say(done: str, words: Words, as_json: bool) -> None:
    principal, operation, resource, prefixed, host, deny = words
    if as_json:
        print_json({done: {"principal": principal, "operation": operation, "resource": resource}})
        return
    what = f"{resource}*" if prefixed else resource
    at = "" if host == "*" else f" from {host}"
    typer.echo(f"{done.capitalize()}: {principal} {'may not' if deny else 'may'} {operation} {what}{at}.")
