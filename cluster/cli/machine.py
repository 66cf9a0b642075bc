"""`groupd machine`: keep a machine for tiers that live on several, and show which there are."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from actors.ground.calls import ActorCallError
from actors.machines.far import Machines
from cluster import child_process, machine_secret, tier_file
from cluster.cli.common import JsonOption, console, errors, examples, leave, print_json
from cluster.cli.tables import print_table
from cluster.machine import identity
from cluster.machine.identity import Identity
from cluster.tier_file import TierError

PORT_DEFAULT = 9_900
DIRECTORY_DEFAULT = Path("groupd-machine")

DirectoryOption = Annotated[
    Path, typer.Option("--dir", help="Directory of this machine's identity, secret and actors.")
]

machine = typer.Typer(
    name="machine",
    help="Machines of a tier that lives on several.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


def register(app: typer.Typer) -> None:
    app.add_typer(machine)


@machine.command(
    "up",
    epilog=examples(
        "groupd machine up --head --host 10.0.0.1",
        "groupd machine up --join 10.0.0.1:9900 --secret machine-secret --host 10.0.0.2",
        "groupd machine up      (on a directory that was used before)",
    ),
)
def up(
    host: Annotated[str | None, typer.Option(help="This machine's address, as the others reach it.")] = None,
    port: Annotated[int, typer.Option(help="Port of this machine's agent.")] = PORT_DEFAULT,
    head: Annotated[bool, typer.Option("--head", help="Be the first of new machines.")] = False,
    join: Annotated[str | None, typer.Option(help="host:port of a machine to join.")] = None,
    secret: Annotated[
        Path | None, typer.Option(help="File of the machines' secret, from the first one's directory.")
    ] = None,
    directory: DirectoryOption = DIRECTORY_DEFAULT,
) -> None:
    """Keep a Ray for this machine alone, start its actors, and begin anew whenever it fails; until Ctrl-C.

    The first machine makes the secret; whoever has it may join, and may run code on every machine. With
    another --host, a machine that was used before goes on at that address, and the others follow.
    """
    with errors():
        tier_file.prepare(directory)
        directory = directory.resolve()
        known = identity.read(directory)
        if known is None:
            if head == (join is not None):
                raise TierError(
                    f"{directory} is no machine's yet: --head makes the first, --join HOST:PORT another one"
                )
            if host is None:
                raise TierError("--host is missing: this machine's address, as the others reach it")
            known = _new(directory, host, port, None if head else _given(secret))
        elif head:
            raise TierError(f"{directory} is machine {known.address}'s already: leave --head out")
        elif host is not None and f"{host}:{port}" != known.address:
            _check_address(host, port)
            machine_secret.read(directory)
            now = f"{host}:{port}"
            moves = ((known.address, now, time.time_ns() // 1_000_000),)
            known = identity.with_moves(replace(known, address=now), moves)
            identity.write(directory, known)
        machine_secret.read(directory)
        arguments = [str(directory), *([] if join is None else [join])]
    command = child_process.python("cluster.machine.agent", *arguments)
    os.execve(command[0], command, child_process.environment())  # noqa: S606


def _new(directory: Path, host: str, port: int, secret: Path | None) -> Identity:
    """Make a directory that of a new machine, the first one if it has no secret to take. Raises TierError."""
    _check_address(host, port)
    if secret is None:
        return identity.begin(directory, f"{host}:{port}")
    machine_secret.take(directory, secret)
    known = Identity(cluster="", address=f"{host}:{port}")
    identity.write(directory, known)
    return known


def _given(secret: Path | None) -> Path:
    if secret is None:
        raise TierError(
            f"--secret is missing: the file {machine_secret.NAME} of the first machine's directory"
        )
    return secret


def _check_address(host: str, port: int) -> None:
    try:
        tier_file.try_to_listen(host.strip("[]"), port)
    except OSError as error:
        raise TierError(f"this machine cannot listen on {host}:{port}: {error.strerror or error}") from None


@machine.command("list", epilog=examples("groupd machine list", "groupd machine list --json"))
def list_machines(directory: DirectoryOption = DIRECTORY_DEFAULT, as_json: JsonOption = False) -> None:
    """Show every machine, and whether it answers this one."""
    with errors():
        answers = _answers(directory)
        if as_json:
            print_json(answers)
            leave()
        rows = [(address, "yes" if answer else "no") for address, answer in sorted(answers.items())]
        print_table(console, ("machine", "answers"), rows)
    leave()


def _answers(directory: Path) -> dict[str, bool]:
    """Return every machine that this one's agent knows, and whether it answers. Raises TierError."""
    known = identity.read(directory)
    if known is None:
        raise TierError(f"{directory} is no machine's; `groupd machine up` makes one")
    secret = machine_secret.read(directory)
    try:
        return Machines([known.address], secret.encode()).list_machines()
    except (ActorCallError, TimeoutError) as error:
        raise TierError(str(error) or f"{known.address} does not answer") from None
