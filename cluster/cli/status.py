"""`groupd status`: what runs, who leads, who is behind."""

from __future__ import annotations

import typer

from cluster import lifecycle, tier_file
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
from cluster.replica_changes import present
from cluster.tier import gather_status
from cluster.tier_actors import actors_of


def register(app: typer.Typer) -> None:
    app.command("status", epilog=examples("groupd status", "groupd status --json --data-dir ./groupd-data"))(
        status
    )


def status(data_dir: DataDirOption = DATA_DIR_DEFAULT, as_json: JsonOption = False) -> None:
    """Show nodes, partitions with leader and followers' lag, connections and groups.

    Exit code 1 if the tier does not run, or if a partition has no leader or an actor a problem.
    """
    with errors():
        tier, running = tier_file.require_running(data_dir)
        lifecycle.attach_to(data_dir, tier, running)
        tier = present(tier)
        spec = lifecycle.spec_of(tier, data_dir, running)
        statuses = gather_status(tier.namespace, [actor.name for actor in actors_of(spec)])
        shown = screen.summary(tier, data_dir, statuses)
        if as_json:
            print_json(shown)
        else:
            screen.show_status(console, shown)
        leave(0 if shown["healthy"] else EXIT_FAILED)
