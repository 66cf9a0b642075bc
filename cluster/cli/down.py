"""`groupd down`: stop the tier of a data directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cluster import lifecycle, tier_file
from cluster.cli.common import DATA_DIR_DEFAULT, DataDirOption, JsonOption, errors, examples, print_json
from cluster.tier_file import TierError, hint


def register(app: typer.Typer) -> None:
    app.command("down", epilog=examples("groupd down", "groupd down --data-dir /var/lib/groupd"))(down)


def down(
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Stop it though it coordinates the groups of a Kafka cluster: nobody does then."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Stop a tier cleanly and wait until it is gone. Its data is kept.

    A tier that coordinates the groups of a Kafka cluster is not stopped, unless with --force: `groupd detach`
    gives them back to the brokers first.
    """
    with errors():
        if not force:
            _check_detached(data_dir)
        lifecycle.down(data_dir, lambda *_: None)
    if as_json:
        print_json({"stopped": str(data_dir.resolve())})
    else:
        typer.echo(f"The tier in {data_dir} is stopped; its data is kept.")


def _check_detached(data_dir: Path) -> None:
    """Check that no groups of a Kafka cluster are without a coordinator when the tier is stopped. Raises
    TierError. A tier that cannot be asked is stopped all the same: it could not give them back, either."""
    from actors import ray_host
    from actors.ground.upstream_goal import DETACHED
    from cluster.cli.attach import take_over_of

    tier, _ = tier_file.require_running(data_dir)
    if tier.upstream is None:
        return
    try:
        state = take_over_of(data_dir).state()
    except TierError:
        return
    finally:
        ray_host.shutdown()
    if state.goal != DETACHED:
        raise TierError(
            f"the tier coordinates groups of Kafka cluster {state.upstream.cluster_id} ({state.in_words()}), "
            f"which have no coordinator while it is down: {hint('detach', data_dir)} gives them back to the "
            f"brokers, {hint('down --force', data_dir)} stops the tier all the same, and its groups go on "
            "when it is up again"
        )
