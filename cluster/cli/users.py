"""`groupd users`: who may authenticate, of this tier or of any Kafka."""

from __future__ import annotations

import sys
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
from cluster.tier_file import TierError

if TYPE_CHECKING:
    from collections.abc import Sequence

BOTH = ("SCRAM-SHA-256", "SCRAM-SHA-512")
commands = typer.Typer(
    no_args_is_help=True,
    help="List, add and remove users (SCRAM credentials).",
    rich_markup_mode="rich",
    epilog=examples("groupd users add alice", "groupd users list"),
)


def register(app: typer.Typer) -> None:
    app.add_typer(commands, name="users")


@commands.command("list", epilog=examples("groupd users list", "groupd users list --json"))
def list_(
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: BootstrapOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List users with their mechanisms."""
    with errors():
        users = security_for(bootstrap, command_config, data_dir).list_users()
    if as_json:
        print_json(users)
    elif users:
        print_table(("USER", "MECHANISM", "ITERATIONS"), [list(user.values()) for user in users])
    else:
        typer.echo("There are no users.")


@commands.command(
    epilog=examples("groupd users add alice", "pass kafka/alice | groupd users add alice --password-stdin")
)
def add(
    user: Annotated[str, typer.Argument(help="The user's name.")],
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password from a pipe.")
    ] = False,
    mechanism: Annotated[list[str] | None, typer.Option(help="The SCRAM mechanism; by default both.")] = None,
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: BootstrapOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a user, or give one another password."""
    with errors():
        mechanisms: Sequence[str] = mechanism or BOTH
        password = _password(password_stdin)
        security_for(bootstrap, command_config, data_dir).add_user(user, password, mechanisms)
    if as_json:
        print_json({"added": user, "mechanisms": list(mechanisms)})
    else:
        typer.echo(f"User {user} may authenticate by {' and '.join(mechanisms)}.")


def _password(from_pipe: bool) -> str:
    if from_pipe:
        password = sys.stdin.readline().rstrip("\n")
    elif sys.stdin.isatty():
        password = str(typer.prompt("Password", hide_input=True, confirmation_prompt=True))
    else:
        raise TierError("there is nobody to ask for the password: pipe it in with --password-stdin")
    if not password:
        raise TierError("the password is empty")
    return password


@commands.command(epilog=examples("groupd users remove alice"))
def remove(
    user: Annotated[str, typer.Argument(help="The user's name.")],
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: BootstrapOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove a user: it cannot authenticate again. Connections that it has stay."""
    with errors():
        security_for(bootstrap, command_config, data_dir).remove_user(user)
    if as_json:
        print_json({"removed": user})
    else:
        typer.echo(f"User {user} is removed.")
