"""`groupd replicas`: work on the replicas of offsets partitions by hand."""

from __future__ import annotations

from typing import Annotated

import typer

from actors import runtime
from actors.spec import partition_name
from cluster import lifecycle, tier_file
from cluster.cli.common import (
    DATA_DIR_DEFAULT,
    DataDirOption,
    JsonOption,
    errors,
    examples,
    fail,
    leave,
    print_json,
)
from cluster.tier import gather_status

CALL_TIMEOUT_S = 5.0

commands = typer.Typer(
    no_args_is_help=True,
    help="Move leadership of offsets partitions.",
    rich_markup_mode="rich",
    epilog=examples("groupd replicas transfer 0"),
)


def register(app: typer.Typer) -> None:
    app.add_typer(commands, name="replicas")


@commands.callback()
def replicas() -> None:
    """Move leadership of offsets partitions."""


@commands.command(epilog=examples("groupd replicas transfer 0", "groupd replicas transfer 0 --to 2"))
def transfer(
    partition: Annotated[int, typer.Argument(help="The offsets partition.", min=0)],
    to: Annotated[int | None, typer.Option(help="Replica to lead; default: the one furthest.", min=0)] = None,
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Hand the leadership of a partition to another replica, without losing a request.

    The controller gives leadership back to the preferred replica (replica 0) after a while.
    """
    with errors():
        tier, running = tier_file.require_running(data_dir)
        if partition >= len(tier.placement):
            fail(f"partition {partition}: this tier has 0 to {len(tier.placement) - 1}")
        lifecycle.attach_to(data_dir, tier, running)
        names = [partition_name(partition, replica) for replica in range(len(tier.placement[partition]))]
        statuses = gather_status(tier.namespace, names)
        leading = next((name for name in names if statuses[name].get("serving")), None)
        if leading is None:
            fail(f"partition {partition} has no leader now: try again")
        handle = runtime.find(leading, tier.namespace)
        if not runtime.await_call(handle, "transfer", to, timeout_s=CALL_TIMEOUT_S):
            fail(f"{leading} cannot hand over now: no such replica is connected, or a transfer is under way")
    if as_json:
        print_json({"partition": partition, "from": leading})
    else:
        typer.echo(f"{leading} hands the leadership of partition {partition} over.")
    leave()
